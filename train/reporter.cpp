#include "train/reporter.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/cpu/gemm.hpp"
#include "autograd/cpu/parallel.hpp"
#include "train/memory_table.hpp"
#include "train/output.hpp"

namespace heed::train {
namespace {

std::string device_text(Device device) {
  return device == Device::cpu ? fmt::format("{} threads", cpu::max_threads()) : cuda::status().devices.at(0).name;
}

std::string short_count(double value) {
  if (value >= 1e6) return fmt::format("{:.2f}M", value / 1e6);
  if (value >= 1e3) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(std::ceil(seconds));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string bar(double done) {
  constexpr int kWidth = 24;
  const int full = static_cast<int>(done * kWidth);
  return std::string(static_cast<size_t>(full), '#') + std::string(static_cast<size_t>(kWidth - full), '.');
}

std::string floors(const std::vector<data::ContextEntropy>& entropies) {
  std::string text;
  for (const data::ContextEntropy& e : entropies) text += fmt::format("  {} {:.4f}", e.name, e.nats);
  return text;
}

}  // namespace

Reporter::Reporter(const Trainer& trainer)
    : trainer_(trainer),
      entropies_(trainer.source().entropies(trainer.config().model.seq_len)),
      // mpirun gives each rank a terminal, whatever its own output is.
      terminal_(trainer.ranks().size() == 1 && isatty(STDOUT_FILENO) != 0) {}

void Reporter::show(const std::string& text) {
  if (!failure_.empty() || !trainer_.ranks().is_root()) return;
  try {
    write_output(text);
  } catch (const Error& error) {
    failure_ = error.what();
  }
}

void Reporter::start(const std::string& run_dir) {
  first_step_ = trainer_.step();
  begin_ = std::chrono::steady_clock::now();
  const Config& c = trainer_.config();
  const nn::GptConfig& m = c.model;
  const nn::ParameterStore& store = trainer_.model().parameters();
  show(fmt::format("model         {} layers, d_model {}, {} heads ({} kv), d_ff {}, seq_len {}, {}-LN, vocabulary {}\n",
                   m.num_layers, m.d_model, m.num_heads, m.kv_heads(), m.feed_forward_size(), m.seq_len,
                   m.norm_position == nn::NormPosition::pre ? "Pre" : "Post", m.vocab_size));
  const nn::ParameterGroup &decayed = store.groups()[0], &rest = store.groups()[1];
  show(fmt::format("parameters    {}: {} in {} tensors with weight decay (embeddings too), {} in {} without\n",
                   store.parameters(), decayed.parameters, decayed.tensors, rest.parameters, rest.tensors));
  show(fmt::format("update        {} sequences in micro-batches of {}, {} targets; {} updates, {}, {}\n",
                   c.train.batch_size, c.train.rows_per_micro_batch(), c.train.batch_size * m.seq_len, c.train.steps,
                   device_text(trainer_.device()), name(c.train.precision)));
  if (c.train.ranks > 1) {
    show(fmt::format("ranks         {} of {} sequences each, gradients in {} buckets{}\n", c.train.ranks,
                     c.train.rows_per_rank(), trainer_.buckets().count(),
                     trainer_.buckets().sharded() ? ", optimizer sharded" : ""));
  }
  if (c.train.device == DeviceChoice::automatic && !cuda::status().architectures.empty() &&
      trainer_.device() == Device::cpu) {
    show(fmt::format("notice        on the CPU: {}\n", cuda::status().problem));
  }
  if (trainer_.device() == Device::cpu && c.train.precision == DType::bf16 && !cpu::has_bf16_products()) {
    show("notice        this processor has no bf16 instructions: products run in f32, slower than f32 itself\n");
  }
  if (!entropies_.empty()) {
    show(fmt::format("entropies     of the source, in nats, by tokens of context:{}\n", floors(entropies_)));
  }
  show(fmt::format("run folder    {}\n", run_dir));
  show(memory_table(estimate_memory(c, trainer_.device())));
}

void Reporter::check_first_loss(double loss) const {
  const double expected = std::log(static_cast<double>(trainer_.config().model.vocab_size));
  if (std::abs(loss - expected) <= 0.1 * expected + 0.1 || !trainer_.ranks().is_root()) return;
  write_notice(
      fmt::format("heed: warning: the first loss is {:.4f}, a fresh model should be near ln {} = {:.4f}; usual causes: "
                  "model.init_std is too large, or the data has few distinct tokens for its vocabulary\n",
                  loss, trainer_.config().model.vocab_size, expected));
}

void Reporter::line(const std::string& text) {
  if (line_open_) show("\r\033[K");
  line_open_ = false;
  show(text + "\n");
}

std::string Reporter::eta() const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
  const int64_t done = trainer_.step() - first_step_, left = trainer_.config().train.steps - trainer_.step();
  return duration(passed.count() / static_cast<double>(std::max<int64_t>(done, 1)) * static_cast<double>(left));
}

void Reporter::update(const Update& u, double tokens_per_s) {
  const TrainConfig& t = trainer_.config().train;
  const bool last = u.step == t.steps;
  if (terminal_) {
    const auto now = std::chrono::steady_clock::now();
    if (!last && now - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = now;
    show(fmt::format("\r\033[K[{}] {}/{}  loss {:.4f}{}  {} tokens/s  ETA {}",
                     bar(static_cast<double>(u.step) / static_cast<double>(t.steps)), u.step, t.steps, u.loss,
                     last_evaluation_, short_count(tokens_per_s), eta()));
    line_open_ = true;
    if (last) line("");
  } else if (u.step % t.log_interval == 0 || u.step == 1 || last) {
    show(fmt::format("step {:>6}/{}  loss {:.4f}  lr {:.3g}  norm {:.3g}  {} tokens/s  ETA {}\n", u.step, t.steps,
                     u.loss, u.learning_rate, u.grad_norm, short_count(tokens_per_s), eta()));
  }
}

void Reporter::evaluation(int64_t step, const Evaluation& e) {
  const std::string excess = e.excess ? fmt::format("  excess {:.4f}", *e.excess) : "";
  last_evaluation_ = fmt::format("  val {:.4f}{}", e.loss, excess);
  line(fmt::format("step {:>6}  validation loss {:.4f}{}  ({} targets{})", step, e.loss, excess, e.targets,
                   e.whole_split ? ", the whole split" : ""));
  note_passed_entropies(step, e.loss);
}

void Reporter::end(const Summary& s, const std::string& run_dir) {
  const auto number = [](std::optional<double> v) { return v ? fmt::format("{:.4f}", *v) : std::string("-"); };
  line(fmt::format("done          {} updates in {:.1f} s, {:.0f} tokens/s; validation loss {}, test loss {}", s.steps,
                   s.seconds, s.tokens_per_s, number(s.val_loss), number(s.test_loss)));
  if (s.excess) {
    line(fmt::format("excess        {} nats above what the source itself loses on the same targets (its entropy is {})",
                     number(s.excess), number(s.entropy)));
  }
  line(fmt::format("files         {0}/metrics.csv, {0}/summary.json, {0}/checkpoints/last.h5", run_dir));
}

void Reporter::note_passed_entropies(int64_t step, double loss) {
  // The last entropy is the floor itself: it is approached, not passed.
  while (passed_ + 1 < entropies_.size() && loss < entropies_[passed_].nats) {
    const data::ContextEntropy& e = entropies_[passed_++];
    line(fmt::format("step {:>6}  below the {} entropy {:.4f}: the model uses more than {} token{} of context", step,
                     e.name, e.nats, e.context_tokens, e.context_tokens == 1 ? "" : "s"));
  }
}

}  // namespace heed::train
