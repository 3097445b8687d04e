// What the model classes have in common, for the readers of plain_parts.cpp: sizes, tensors, linear layers, norms.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/json_reader.hpp"
#include "data/io/safetensors.hpp"
#include "train/huggingface/plain_parts.hpp"

namespace heed::train {

// Every function throws DataError: one line with the file and the key or tensor.
class PlainReader {
 public:
  // Keeps a reference to the JSON of config.json, whose name is config_name.
  PlainReader(const nlohmann::json& json, const std::string& folder, const std::string& config_name);

  // What was read. To be called once, at the end: a tensor that was not read by then is refused.
  std::unique_ptr<PlainModel::Parts> take();

  const data::JsonObject& config() const { return config_; }
  PlainModel::Parts& parts() { return *parts_; }

  const std::string& model_type() const { return type_; }
  bool is(std::string_view type) const { return type_ == type; }
  bool is_gemma() const { return is("gemma2") || is("gemma3_text") || is("vaultgemma"); }
  int64_t size(const std::string& key) const;  // a key of config.json

  // The sizes that every class has, from the keys of config.json of these names.
  void set_sizes(const char* width, const char* heads);
  // Of RoPE; fraction: the share of the columns of a head that is rotated.
  void set_frequencies(double base, double fraction);

  PlainLinear linear(const std::string& name, int64_t out, int64_t in, bool transposed = false);
  PlainNorm norm(const std::string& name, int64_t width);
  PlainNorm norm(const std::string& name) { return norm(name, parts_->width); }
  std::vector<float> tensor(const std::string& name, std::vector<int64_t> shape);

  // name: with ".weight".
  void read_embedding(const std::string& name);
  // name: without. Tied if config.json says so.
  void read_head(const std::string& name);
  // q_proj, k_proj, v_proj and the output.
  void read_projections(PlainLayer& layer, const std::string& prefix, const std::string& output);

  // Rows [begin, begin + count) of a linear layer.
  static PlainLinear rows(const PlainLinear& all, int64_t begin, int64_t count);
  // All queries, then all keys, then all values.
  void split_thirds(PlainLayer& layer, const PlainLinear& all);
  // Query, key and value of one head after the other.
  void split_by_head(PlainLayer& layer, const PlainLinear& all);

 private:
  bool has_bias(const std::string& name) const;

  data::JsonObject config_;
  data::SafetensorsFolder files_;
  std::string type_;
  std::set<std::string> unread_;
  std::unique_ptr<PlainModel::Parts> parts_ = std::make_unique<PlainModel::Parts>();
};

}  // namespace heed::train
