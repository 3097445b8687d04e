#include "train/huggingface/plain_reader.hpp"

#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "autograd/core/check.hpp"
#include "train/huggingface/plain_limits.hpp"

namespace heed::train {
namespace {

using data::JsonObject;

constexpr int64_t kLargest = int64_t{1} << 31;

double llama3_frequency(double frequency, double factor, const JsonObject& scaling) {
  const double low = scaling.number("low_freq_factor"), high = scaling.number("high_freq_factor");
  const double original = scaling.number("original_max_position_embeddings");
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return frequency / factor;
  const double smooth = (original / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

PlainReader::PlainReader(const nlohmann::json& json, const std::string& folder, const std::string& config_name)
    : config_(json, config_name), files_(folder), type_(config_.text("model_type")) {
  refuse_what_plain_model_lacks(config_);
  for (const std::string& name : files_.names()) unread_.insert(name);
}

std::unique_ptr<PlainModel::Parts> PlainReader::take() {
  require<DataError>(unread_.empty(), "{}: the class {} has no tensors {}", config_.where(), type_,
                     fmt::join(unread_, ", "));
  return std::move(parts_);
}

int64_t PlainReader::size(const std::string& key) const { return config_.integer(key, 1, kLargest); }

void PlainReader::set_sizes(const char* width, const char* heads) {
  parts().vocab_size = size("vocab_size");
  parts().width = size(width);
  parts().heads = parts().kv_heads = size(heads);
  parts().head_size = parts().width / parts().heads;
  parts().score_scale = 1 / std::sqrt(static_cast<double>(parts().head_size));
}

std::vector<float> PlainReader::tensor(const std::string& name, std::vector<int64_t> shape) {
  const data::SafetensorsEntry* entry = files_.find(name);
  require<DataError>(entry != nullptr, "{}: the files have no tensor {}", config_.where(), name);
  require<DataError>(entry->shape == shape, "{}: tensor {} has the shape ({}), it must be ({})", config_.where(), name,
                     fmt::join(entry->shape, ", "), fmt::join(shape, ", "));
  std::vector<float> values(entry->elements());
  files_.read(name, values);
  unread_.erase(name);
  return values;
}

PlainLinear PlainReader::linear(const std::string& name, int64_t out, int64_t in, bool transposed) {
  PlainLinear result{.out = out, .in = in, .weight = {}, .bias = {}};
  result.weight = tensor(name + ".weight", transposed ? std::vector{in, out} : std::vector{out, in});
  if (transposed) {
    const std::vector<float> stored = result.weight;
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t o = 0; o < out; ++o) result.weight[o * in + i] = stored[i * out + o];
    }
  }
  if (has_bias(name)) result.bias = tensor(name + ".bias", {out});
  return result;
}

bool PlainReader::has_bias(const std::string& name) const {
  if (name == "lm_head" || name == "embed_out" || is("mpt")) return false;
  if (is("gpt2") || is("openai-gpt") || is("bloom")) return true;
  if (is("opt")) return config_.flag_or("enable_bias", true);
  if (is("starcoder2")) return config_.flag_or("use_bias", true);
  const bool in_mlp = name.find(".mlp.") != std::string::npos;
  if (is("gpt_neox")) return in_mlp || config_.flag_or("attention_bias", true);
  if (in_mlp) return (is("llama") || is("arcee")) && config_.flag_or("mlp_bias", false);
  const bool is_output = name.ends_with(".o_proj");
  if (is("qwen2")) return !is_output;
  if (is("stablelm")) return !is_output && config_.flag_or("use_qkv_bias", false);
  return !is("mistral") && !is("phi3") && config_.flag_or("attention_bias", false);
}

PlainNorm PlainReader::norm(const std::string& name, int64_t width) {
  PlainNorm result{.gain = {}, .bias = {}, .is_there = true};
  const std::vector<float> gain = tensor(name + ".weight", {width});
  result.gain.assign(gain.begin(), gain.end());
  if (is_gemma()) {
    for (double& value : result.gain) value += 1;
  }
  if (is("mpt") || parts_->is_rms) return result;
  const std::vector<float> bias = tensor(name + ".bias", {width});
  result.bias.assign(bias.begin(), bias.end());
  return result;
}

PlainLinear PlainReader::rows(const PlainLinear& all, int64_t begin, int64_t count) {
  PlainLinear some{.out = count, .in = all.in, .weight = {}, .bias = {}};
  some.weight.assign(all.weight.begin() + begin * all.in, all.weight.begin() + (begin + count) * all.in);
  if (!all.bias.empty()) some.bias.assign(all.bias.begin() + begin, all.bias.begin() + begin + count);
  return some;
}

void PlainReader::split_thirds(PlainLayer& layer, const PlainLinear& all) {
  const int64_t queries = parts().heads * parts().head_size, keys = parts().kv_heads * parts().head_size;
  layer.q = rows(all, 0, queries);
  layer.k = rows(all, queries, keys);
  layer.v = rows(all, queries + keys, keys);
}

void PlainReader::split_by_head(PlainLayer& layer, const PlainLinear& all) {
  const int64_t size = parts().head_size;
  PlainLinear* targets[] = {&layer.q, &layer.k, &layer.v};
  for (int which = 0; which < 3; ++which) {
    PlainLinear& target = *targets[which];
    target = {.out = parts().width, .in = parts().width, .weight = {}, .bias = {}};
    for (int64_t head = 0; head < parts().heads; ++head) {
      const PlainLinear one = rows(all, (3 * head + which) * size, size);
      target.weight.insert(target.weight.end(), one.weight.begin(), one.weight.end());
      target.bias.insert(target.bias.end(), one.bias.begin(), one.bias.end());
    }
  }
}

void PlainReader::read_head(const std::string& name) {
  const int64_t vocab = parts().vocab_size, width = parts().width;
  if (config_.flag("tie_word_embeddings")) {
    parts().head = {.out = vocab, .in = width, .weight = parts().embedding, .bias = {}};
  } else {
    parts().head = linear(name, vocab, width);
  }
}

void PlainReader::read_embedding(const std::string& name) {
  parts().embedding = tensor(name, {parts().vocab_size, parts().width});
}

void PlainReader::read_projections(PlainLayer& layer, const std::string& prefix, const std::string& output) {
  const int64_t width = parts().width, queries = parts().heads * parts().head_size,
                keys = parts().kv_heads * parts().head_size;
  layer.q = linear(prefix + "q_proj", queries, width);
  layer.k = linear(prefix + "k_proj", keys, width);
  layer.v = linear(prefix + "v_proj", keys, width);
  layer.projection = linear(prefix + output, width, queries);
}

void PlainReader::set_frequencies(double base, double fraction) {
  const auto columns = static_cast<int64_t>(fraction * static_cast<double>(parts().head_size));
  for (int64_t i = 0; i < columns; i += 2) {
    parts().frequencies.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(columns)));
  }
  if (!config_.has("rope_scaling")) return;
  const JsonObject scaling = config_.object("rope_scaling");
  const std::string kind = scaling.text("rope_type");
  const double factor = scaling.number("factor");
  require<DataError>(kind == "linear" || kind == "llama3", "{}: rope_type \"{}\" is not supported", scaling.where(),
                     kind);
  for (double& frequency : parts().frequencies) {
    if (kind == "linear") frequency /= factor;
    if (kind == "llama3") frequency = llama3_frequency(frequency, factor, scaling);
  }
}

}  // namespace heed::train
