// The loss by position of `heed eval --by-position`: how much a model gains from each further token of context.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "train/trainer/evaluator.hpp"

namespace heed::train {

class PositionTable {
 public:
  // The first line of the CSV file. context: the tokens before the target, at least 1; loss: mean in nats.
  static constexpr std::string_view kHeader = "split,context,targets,loss\n";

  // Adds the positions of a split, and returns their table for a terminal, in bins whose upper ends are powers of two.
  std::string add(const std::string& split, const PositionLosses& positions);

  // Writes a row for each position with targets, of all splits. Throws ConfigError as require_replaceable(), Error if
  // the file cannot be written.
  void write(const std::filesystem::path& file) const;
  // Throws ConfigError if the file exists and is not a regular file that begins with kHeader.
  static void require_replaceable(const std::filesystem::path& file);

 private:
  std::string rows_;
};

}  // namespace heed::train
