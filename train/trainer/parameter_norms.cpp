#include "train/trainer/parameter_norms.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace heed::train {
namespace {

double sum_of_squares(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

}  // namespace

std::string layer_name(const std::string& parameter) {
  constexpr std::string_view kBlocks = "blocks.";
  if (parameter.starts_with(kBlocks)) {
    return fmt::format("block {}",
                       parameter.substr(kBlocks.size(), parameter.find('.', kBlocks.size()) - kBlocks.size()));
  }
  return parameter.find("embedding") != std::string::npos ? "embedding" : "output head";
}

ParameterNormMeter::ParameterNormMeter(const nn::ParameterStore& store) : store_(store) {
  for (const nn::ParameterStore::Entry& entry : store.entries())
    before_.push_back(entry.values.clone().to(Device::cpu));
}

std::vector<ParameterNorms> ParameterNormMeter::measure() const {
  std::vector<ParameterNorms> layers;
  for (size_t i = 0; i < before_.size(); ++i) {
    const nn::ParameterStore::Entry& entry = store_.entries()[i];
    const std::string name = layer_name(entry.name);
    auto layer =
        std::find_if(layers.begin(), layers.end(), [&](const ParameterNorms& one) { return one.layer == name; });
    if (layer == layers.end()) layer = layers.insert(layers.end(), {.layer = name});
    const std::vector<double> after = entry.values.values();
    std::vector<double> update = after;
    const std::vector<double> before = before_[i].values();
    for (size_t j = 0; j < after.size(); ++j) update[j] -= before[j];
    layer->weight += sum_of_squares(after);
    layer->grad += sum_of_squares(entry.tensor.grad().values());
    layer->update += sum_of_squares(update);
  }
  for (ParameterNorms& layer : layers) {
    for (double* const norm : {&layer.weight, &layer.grad, &layer.update}) *norm = std::sqrt(*norm);
  }
  return layers;
}

}  // namespace heed::train
