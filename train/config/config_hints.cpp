#include "train/config/config_hints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

// A key of another program. If `key` is empty, heed has no such key, and the advice is the whole message.
struct ForeignKey {
  std::string_view name;
  std::string_view key;
  std::string_view advice = "";
};

// nanoGPT and litgpt first, then the names that Hugging Face uses instead.
constexpr ForeignKey kForeignKeys[] = {
    {"n_layer", "model.num_layers"},
    {"n_head", "model.num_heads"},
    {"n_kv_head", "model.num_kv_heads"},
    {"n_query_groups", "model.num_kv_heads"},
    {"n_embd", "model.d_model"},
    {"block_size", "model.seq_len"},
    {"dataset", "data.path"},
    {"lr", "optim.learning_rate"},
    {"min_lr", "optim.min_learning_rate"},
    {"warmup_iters", "optim.warmup_steps"},
    {"grad_clip", "optim.clip_norm"},
    {"max_iters", "train.steps"},
    {"eval_iters", "train.eval_batches"},
    {"dtype", "train.precision"},
    {"out_dir", "train.run_dir"},
    {"gradient_accumulation_steps", "train.micro_batch_size",
     "it is the number of sequences per forward/backward pass; train.batch_size / train.micro_batch_size passes make a "
     "step"},
    {"lr_decay_iters", "", "the learning rate decays until train.steps; train.stop_after ends a run earlier"},
    {"compile", "", "heed compiles nothing at run time: remove it"},
    {"num_hidden_layers", "model.num_layers"},
    {"num_attention_heads", "model.num_heads"},
    {"num_key_value_heads", "model.num_kv_heads"},
    {"hidden_size", "model.d_model"},
    {"intermediate_size", "model.d_ff"},
    {"max_position_embeddings", "model.seq_len"},
    {"max_grad_norm", "optim.clip_norm"},
    {"max_steps", "train.steps"},
    {"output_dir", "train.run_dir"},
    {"per_device_train_batch_size", "train.micro_batch_size",
     "train.batch_size counts the sequences of a step, over all ranks and passes"},
    {"num_train_epochs", "", "a run is measured in steps, not in epochs: set train.steps"},
};

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const KeySpec& key : schema()) {
    if (!key.table.empty() && (names.empty() || names.back() != key.table)) {
      names.push_back(key.table);
    }
  }
  return names;
}

// As in TOML: in quotes only if it is not a bare key.
std::string show_name(std::string_view name) {
  const auto is_bare = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), is_bare) ? shorten(std::string(name))
                                                                         : shorten(quote(name));
}

// The advice for a key of another program; empty if the name is not in the table above.
std::string foreign_advice(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kForeignKeys), std::end(kForeignKeys),
                                         [&](const ForeignKey& foreign) { return foreign.name == name; });
  if (found == std::end(kForeignKeys)) return "";
  if (found->key.empty()) return std::string(found->advice);
  return fmt::format("did you mean {}?{}{}", found->key, found->advice.empty() ? "" : " ", found->advice);
}

// The path of the key with the nearest name; empty if none is near. Of two equally near keys, the one in `table` is
// preferred.
std::string near_key(std::string_view table, std::string_view name) {
  std::tuple<std::size_t, bool, std::string> nearest{std::string::npos, true, ""};
  for (const KeySpec& key : schema()) {
    nearest = std::min(nearest, {edit_distance(name, key.name), key.table != table, key.path()});
  }
  return is_near(std::get<0>(nearest), name) ? std::get<2>(nearest) : "";
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

bool is_near(std::size_t distance, std::string_view name) { return 3 * distance <= name.size() + 2; }

std::string unknown_table_text(std::string_view table) {
  std::vector<std::string> known;
  std::pair<std::size_t, std::string> nearest{std::string::npos, ""};
  for (const std::string& name : table_names()) {
    known.push_back("[" + name + "]");
    nearest = std::min(nearest, {edit_distance(table, name), known.back()});
  }
  return is_near(nearest.first, table)
             ? fmt::format("unknown table [{}]: did you mean {}?", show_name(table), nearest.second)
             : fmt::format("unknown table [{}], it must be {}", show_name(table), join_alternatives(known));
}

std::string unknown_key_text(std::string_view table, std::string_view name) {
  const std::string shown = table.empty() ? show_name(name) : fmt::format("{} in [{}]", show_name(name), table);
  std::vector<std::string> homes, siblings;
  for (const KeySpec& key : schema()) {
    if (key.name == name && !key.table.empty()) homes.push_back("[" + key.table + "]");
    if (key.table == table) siblings.push_back(key.name);
  }
  if (!homes.empty()) return fmt::format("key {} belongs to {}", shown, join_alternatives(homes));
  if (const std::string advice = foreign_advice(name); !advice.empty()) {
    return fmt::format("unknown key {}: {}", shown, advice);
  }
  if (const std::string near = near_key(table, name); !near.empty()) {
    return fmt::format("unknown key {}: did you mean {}?", shown, near);
  }
  return siblings.empty() || table.empty()
             ? fmt::format("unknown key {}, `heed config` lists all keys", shown)
             : fmt::format("unknown key {}, that table has {}", shown, join_alternatives(siblings));
}

}  // namespace heed::train
