// Ends generated text at the first of several stop texts to be complete. They may span tokens.
#pragma once

#include <string>
#include <vector>

namespace heed::train {

class StopText {
 public:
  // The stop texts must not be empty.
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Returns the part of the text so far that can be printed and was not returned before: all before a stop text. The
  // beginning of what may become a stop text is held back.
  std::string push(const std::string& text);
  // Whether a stop text was found. Nothing is returned after it.
  bool stopped() const { return stopped_; }
  // The text that was held back; to be called after the last push().
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace heed::train
