#include "train/config/config_keys.hpp"

namespace heed::train {

void add_optim_keys(std::vector<KeySpec>& keys) {
  Table<OptimConfig> optim(keys, "optim", &Config::optim);
  optim.add("optimizer", &OptimConfig::optimizer,
            choice<OptimizerKind>(
                {{"adamw", OptimizerKind::adamw}, {"sgd", OptimizerKind::sgd}, {"muon", OptimizerKind::muon}}),
            "the optimizer; \"muon\": Muon for the matrices of the blocks (each of queries, keys and values is one), "
            "AdamW for embeddings, head, gains and biases");
  optim.add("learning_rate", &OptimConfig::learning_rate, number(1e-12, 1e30),
            "peak learning rate, reached at the end of warm-up");
  optim.add("min_learning_rate", &OptimConfig::min_learning_rate, number(0, 1e30), "final learning rate of the decay")
      .only_with("optim.schedule", {"cosine", "linear", "wsd"});
  optim.add("schedule", &OptimConfig::schedule,
            choice<ScheduleKind>({{"cosine", ScheduleKind::cosine},
                                  {"linear", ScheduleKind::linear},
                                  {"constant", ScheduleKind::constant},
                                  {"wsd", ScheduleKind::wsd}}),
            "decay of the learning rate after warm-up; \"wsd\": warm-up, stable, then decay in the last decay_steps");
  optim.add("warmup_steps", &OptimConfig::warmup_steps, integer(0, 1'000'000'000),
            "linear warm-up steps (at most train.steps)");
  optim
      .add("decay_steps", &OptimConfig::decay_steps, integer(1, 1'000'000'000),
           "steps of the decay at the end of the run; before it, a resumed run may have more train.steps")
      .default_is("20 % of train.steps, or what warm-up leaves of them")
      .only_with("optim.schedule", {"wsd"})
      .changeable();
  optim
      .add("decay", &OptimConfig::decay,
           choice<DecayKind>(
               {{"1-sqrt", DecayKind::one_minus_sqrt}, {"linear", DecayKind::linear}, {"cosine", DecayKind::cosine}}),
           "shape of the decay from the peak to min_learning_rate")
      .only_with("optim.schedule", {"wsd"})
      .changeable();
  optim.add("weight_decay", &OptimConfig::weight_decay, number(0, 1000),
            "decoupled weight decay, on matrices and embeddings only");
  optim
      .add("momentum", &OptimConfig::momentum, number(0, 0.999999),
           "momentum of SGD, as in PyTorch, 0: off, without optimizer state; or of Muon, with Nesterov")
      .default_is("0.0, with optim.optimizer = \"muon\" 0.95")
      .only_with("optim.optimizer", {"sgd", "muon"});
  optim
      .add("muon_scale", &OptimConfig::muon_scale,
           choice<MuonScale>({{"match_rms_adamw", MuonScale::match_rms_adamw}, {"original", MuonScale::original}}),
           "factor on Muon's updates; \"match_rms_adamw\": 0.2 sqrt(max(rows, columns)), so that learning_rate and "
           "weight_decay can be those of AdamW; \"original\": sqrt(max(1, rows / columns))")
      .only_with("optim.optimizer", {"muon"});
  optim
      .add("adamw_learning_rate", &OptimConfig::adamw_learning_rate, number(1e-12, 1e30),
           "peak learning rate of the parameters that AdamW updates; follows the same schedule as learning_rate")
      .default_is("learning_rate")
      .only_with("optim.optimizer", {"muon"});
  optim.add("embedding_lr_scale", &OptimConfig::embedding_lr_scale, number(0, 1e6),
            "factor on the learning rate of token and position embeddings (tied embeddings: of the head, too); 0: not "
            "trained");
  optim.add("head_lr_scale", &OptimConfig::head_lr_scale, number(0, 1e6),
            "factor on the learning rate of an output head that is not tied to the embeddings; 0: not trained");
  optim.add("vector_lr_scale", &OptimConfig::vector_lr_scale, number(0, 1e6),
            "factor on the learning rate of gains and biases; 0: not trained");
  // 1 - beta must not round to 0 in f32.
  optim
      .add("beta1", &OptimConfig::beta1, number(0, 0.999999),
           "decay rate of the first moment, the running mean of the gradient")
      .only_with("optim.optimizer", {"adamw", "muon"});
  optim
      .add("beta2", &OptimConfig::beta2, number(0, 0.999999),
           "decay rate of the second moment, the running mean of the squared gradient")
      .only_with("optim.optimizer", {"adamw", "muon"});
  optim.add("eps", &OptimConfig::eps, number(1e-20, 1), "epsilon in the denominator of AdamW")
      .only_with("optim.optimizer", {"adamw", "muon"});
  optim.add("clip_norm", &OptimConfig::clip_norm, number_or_zero(1e-6, 1e6),
            "clip the global gradient norm to this; 0: off");
  // 1 - ema_decay must not round to 0 in f32.
  optim.add(
      "ema_decay", &OptimConfig::ema_decay, number(0, 0.999999),
      "decay of the exponential moving average (EMA) of the weights, such as 0.999; in the first steps it is "
      "(1 + step) / (10 + step), while that is less. Each evaluation also evaluates the average; heed eval, generate "
      "and inspect use it with --ema; 0: off");
}

}  // namespace heed::train
