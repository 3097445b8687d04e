#include "train/run/snapshot.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/core/cuda_backend.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/config/config_schema.hpp"
#include "train/run/checkpoint_match.hpp"

namespace heed::train {
namespace {

using Entry = nn::ParameterStore::Entry;

std::string parameter_name(const Entry& entry) { return "parameters/" + entry.name; }

std::vector<std::string> moments_of(const Trainer& trainer, const Entry& entry) {
  return trainer.optimizer().state_names(entry.tensor.grad());
}

bool has_moment(const Trainer& trainer, const Entry& entry, const std::string& moment) {
  const std::vector<std::string> names = moments_of(trainer, entry);
  return std::find(names.begin(), names.end(), moment) != names.end();
}

// Groups the optimizer's flat state "<moment>.<span>" by moment: the tensors of all spans, empty where a span has none.
// The moments are the same on all ranks, also one that no span of this rank has.
std::map<std::string, std::vector<Tensor>> moments_of(const Trainer& trainer) {
  std::map<std::string, std::vector<Tensor>> moments;
  for (const Entry& entry : trainer.model().parameters().entries()) {
    for (const std::string& moment : moments_of(trainer, entry)) moments[moment];
  }
  for (auto& [moment, tensors] : moments) tensors.resize(trainer.buckets().spans().size());
  for (const auto& [name, flat] : trainer.optimizer().state()) {
    const size_t dot = name.rfind('.');
    moments.at(name.substr(0, dot)).at(std::stoul(name.substr(dot + 1))) = flat;
  }
  return moments;
}

std::vector<Tensor> of_group(const comm::GradBuckets& buckets, int group, const std::vector<Tensor>& by_span) {
  std::vector<Tensor> tensors;
  for (const size_t span : buckets.spans_of(group)) tensors.push_back(by_span.at(span));
  return tensors;
}

std::string moment_name(const std::string& moment, const Entry& entry) {
  return "optimizer/" + moment + "/" + entry.name;
}

// The name of a moment in the checkpoint, as a function of the parameter: empty if it has no such moment.
auto name_of(const Trainer& trainer, const std::string& moment) {
  return [&trainer, moment](const Entry& entry) {
    return has_moment(trainer, entry, moment) ? moment_name(moment, entry) : std::string();
  };
}

template <class F>
void for_each_entry(const nn::ParameterStore& store, int group, F&& f) {
  for (const Entry& entry : store.entries()) {
    if (entry.group == group) f(entry);
  }
}

// The tensors of a group's parameters, found by name, as one flat tensor as long as the group. An empty name: zeros.
template <class Name>
Tensor flat_of(const nn::ParameterStore& store, int group, const CheckpointContent& content, Name name) {
  const Tensor& like = store.groups().at(static_cast<size_t>(group)).gradients;
  const Tensor flat = zeros(like.shape(), like.dtype(), Device::cpu, MemoryCategory::workspace);
  for_each_entry(store, group, [&](const Entry& entry) {
    const Tensor part = flat.slice(entry.offset, entry.shape);
    const std::string stored = name(entry);
    if (!stored.empty()) copy_elements_to(part.ref(), content.tensor(stored, flat.dtype(), entry.shape));
  });
  return flat;
}

// Chooses the CUDA device if possible, whatever device the model was trained on; a train.device on the command line
// decides.
Device device_here(const Config& config) {
  if (config.origin("train.device").kind == OriginKind::command_line) return choose_device(config);
  const bool on_cpu = config.train.device == DeviceChoice::cpu || config.train.precision == DType::f64;
  return on_cpu || !cuda::status().problem.empty() ? Device::cpu : Device::cuda;
}

void load_parameters(const nn::ParameterStore& store, const CheckpointContent& content, EvaluatedWeights weights) {
  for (const Entry& entry : store.entries()) {
    const std::string name =
        weights == EvaluatedWeights::average ? moment_name(optim::kAverageName, entry) : parameter_name(entry);
    copy_elements_to(entry.values.ref(), content.tensor(name, entry.values.dtype(), entry.shape));
  }
  store.update_copies();
}

// Throws ConfigError if keys differ that determine the training: "model.num_heads (checkpoint: 2, current: 4)".
void require_same_run(const Config& saved, const Config& now, const std::string& file) {
  std::string differences;
  for (const KeySpec& key : schema()) {
    if (key.may_change || (!key.has_effect(saved) && !key.has_effect(now))) continue;
    const std::string before = key.get(saved), after = key.get(now);
    if (before == after) continue;
    differences +=
        fmt::format("{}{} (checkpoint: {}, current: {})", differences.empty() ? "" : ", ", key.path(), before, after);
  }
  require<ConfigError>(differences.empty(),
                       "resume: {}: the config is not that of the run: {}; set these keys back, or start a new run "
                       "with another train.run_dir",
                       file, differences);
}

// The contents of a checkpoint are parsed by functions for other files; here their errors concern the checkpoint.
template <class Read>
auto read_from(const CheckpointContent& content, Read read) {
  try {
    return read();
  } catch (const ConfigError& error) {
    throw CheckpointError(fmt::format("checkpoint {}: {}", content.file, error.what()));
  } catch (const DataError& error) {
    throw CheckpointError(fmt::format("checkpoint {}: {}", content.file, error.what()));
  }
}

Config saved_config(const CheckpointContent& content) {
  return read_from(content, [&] { return parse_config(content.text("config"), "config"); });
}

// Notice on a learning rate that is not what the run had planned for the next step; empty if it is, or if the step
// extends the stable part of schedule "wsd".
std::string learning_rate_jump(const Config& saved, const Config& now, int64_t step) {
  const optim::ScheduleOptions before = schedule_options(saved), after = schedule_options(now);
  const double planned = optim::learning_rate(before, std::min(step, saved.train.steps - 1));
  const double next = optim::learning_rate(after, step);
  if (step >= now.train.steps || std::abs(next - planned) <= 0.01 * planned) return {};
  const std::string jump = fmt::format("the learning rate jumps from {:.3g} to {:.3g}: ", planned, next);
  if (now.optim.schedule != ScheduleKind::wsd) {
    return jump + fmt::format("train.steps (checkpoint: {}, current: {})", saved.train.steps, now.train.steps);
  }
  const int64_t last_at_peak = before.decay_start() + 1;
  if (step > last_at_peak) {
    return jump + fmt::format(
                      "the checkpoint is of step {0}, and the decay of its run began after step {1}. To get what a run "
                      "with these keys computes, resume from a checkpoint of step {1} or before",
                      step, last_at_peak);
  }
  if (step <= after.decay_start()) return {};
  return jump + fmt::format("the decay now begins after step {}", after.decay_start() + 1);
}

// Notices on keys that may change and did: "train.steps 600 -> 2000". The paths of the run and its data are printed
// anyway.
std::vector<std::string> changes_of(const Config& saved, const Config& now, int64_t step) {
  std::vector<std::string> changes;
  std::string keys;
  for (const KeySpec& key : schema()) {
    const bool is_place = key.path() == "train.run_dir" || key.path() == "train.init_from" ||
                          key.path() == "data.path" || key.path() == "data.tokenizer_file";
    if (!key.may_change || is_place || (!key.has_effect(saved) && !key.has_effect(now))) continue;
    const std::string before = key.get(saved), after = key.get(now);
    if (before != after) keys += fmt::format("{}{} {} -> {}", keys.empty() ? "" : ", ", key.path(), before, after);
  }
  if (!keys.empty()) changes.push_back("changed since the checkpoint: " + keys);
  const std::string jump = learning_rate_jump(saved, now, step);
  if (!jump.empty()) changes.push_back(jump);
  return changes;
}

int64_t integer_or(const CheckpointContent& content, const char* name, int64_t otherwise) {
  return content.integers.contains(name) ? content.integer(name) : otherwise;
}

RunState restored_state(const Trainer& trainer, const CheckpointContent& content) {
  RunState state{.tokens = content.integer("tokens"), .seconds = content.real("seconds")};
  state.wall_seconds = content.real("wall_seconds");
  if (content.reals.contains("train_loss")) state.train_loss = content.real("train_loss");
  if (content.reals.contains(kBestName)) state.best_val_loss = content.real(kBestName);
  // Checkpoints of the first version do not store it; it follows from their config.
  const int64_t batches = saved_config(content).train.eval_batches;
  state.best_val_sequences =
      integer_or(content, "best_val_windows", trainer.eval_sequences(data::Split::validation, batches));
  state.best_val_targets = integer_or(content, "best_val_targets", 0);
  state.evaluation_pending = integer_or(content, "evaluation_pending", 0) != 0;
  return state;
}

std::string serialized_tokenizer(const data::Dataset& dataset) {
  return dataset.tokenizer() == nullptr ? std::string() : dataset.tokenizer()->serialize();
}

// All contents of a checkpoint except its tensors.
CheckpointContent values_of(const Trainer& trainer, const RunState& state) {
  CheckpointContent content;
  content.integers[kStepName] = trainer.step();
  content.integers["optimizer_steps"] = trainer.optimizer().steps();
  content.integers["tokens"] = state.tokens;
  content.reals["seconds"] = state.seconds;
  content.reals["wall_seconds"] = state.wall_seconds;
  content.texts["data"] = trainer.dataset().fingerprint();
  if (state.train_loss) content.reals["train_loss"] = *state.train_loss;
  if (state.best_val_loss) {
    content.reals[kBestName] = *state.best_val_loss;
    content.integers["best_val_targets"] = state.best_val_targets;
    content.integers["best_val_windows"] = state.best_val_sequences;
  }
  content.integers["evaluation_pending"] = state.evaluation_pending ? 1 : 0;
  content.texts["config"] = config_to_toml(trainer.config());
  if (trainer.dataset().tokenizer() != nullptr) content.texts["tokenizer"] = serialized_tokenizer(trainer.dataset());
  return content;
}

// The tensors of a checkpoint: (master) weights and optimizer state of each parameter.
std::vector<TensorSpec> tensors_of(const Trainer& trainer) {
  const nn::ParameterStore& store = trainer.model().parameters();
  const DType exact = accumulation_dtype(store.dtype());
  std::vector<TensorSpec> tensors;
  for (const Entry& entry : store.entries()) {
    tensors.push_back({parameter_name(entry), entry.shape, exact});
    for (const std::string& moment : moments_of(trainer, entry)) {
      tensors.push_back({moment_name(moment, entry), entry.shape, exact});
    }
  }
  return tensors;
}

}  // namespace

int64_t snapshot_file_bytes(const Trainer& trainer) {
  // Includes every optional value that a later state may have.
  return checkpoint_file_bytes(values_of(trainer, {.train_loss = 0.0, .best_val_loss = 0.0}), tensors_of(trainer));
}

CheckpointContent snapshot(const Trainer& trainer, const RunState& state) {
  CheckpointContent content = values_of(trainer, state);
  const nn::ParameterStore& store = trainer.model().parameters();
  const comm::GradBuckets& buckets = trainer.buckets();
  const auto moments = moments_of(trainer);
  for (int group = 0; group < static_cast<int>(store.groups().size()); ++group) {
    const bool is_root = trainer.ranks().is_root();
    const auto keep = [&](const Tensor& whole, auto name) {
      if (!is_root) return;
      for_each_entry(store, group, [&](const Entry& entry) {
        const std::string stored = name(entry);
        if (stored.empty()) return;
        content.tensors.emplace(stored, whole.slice(entry.offset, entry.shape).to(Device::cpu));
      });
    };
    keep(buckets.whole_weights(group, is_root), parameter_name);
    for (const auto& moment : moments) {
      keep(buckets.whole(group, of_group(buckets, group, moment.second), is_root), name_of(trainer, moment.first));
    }
  }
  return content;
}

Restored restore(Trainer& trainer, const CheckpointContent& content) {
  const Config saved = saved_config(content);
  require_same_run(saved, trainer.config(), content.file);
  const std::string difference = data_difference(content, trainer.dataset());
  require<DataError>(difference.empty(),
                     "resume: {}: the data is not that of the run ({}): put the old data back or start a new run",
                     content.file, difference);
  const nn::ParameterStore& store = trainer.model().parameters();
  const comm::GradBuckets& buckets = trainer.buckets();
  const auto moments = moments_of(trainer);
  // All tensors are looked up before anything is changed.
  std::vector<std::string> names;
  for (const TensorSpec& one : tensors_of(trainer)) {
    content.tensor(one.name, one.dtype, one.shape);
    names.push_back(one.name);
  }
  require_no_other_tensors(content, names);
  for (int group = 0; group < static_cast<int>(store.groups().size()); ++group) {
    trainer.buckets().set_weights(group, flat_of(store, group, content, parameter_name));
    for (const auto& moment : moments) {
      buckets.scatter_full(group, flat_of(store, group, content, name_of(trainer, moment.first)),
                           of_group(buckets, group, moment.second));
    }
  }
  trainer.resume_at(content.integer(kStepName), content.integer("optimizer_steps"));
  return {restored_state(trainer, content), changes_of(saved, trainer.config(), trainer.step())};
}

LoadedModel load_model(const CheckpointContent& content, const std::vector<std::string>& overrides,
                       EvaluatedWeights which) {
  LoadedModel loaded;
  loaded.config = saved_config(content);
  require<CheckpointError>(
      which == EvaluatedWeights::last || loaded.config.optim.ema_decay > 0,
      "checkpoint {} has no averaged weights, since its run had optim.ema_decay = 0: leave out --ema, or train with "
      "optim.ema_decay above 0, such as 0.999",
      content.file);
  const DType weights = accumulation_dtype(loaded.config.train.precision);
  require_settable_keys(loaded.config, overrides);
  // The saved config is valid, so from here on only the overrides can be wrong.
  if (!overrides.empty()) {
    loaded.config = parse_config(content.text("config"), content.file + ": config", overrides);
  }
  require<ConfigError>(
      accumulation_dtype(loaded.config.train.precision) == weights,
      "train.precision = \"{}\" cannot be computed from the checkpoint's weights, which are {}: set it "
      "to {}",
      name(loaded.config.train.precision), name(weights), weights == DType::f64 ? "\"f64\"" : "\"f32\" or \"bf16\"");
  loaded.step = content.integer(kStepName);
  if (content.texts.contains("tokenizer")) {
    loaded.tokenizer = read_from(content, [&] { return data::Tokenizer::parse(content.text("tokenizer")); });
  }
  nn::GptConfig model = loaded.config.model;
  if (loaded.tokenizer != nullptr) {
    set_from_data(model, loaded.config.data, loaded.tokenizer->vocab_size(), loaded.tokenizer.get());
  }
  // An imported model, and one that started from it, may have more tokens than the data, or no tokenizer.
  const auto data = content.texts.find("data");
  const bool is_imported = data != content.texts.end() && data->second == kImportedData;
  if (is_imported || !loaded.config.train.init_from.empty()) {
    const auto embedding = content.tensors.find("parameters/token_embedding.weight");
    const int64_t rows = embedding == content.tensors.end() ? 0 : embedding->second.shape()[0];
    model.vocab_size = std::max(model.vocab_size, rows);
  }
  loaded.model = std::make_unique<nn::Gpt>(model, loaded.config.train.precision, device_here(loaded.config),
                                           nn::ParameterStore::kAlignment, nn::InitialWeights::zero);
  require_no_foreign_tensors(content, loaded.model->parameters());
  load_parameters(loaded.model->parameters(), content, which);
  return loaded;
}

}  // namespace heed::train
