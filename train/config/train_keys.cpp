#include "train/config/config_keys.hpp"

namespace heed::train {

void add_train_keys(std::vector<KeySpec>& keys) {
  Table<TrainConfig> train(keys, "train", &Config::train);
  train.add("steps", &TrainConfig::steps, integer(1, 1'000'000'000), "number of training steps").changeable();
  train
      .add("stop_after", &TrainConfig::stop_after, integer(0, 1'000'000'000),
           "stop after this many steps; the learning rate schedule still spans train.steps; 0: run all steps")
      .changeable();
  train.add("batch_size", &TrainConfig::batch_size, integer(1, 1'048'576),
            "sequences per step, over all ranks and micro-batches");
  train
      .add("micro_batch_size", &TrainConfig::micro_batch_size, integer(0, 1'048'576),
           "sequences per forward/backward pass of a rank (gradient accumulation); must divide the batch of a rank; 0: "
           "all of it")
      .changeable();
  train
      .add("seed", &TrainConfig::seed, seed_number(),
           "random seed of the dropout masks; without dropout it has no effect")
      .default_is("seed");
  train
      .add("device", &TrainConfig::device,
           choice<DeviceChoice>(
               {{"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}}),
           "where the model runs; \"auto\": on a CUDA device if there is one, else on the CPU")
      .changeable();
  train
      .add("cuda_graph", &TrainConfig::cuda_graph, boolean(),
           "on CUDA: capture a step as a CUDA graph and replay it, instead of launching each operation")
      .only_with("train.device", {"auto", "cuda"})
      .changeable();
  train
      .add("tf32", &TrainConfig::tf32, boolean(),
           "on CUDA: f32 matmuls in TF32 on tensor cores, with 10 mantissa bits in their inputs")
      .only_with("train.device", {"auto", "cuda"});
  train.add(
      "precision", &TrainConfig::precision,
      choice<DType>({{"f32", DType::f32}, {"bf16", DType::bf16}, {"f64", DType::f64}}),
      "dtype of the computation; \"bf16\" is mixed precision: activations and matmuls in bf16; master weights, their "
      "gradients, optimizer state and reductions in f32");
  train
      .add("recompute", &TrainConfig::recompute, boolean(),
           "activation checkpointing: recompute each block in the backward pass to save memory")
      .changeable();
  train
      .add("detect_anomaly", &TrainConfig::detect_anomaly, boolean(),
           "name the operation that made the first NaN or infinity")
      .changeable();
  train
      .add("shard_optimizer", &TrainConfig::shard_optimizer, boolean(),
           "with several ranks: each rank keeps only its shard of the optimizer state and of bf16's f32 weights "
           "(ZeRO-1)")
      .changeable();
  train
      .add("comm_timeout_s", &TrainConfig::comm_timeout_s, number(0.1, 1e6),
           "with several ranks: longest wait for another rank, in seconds, before the run ends")
      .changeable();
  train.add("eval_interval", &TrainConfig::eval_interval, integer(1, 1'000'000'000), "steps between evaluations")
      .changeable();
  train
      .add("eval_batches", &TrainConfig::eval_batches, integer(0, 1'000'000'000),
           "batches per evaluation; 0: the full split")
      .changeable();
  train
      .add("final_eval", &TrainConfig::final_eval,
           choice<FinalEval>({{"full", FinalEval::full}, {"subset", FinalEval::subset}, {"none", FinalEval::none}}),
           "evaluation at the end of the run: the full splits, the first eval_batches batches, or none")
      .changeable();
  train.add("log_interval", &TrainConfig::log_interval, integer(1, 1'000'000'000), "steps between log lines")
      .changeable();
  train
      .add(
          "log_layers", &TrainConfig::log_layers, boolean(),
          "also write layers.csv every log_interval steps: norms of each layer's weights, gradients and weight updates")
      .changeable();
  train
      .add("run_dir", &TrainConfig::run_dir, path_name(),
           "run directory, ~ is the home folder; existing_run decides what happens to an earlier run there")
      .default_is("runs/ and the name of the config file")
      .changeable();
  train
      .add("init_from", &TrainConfig::init_from, path_name(),
           "start from the weights and with the tokenizer of this checkpoint, run folder or folder of Hugging Face "
           "transformers; \"\": random weights")
      .changeable();
  train
      .add("existing_run", &TrainConfig::existing_run,
           choice<ExistingRun>({{"move", ExistingRun::move}, {"refuse", ExistingRun::refuse}}),
           "what to do with an earlier run in run_dir: move it aside to run_dir.1, .2, …, or refuse to start")
      .changeable();
  train.add("plot", &TrainConfig::plot, boolean(), "draw plot.svg in run_dir at the end of the run, with matplotlib")
      .changeable();
  train
      .add("save_interval", &TrainConfig::save_interval, integer(0, 1'000'000'000),
           "steps between checkpoints; 0: only at the end")
      .changeable();
  train
      .add("keep_checkpoints", &TrainConfig::keep_checkpoints, integer(0, 1'000'000),
           "older checkpoints to keep besides last and best: the newest, and others spread over the run")
      .changeable();
  train
      .add("tensorboard", &TrainConfig::tensorboard, boolean(),
           "also write the metrics as TensorBoard event files, to the folder tensorboard in run_dir")
      .changeable();
}

}  // namespace heed::train
