#include "train/run/reporter.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "train/output/number_text.hpp"
#include "train/output/output.hpp"
#include "train/run/run_header.hpp"
#include "train/trainer/first_loss.hpp"
#include "train/trainer/memory.hpp"

namespace heed::train {
namespace {

using Clock = std::chrono::steady_clock;

const char* short_name(data::Split split) { return split == data::Split::test ? "test" : "val"; }

int64_t windows_of(const Trainer& trainer, data::Split split) {
  return trainer.source().num_eval_windows(split, trainer.config().model.seq_len);
}

}  // namespace

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
      entropies_(trainer.source().entropies(trainer.config().model.seq_len)),
      remaining_(trainer.config(), windows_of(trainer, data::Split::validation),
                 windows_of(trainer, data::Split::test)),
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

void Reporter::draw(const Update& u, double tokens_per_s) {
  progress_.draw(
      {.fraction = static_cast<double>(u.step) / static_cast<double>(remaining_.last_step()),
       .counter = fmt::format("{}/{}", u.step, trainer_.config().train.steps),
       .details = {"loss " + loss_text(u.loss), last_val_, last_excess_, count_text(tokens_per_s) + " tokens/s"},
       .eta = eta()});
}

void Reporter::log(const Update& u, double tokens_per_s) {
  std::vector<std::string> fields{fmt::format("step {:>6}/{}", u.step, trainer_.config().train.steps),
                                  "loss " + loss_text(u.loss), "lr " + number_text(u.learning_rate),
                                  "grad norm " + number_text(u.grad_norm), count_text(tokens_per_s) + " tokens/s"};
  if (progress_.enabled()) {  // the progress line has the ETA
    line(join_fields(fields, progress_.columns()));
  } else {
    fields.push_back(eta());
    line(join_fields(fields));
  }
}

void Reporter::update(const Update& u, double tokens_per_s, double seconds) {
  remaining_.add_step(seconds);
  const bool is_last = u.step == remaining_.last_step();
  if (u.step % trainer_.config().train.log_interval == 0 || u.step == 1 || is_last) log(u, tokens_per_s);
  if (progress_.is_due() && !is_last) draw(u, tokens_per_s);
}

EvaluationProgress Reporter::evaluating(data::Split split, int64_t max_batches, std::function<bool()> must_stop) {
  const int64_t all = windows_of(trainer_, split), batch = trainer_.config().train.batch_size;
  const int64_t windows = max_batches == 0 ? all : std::min(all, max_batches * batch);
  return [this, split, windows, must_stop, begin = Clock::now()](int64_t done, int64_t total) {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (progress_.is_due()) progress_.draw(evaluation_fields(short_name(split), done, total, seconds));
    if (done == total) remaining_.add_evaluation(windows, seconds);
    return !must_stop();
  };
}

void Reporter::evaluation(int64_t step, const Evaluation& e, bool is_final) {
  last_val_ = "val " + loss_text(e.loss);
  last_excess_ = e.excess ? "excess " + loss_text(*e.excess) : "";
  line(fmt::format("step {:>6}  {}val loss {}{}  ({}, {})", step, is_final ? "final " : "", loss_text(e.loss),
                   e.excess ? "  " + last_excess_ : "", e.whole_split ? "full split" : "subset",
                   plural(e.targets, "token")));
  note_passed_entropies(step, e.loss);
}

void Reporter::end(const Summary& s, double training_seconds, const std::string& run_dir) {
  std::string losses;
  const char* const which = trainer_.config().train.final_eval == FinalEval::none ? "" : "final ";
  if (s.val_loss) losses += fmt::format("; {}val loss {}", which, loss_text(*s.val_loss));
  if (s.test_loss) losses += "; test loss " + loss_text(*s.test_loss);
  line(fmt::format("done          {}; training {:.1f} s, total {:.1f} s; {:.0f} tokens/s while training{}",
                   plural(s.steps, "step"), training_seconds, s.seconds, s.tokens_per_s, losses));
  if (s.excess && s.entropy) {
    line(fmt::format("excess        {} nats over the source's own cross-entropy on the same tokens (entropy rate {})",
                     loss_text(*s.excess), loss_text(*s.entropy)));
  }
  // The last entropy is the loss of a perfect model; a dataset without dependence on the context has no other entry.
  if (s.val_loss && entropies_.size() > 1 && passed_ == 0) {
    line(
        fmt::format("notice        the val loss was never below the unigram entropy {}: the model uses no context yet; "
                    "try more steps, optim.warmup_steps or a lower optim.learning_rate",
                    loss_text(entropies_[0].nats)));
  }
  line(fmt::format("files         {0}/metrics.csv, {0}/summary.json, {0}/checkpoints/last.h5", run_dir));
}

void Reporter::note_passed_entropies(int64_t step, double loss) {
  // The last entropy is the lower bound itself: the loss approaches it, but does not fall below it.
  while (passed_ + 1 < entropies_.size() && loss < entropies_[passed_].nats) {
    const data::ContextEntropy& e = entropies_[passed_++];
    const std::string what =
        e.context_tokens == 0 ? "context" : fmt::format("more than {} of context", plural(e.context_tokens, "token"));
    line(fmt::format("step {:>6}  below the {} entropy {}: the model uses {}", step, e.name, loss_text(e.nats), what));
  }
}

}  // namespace heed::train
