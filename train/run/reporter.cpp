#include "train/run/reporter.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/cpu/gemm/gemm.hpp"
#include "autograd/cpu/parallel.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"
#include "train/trainer/first_loss.hpp"
#include "train/trainer/memory.hpp"

namespace heed::train {
namespace {

std::string device_text(Device device) {
  return device == Device::cpu ? plural(cpu::max_threads(), "thread") : cuda::status().devices.at(0).name;
}

std::string norm_text(const nn::GptConfig& m) {
  const char* position = m.norm_position == nn::NormPosition::pre    ? "Pre"
                         : m.norm_position == nn::NormPosition::post ? "Post"
                                                                     : "Sandwich";
  return fmt::format("{}-{}{}{}{}", position, m.norm == nn::NormKind::rms ? "RMSNorm" : "LN",
                     m.norm_gain ? "" : " without gain", m.qk_norm ? ", QK-norm" : "",
                     m.embedding_norm ? ", embedding norm" : "");
}

std::string model_line(const nn::GptConfig& m) {
  const std::string kv = m.kv_heads() == m.num_heads ? "" : fmt::format(" ({} kv)", m.kv_heads());
  const std::string vocabulary = m.vocab_size == 0 ? "" : fmt::format(", vocabulary {}", m.vocab_size);
  const std::string window = m.sliding_window == 0 ? "" : fmt::format(", window {}", m.sliding_window);
  const std::string mup = m.mup_base_width == 0 ? "" : fmt::format(" (muP base {})", m.mup_base_width);
  return fmt::format("model         {}, d_model {}{}, {}{}, {}, seq_len {}{}, {}{}\n", plural(m.num_layers, "layer"),
                     m.d_model, mup, plural(m.num_heads, "head"), kv,
                     m.attention_only ? "no MLP" : fmt::format("d_ff {}", m.feed_forward_size()), m.seq_len, window,
                     norm_text(m), vocabulary);
}

std::string batch_line(const Config& config, Device device) {
  const TrainConfig& t = config.train;
  // A line of a text may be shorter than seq_len; the rest of its row then has no targets.
  const bool is_exact = config.data.source != DataSource::text || config.data.split != data::TextSplit::lines;
  const std::string micro =
      t.rows_per_micro_batch() == t.rows_per_rank() ? "" : fmt::format(" (micro-batches of {})", t.micro_batch_size);
  const std::string stop = t.stop_after == 0 ? "" : fmt::format(" (stop after {})", t.stop_after);
  return fmt::format("batch         {}{} x {} = {}{}; {}{}; {}, {}\n", plural(t.batch_size, "sequence"), micro,
                     config.model.seq_len, is_exact ? "" : "up to ",
                     plural(t.batch_size * config.model.seq_len, "token"), plural(t.steps, "step"), stop,
                     name(t.precision), device_text(device));
}

std::string device_notices(const Config& config, Device device) {
  std::string text;
  if (device != Device::cpu) return text;
  if (config.train.device == DeviceChoice::automatic && !cuda::status().architectures.empty()) {
    text += config.train.precision == DType::f64
                ? "notice        running on the CPU: train.precision = \"f64\" is not for CUDA devices\n"
                : "notice        running on the CPU, no usable CUDA device (heed info says why)\n";
  }
  if (config.train.precision == DType::bf16 && !cpu::has_bf16_products()) {
    text +=
        "notice        this processor has no bf16 instructions: GEMMs run in f32, slower than train.precision = "
        "\"f32\"\n";
  }
  return text;
}

std::string entropies_line(const std::vector<data::ContextEntropy>& entropies) {
  const bool are_contexts =
      std::all_of(entropies.begin(), entropies.end(), [](const auto& e) { return e.context_tokens.has_value(); });
  std::string text = are_contexts ? "entropies     of the dataset, in nats, by tokens of context:"
                                  : "losses        of known strategies, in nats:";
  for (const data::ContextEntropy& e : entropies) {
    const std::string error = e.standard_error > 0 ? fmt::format(" ± {:.4f}", e.standard_error) : "";
    text += fmt::format("  {} {:.4f}{}", e.name, e.nats, error);
  }
  return text + "\n";
}

using Clock = std::chrono::steady_clock;

// "unigram entropy 2.8312", or of a strategy that is not a context "uniform loss 2.0794".
std::string named_loss(const data::ContextEntropy& e) {
  return fmt::format("{} {} {}", e.name, e.context_tokens ? "entropy" : "loss", loss_text(e.nats));
}

const char* short_name(data::Split split) { return split == data::Split::test ? "test" : "val"; }

int64_t sequences_of(const Trainer& trainer, data::Split split) {
  return trainer.dataset().num_eval_sequences(split, trainer.config().model.seq_len);
}

}  // namespace

std::string config_header(const Config& config, Device device) {
  std::string text = model_line(config.model) + batch_line(config, device);
  if (config.train.ranks > 1) {
    text += fmt::format("ranks         {} with {} each\n", config.train.ranks,
                        plural(config.train.rows_per_rank(), "sequence"));
  }
  return text + device_notices(config, device);
}

std::string trainer_header(const Trainer& trainer) {
  const nn::ParameterStore& store = trainer.model().parameters();
  const nn::ParameterGroup &decayed = store.groups()[0], &rest = store.groups()[1];
  std::string text =
      fmt::format("parameters    {}: {} in {} decayed (incl. embeddings), {} in {} not decayed\n", store.parameters(),
                  decayed.parameters, plural(decayed.tensors, "tensor"), rest.parameters, rest.tensors);
  if (trainer.ranks().size() > 1) {
    text += fmt::format("gradients     in {}{}\n", plural(static_cast<int64_t>(trainer.buckets().count()), "bucket"),
                        trainer.buckets().sharded() ? ", optimizer sharded" : "");
  }
  const auto entropies = trainer.dataset().entropies(trainer.config().model.seq_len);
  return entropies.empty() ? text : text + entropies_line(entropies);
}

RemainingTime::RemainingTime(const Config& config, int64_t val_sequences, int64_t test_sequences)
    : train_(config.train),
      evaluations_(config.optim.ema_decay > 0 ? 2 : 1),
      last_step_(train_.stop_after == 0 ? train_.steps : train_.stop_after),
      periodic_sequences_(subset(val_sequences)) {
  if (train_.final_eval == FinalEval::none) return;
  const bool is_full = train_.final_eval == FinalEval::full;
  final_val_sequences_ = is_full ? val_sequences : periodic_sequences_;
  test_sequences_ = is_full ? test_sequences : subset(test_sequences);
}

int64_t RemainingTime::subset(int64_t sequences) const {
  return train_.eval_batches == 0 ? sequences : std::min(sequences, train_.eval_batches * train_.batch_size);
}

void RemainingTime::add_step(double seconds) {
  ++steps_;
  step_seconds_ += seconds;
}

void RemainingTime::add_evaluation(int64_t sequences, double seconds) {
  evaluated_sequences_ += sequences;
  evaluation_seconds_ += seconds;
}

// One evaluation after each train.eval_interval steps, and one after the last step of the schedule.
int64_t RemainingTime::periodic_evaluations_until(int64_t step) const {
  const bool is_extra = step == train_.steps && step % train_.eval_interval != 0;
  return step / train_.eval_interval + (is_extra ? 1 : 0);
}

int64_t RemainingTime::sequences_left(int64_t step) const {
  const int64_t periodic = periodic_evaluations_until(last_step_) - periodic_evaluations_until(step);
  // The last periodic evaluation is also the final one if it covers as many sequences.
  const bool last_is_final = periodic_sequences_ == final_val_sequences_ &&
                             (last_step_ == train_.steps || last_step_ % train_.eval_interval == 0);
  return evaluations_ * (periodic * periodic_sequences_ + (last_is_final ? 0 : final_val_sequences_) + test_sequences_);
}

double RemainingTime::seconds(int64_t step) const {
  if (steps_ == 0) return 0;
  const double per_step = step_seconds_ / static_cast<double>(steps_);
  const double per_sequence = evaluated_sequences_ > 0 ? evaluation_seconds_ / static_cast<double>(evaluated_sequences_)
                                                       : per_step / static_cast<double>(train_.batch_size) / 3;
  return per_step * static_cast<double>(last_step_ - step) + per_sequence * static_cast<double>(sequences_left(step));
}

ProgressFields evaluation_fields(const std::string& split, int64_t done, int64_t total, double seconds) {
  ProgressFields fields;
  fields.fraction = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  fields.counter = "evaluating " + split;
  fields.details = {fmt::format("{}/{} batches", done, total)};
  if (done > 0) {
    fields.eta = "ETA " + duration_text(seconds / static_cast<double>(done) * static_cast<double>(total - done));
  }
  return fields;
}

EvaluationProgress evaluation_bar(ProgressLine& line, const std::string& split) {
  return [&line, split, begin = Clock::now()](int64_t done, int64_t total) {
    const std::chrono::duration<double> passed = Clock::now() - begin;
    if (line.is_due()) line.draw(evaluation_fields(split, done, total, passed.count()));
    if (done == total) line.erase();
    return true;
  };
}

Reporter::Reporter(const Trainer& trainer)
    : trainer_(trainer),
      entropies_(trainer.dataset().entropies(trainer.config().model.seq_len)),
      remaining_(trainer.config(), sequences_of(trainer, data::Split::validation),
                 sequences_of(trainer, data::Split::test)),
      // No progress line with several ranks: mpirun connects each rank to a terminal, wherever its own output is
      // directed.
      progress_(
          STDOUT_FILENO, [this](const std::string& text) { show(text); }, trainer.ranks().size() == 1) {}

void Reporter::show(const std::string& text) {
  if (!failure_.empty() || !trainer_.ranks().is_root()) return;
  try {
    write_output(text);
  } catch (const Error& error) {
    failure_ = error.what();
  }
}

void Reporter::start(const std::string& run_dir) {
  const Config& config = trainer_.config();
  show(config_header(config, trainer_.device()));
  show(trainer_header(trainer_));
  line("run folder    " + run_dir);
  show(memory_table(estimate_memory(config, trainer_.device())));
}

void Reporter::check_first_loss(double loss) {
  const nn::GptConfig& model = trainer_.config().model;
  const LossRange range = first_loss_range(model);
  if ((range.lowest <= loss && loss <= range.highest) || !trainer_.ranks().is_root()) return;
  progress_.erase();
  write_notice(fmt::format(
      "heed: warning: the first loss is {}; a fresh model of this shape should be between {:.2f} and {:.2f} "
      "(ln {} = {:.4f} is a uniform guess): model.init_std = {} may be too large, {} is the default\n",
      loss_text(loss), range.lowest, range.highest, model.vocab_size, std::log(static_cast<double>(model.vocab_size)),
      model.init_std, nn::GptConfig{}.init_std));
}

void Reporter::line(const std::string& text) {
  progress_.erase();
  show(data::printable(text) + "\n");
}

std::string Reporter::eta() const { return "ETA " + duration_text(remaining_.seconds(trainer_.step())); }

void Reporter::draw(const StepResult& result, double tokens_per_s) {
  progress_.draw({.fraction = static_cast<double>(result.step) / static_cast<double>(remaining_.last_step()),
                  .counter = fmt::format("{}/{}", result.step, trainer_.config().train.steps),
                  .details = {"loss " + loss_text(result.loss), last_val_, last_excess_, last_ema_,
                              count_text(tokens_per_s) + " tokens/s"},
                  .eta = eta()});
}

void Reporter::log(const StepResult& result, double tokens_per_s) {
  std::vector<std::string> fields{fmt::format("step {:>6}/{}", result.step, trainer_.config().train.steps),
                                  "loss " + loss_text(result.loss), "lr " + number_text(result.learning_rate),
                                  "grad norm " + number_text(result.grad_norm), count_text(tokens_per_s) + " tokens/s"};
  if (progress_.enabled()) {  // the progress line has the ETA
    line(join_fields(fields, progress_.columns()));
  } else {
    fields.push_back(eta());
    line(join_fields(fields));
  }
}

void Reporter::show_step(const StepResult& result, double tokens_per_s, double seconds) {
  remaining_.add_step(seconds);
  const bool is_last = result.step == remaining_.last_step();
  if (result.step % trainer_.config().train.log_interval == 0 || result.step == 1 || is_last) log(result, tokens_per_s);
  if (progress_.is_due() && !is_last) draw(result, tokens_per_s);
}

EvaluationProgress Reporter::evaluating(data::Split split, int64_t max_batches, EvaluatedWeights weights,
                                        std::function<bool()> must_stop) {
  const int64_t all = sequences_of(trainer_, split), batch = trainer_.config().train.batch_size;
  const int64_t sequences = max_batches == 0 ? all : std::min(all, max_batches * batch);
  const std::string name = std::string(short_name(split)) + (weights == EvaluatedWeights::average ? " ema" : "");
  return [this, name, sequences, must_stop, begin = Clock::now()](int64_t done, int64_t total) {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (progress_.is_due()) progress_.draw(evaluation_fields(name, done, total, seconds));
    if (done == total) remaining_.add_evaluation(sequences, seconds);
    return !must_stop();
  };
}

void Reporter::evaluation(int64_t step, const Evaluation& e, bool is_final) {
  last_val_ = "val " + loss_text(e.loss);
  last_excess_ = e.excess ? "excess " + loss_text(*e.excess) : "";
  last_ema_ = e.loss_ema ? "val ema " + loss_text(*e.loss_ema) : "";
  line(fmt::format("step {:>6}  {}val loss {}{}{}  ({}, {})", step, is_final ? "final " : "", loss_text(e.loss),
                   e.excess ? "  " + last_excess_ : "", e.loss_ema ? "  " + last_ema_ : "",
                   e.whole_split ? "full split" : "subset", plural(e.targets, "token")));
  note_passed_entropies(step, e.loss);
}

void Reporter::end(const Summary& s, double training_seconds, const std::string& run_dir) {
  std::string losses;
  const char* const which = trainer_.config().train.final_eval == FinalEval::none ? "" : "final ";
  if (s.val_loss) losses += fmt::format("; {}val loss {}", which, loss_text(*s.val_loss));
  if (s.val_loss_ema) losses += ", ema " + loss_text(*s.val_loss_ema);
  if (s.test_loss) losses += "; test loss " + loss_text(*s.test_loss);
  if (s.test_loss_ema) losses += ", ema " + loss_text(*s.test_loss_ema);
  line(fmt::format("done          {}; training {:.1f} s, total {:.1f} s; {:.0f} tokens/s while training{}",
                   plural(s.steps, "step"), training_seconds, s.seconds, s.tokens_per_s, losses));
  if (s.excess && s.entropy) {
    line(fmt::format(
        "excess        {} nats over the dataset's own cross-entropy on the same tokens (entropy of the dataset {})",
        loss_text(*s.excess), loss_text(*s.entropy)));
  }
  // The last entropy is the loss of a perfect model; a dataset without dependence on the context has no other entry.
  if (s.val_loss && entropies_.size() > 1 && passed_ == 0) {
    const data::ContextEntropy& simplest = entropies_[0];
    line(fmt::format(
        "notice        the val loss was never below the {}: the model {} yet; try more steps, "
        "optim.warmup_steps or "
        "a lower optim.learning_rate",
        named_loss(simplest), simplest.context_tokens ? "uses no context" : "does no better than this strategy"));
  }
  line(fmt::format("files         {0}/metrics.csv, {0}/summary.json, {0}/checkpoints/last.h5", run_dir));
}

void Reporter::note_passed_entropies(int64_t step, double loss) {
  // The last entropy is the lower bound itself: the loss approaches it, but does not fall below it.
  while (passed_ + 1 < entropies_.size() && loss < entropies_[passed_].nats) {
    const data::ContextEntropy& e = entropies_[passed_++];
    const std::string what = !e.context_tokens ? "does better than this strategy"
                             : *e.context_tokens == 0
                                 ? "uses context"
                                 : "uses more than " + plural(*e.context_tokens, "token") + " of context";
    line(fmt::format("step {:>6}  below the {}: the model {}", step, named_loss(e), what));
  }
}

}  // namespace heed::train
