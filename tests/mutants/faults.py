"""The faults that mutants.py plants."""

from model_faults import MODEL_FAMILY
from mutant import Mutant

OPTIM = [
    Mutant(
        "momentum_not_kept",
        "optim/sgd_cpu.cpp",
        "store(new_v, v);",
        "store(load(v), v);",
        "optim_tests Sgd.*",
    ),
    Mutant(
        "adamw_without_bias_correction",
        "optim/adamw_cpu.cpp",
        "set(learning_rate / correction.first)",
        "set(learning_rate)",
        "optim_tests AdamW.*",
    ),
    Mutant(
        "adamw_decays_both_groups",
        "optim/adamw.cpp",
        "span.decay_of(options.weight_decay)",
        "options.weight_decay",
        "optim_tests AdamW.*",
    ),
    Mutant(
        "adamw_ignores_is_valid",
        "optim/adamw_cpu.cpp",
        "  if (p.scalars.is_valid.get() == 0) return;\n",
        "",
        "optim_tests StepStateTest.*",
    ),
    Mutant(
        "clip_factor_above_one",
        "optim/grad_clip.cpp",
        "return factor > 1 ? 1 : factor;",
        "return factor;",
        "optim_tests ClipFactor.*",
    ),
    Mutant(
        "schedule_off_by_one",
        "optim/schedule.cpp",
        "o.peak * static_cast<double>(step + 1)",
        "o.peak * static_cast<double>(step)",
        "optim_tests Schedule.*",
    ),
    Mutant(
        "wsd_without_its_stable_part",
        "optim/schedule.cpp",
        "  if (step < start) return o.peak;\n",
        "",
        "optim_tests Schedule.*",
    ),
    Mutant(
        "muon_without_nesterov",
        "optim/muon_cpu.cpp",
        "store(average(new_m, g), update);",
        "store(new_m, update);",
        "optim_tests Muon.*",
    ),
    Mutant(
        "muon_scales_weight_decay",
        "optim/muon.cpp",
        "span.decay_of(options_.weight_decay) / scale",
        "span.decay_of(options_.weight_decay)",
        "optim_tests Muon.*",
    ),
    Mutant(
        "newton_schulz_of_the_larger_side",
        "optim/newton_schulz.cpp",
        ".transpose_a = tall, .transpose_b = !tall",
        ".transpose_a = false, .transpose_b = true",
        "optim_tests NewtonSchulz.*",
    ),
]

DATA = [
    Mutant(
        "batch_of_any_step",
        "data/dataset.cpp",
        "static_cast<uint32_t>(place)), step};",
        "static_cast<uint32_t>(place)), step * 0};",
        "data_tests PositionDataset.*:LineDataset.*",
    ),
    Mutant(
        "targets_not_shifted",
        "data/dataset.cpp",
        "std::copy(tokens.begin() + 1, tokens.end(), targets.begin());",
        "std::copy(tokens.begin(), tokens.end() - 1, targets.begin());",
        "data_tests ShiftSequence.*:PositionDataset.*",
    ),
    Mutant(
        "training_reads_the_next_split",
        "data/position_dataset.cpp",
        "num_sequences(parts_.sizes.train, static_cast<int64_t>(inputs.size()))",
        "num_sequences(parts_.sizes.total(), static_cast<int64_t>(inputs.size()))",
        "data_tests PositionDataset.*",
    ),
    Mutant(
        "checksum_of_tokens_not_compared",
        "data/token_file.cpp",
        "if (checksum_of_block(tokens) != block_checksums_[block] || !inside(",
        "if (!inside(",
        "data_tests TokenFile.*:TokenFileChange.*",
    ),
    Mutant(
        "temporary_file_stays",
        "data/io/atomic_file.cpp",
        "  if (!kept_) ::unlink(path_.c_str());\n",
        "",
        "data_tests NewFile.AppearsWholeOrNotAtAll",
    ),
    Mutant(
        "file_written_in_place",
        "data/io/atomic_file.cpp",
        "working_path = path.parent_path() / temporary_name(path.filename().string());",
        "working_path = path;",
        "train_tests CheckpointInterruptTest.*",
    ),
]

NN = [
    Mutant(
        "residual_dropout_of_other_rows",
        "nn/block.cpp",
        "context.first_row * rows_per_sequence",
        "context.first_row + 0 * rows_per_sequence",
        "nn_tests Gpt.*",
    ),
]

TRAIN = [
    Mutant(
        "learning_rate_of_the_next_step",
        "train/trainer/trainer.cpp",
        "optim::learning_rate(schedule_options(config_), step_);",
        "optim::learning_rate(schedule_options(config_), step_ + 1);",
        "train_tests TrainerReferenceTest.*",
    ),
    Mutant(
        "gradients_not_zeroed",
        "train/trainer/training_step.cpp",
        "  model_.parameters().zero_gradients();\n",
        "",
        "train_tests TrainerReferenceTest.*",
    ),
    Mutant(
        "micro_batches_share_their_masks",
        "train/trainer/training_step.cpp",
        ".first_row = options_.first_row + index * options_.rows}",
        ".first_row = options_.first_row}",
        "train_tests Trainer.MicroBatches*",
    ),
    Mutant(
        "resume_forgets_the_optimizer_steps",
        "train/trainer/trainer.cpp",
        "optimizer_->restore_steps(optimizer_steps);",
        "optimizer_->restore_steps(0 * optimizer_steps);",
        "train_tests Resume.IsTheRunWithoutAStop",
    ),
    Mutant(
        "evaluation_skips_the_last_batch",
        "train/trainer/evaluator.cpp",
        "(end - first + stride - 1) / stride",
        "(end - first) / stride",
        "train_tests Evaluator.*",
    ),
    Mutant(
        "checkpoint_of_other_data",
        "train/run/checkpoint_match.cpp",
        "if (dataset.matches_fingerprint(before)) return {};",
        "if (dataset.matches_fingerprint(before) || !before.empty()) return {};",
        "heed ^train.eval$",
    ),
    Mutant(
        "must_stop_ignored",
        "train/trainer/trainer.cpp",
        ".must_stop = done.must_stop > 0}",
        ".must_stop = done.must_stop > 1}",
        "ranks_tests *.AWishToStopReachesAll/*",
    ),
    Mutant(
        "last_bucket_not_sent",
        "train/comm/grad_bucket.cpp",
        "while (next_ < buckets_.size()) start(",
        "while (next_ + 1 < buckets_.size()) start(",
        "ranks_tests *Buckets.AddUpWhereRanksCome*",
    ),
    Mutant(
        "failed_not_added_over_ranks",
        "train/trainer/training_step.cpp",
        "add_over_ranks(&state()->targets, 3);",
        "add_over_ranks(&state()->targets, 2);",
        "ranks_tests RanksWithoutData.*",
    ),
]

AUTOGRAD = [
    Mutant(
        "softmax_backward_adds_the_mean",
        "autograd/ops/softmax_cpu.cpp",
        "hn::Mul(load(y), hn::Sub(load(dy), sum))",
        "hn::Mul(load(y), hn::Add(load(dy), sum))",
        "autograd_tests Cases/EveryOp.Matches*/softmax_*",
    ),
    Mutant(
        "sub_backward_without_sign",
        "autograd/ops/elementwise.cpp",
        ".x = dy, .scalar = -1",
        ".x = dy, .scalar = 1",
        "autograd_tests Cases/EveryOp.Matches*/sub_*",
    ),
    Mutant(
        "matmul_weight_gradient_in_bf16",
        "autograd/ops/matmul.cpp",
        ".accumulation_dtype = b.rank() == 2",
        ".accumulation_dtype = false",
        "autograd_tests Matmul*",
    ),
    Mutant(
        "layer_norm_backward_without_weight",
        "autograd/cpu/norm_row.hpp",
        "sum_gx = hn::MulAdd(g, normalized, sum_gx);",
        "sum_gx = hn::MulAdd(gradient, normalized, sum_gx);",
        "autograd_tests Cases/EveryOp.Matches*/layer_norm_*",
    ),
    Mutant(
        "cross_entropy_counts_ignored_targets",
        "autograd/ops/cross_entropy_cpu.cpp",
        "given > 0 ? given : static_cast<double>(counted)",
        "given > 0 ? given : static_cast<double>(rows)",
        "autograd_tests Cases/EveryOp.Matches*/cross_entropy_*:CrossEntropy.*",
    ),
    Mutant(
        "cross_entropy_padded_columns_not_zeroed",
        "autograd/ops/cross_entropy_cpu.cpp",
        "std::fill(dx + p.options.vocab, dx + columns, T(0));",
        "std::fill(dx + columns, dx + columns, T(0));",
        "autograd_tests Cases/EveryOp.Matches*/cross_entropy_*:CrossEntropy.*",
    ),
    Mutant(
        "linear_weight_gradient_overwritten",
        "autograd/ops/linear_cpu.cpp",
        ".add = p.dweight.add}",
        ".add = false}",
        "autograd_tests Cases/EveryOp.TwoPasses*/linear_*",
    ),
    Mutant(
        "gelu_derivative_of_the_cube",
        "autograd/cpu/gelu.hpp",
        "2 * kRoot * 3 * kCubic",
        "2 * kRoot * 2 * kCubic",
        "autograd_tests Cases/EveryOp.Matches*/gelu_*:Gelu.*",
    ),
    Mutant(
        "embedding_gradient_not_zeroed",
        "autograd/ops/embedding_cpu.cpp",
        "if (!p.dtable.add) zero(p.dtable.ref);",
        "if (p.dtable.add) zero(p.dtable.ref);",
        "autograd_tests Cases/EveryOp.*/embedding_*",
    ),
    Mutant(
        "dropout_scale",
        "autograd/ops/dropout.cpp",
        "1 / (1 - dropout_rate(p))",
        "1 + dropout_rate(p)",
        "autograd_tests Cases/EveryOp.Matches*/dropout_*",
    ),
    Mutant(
        "sum_takes_elements_twice",
        "autograd/ops/reduce_cpu.cpp",
        "at(i + 2 * lanes)",
        "at(i + lanes)",
        "autograd_tests Cases/EveryOp.Matches*/sum_*:Sum.*",
    ),
    Mutant(
        "tape_adds_into_a_shared_gradient",
        "autograd/tape.cpp",
        "is_leaf_slot(slot) || slot->unique()",
        "true",
        "autograd_tests Tape.*",
    ),
    Mutant(
        "tape_sinks_into_a_shared_gradient",
        "autograd/tape.cpp",
        "if (!may_add_in_place(tensor, slot)) slot = slot.clone();",
        "",
        "autograd_tests Tape.*",
    ),
    Mutant(
        "tape_writes_over_what_others_hold",
        "autograd/tape.cpp",
        "!Tape::gradient_slot(tensor) && saved.unique() && ",
        "!Tape::gradient_slot(tensor) && ",
        "autograd_tests InPlace.*",
    ),
    Mutant(
        "gemm_edge_tile_does_not_accumulate",
        "autograd/cpu/gemm/block_gemm_kernel.hpp",
        "(work.accumulates ? work.c[r * g_.n + j] : T(0)) +",
        "T(0) +",
        "autograd_tests BlockGemm/*",
    ),
    Mutant(
        "attention_sums_not_rescaled",
        "autograd/ops/attention/cpu/forward_cpu.cpp",
        "scale_row(row, std::exp2(before - base))",
        "scale_row(row, T(1))",
        "autograd_tests Cases/EveryOp.Matches*/attention_*",
    ),
    Mutant(
        "attention_backward_without_delta",
        "autograd/ops/attention/cpu/backward_cpu.cpp",
        "hn::Sub(keep(dweight), hn::Set(d, deltas_[row]))",
        "keep(dweight)",
        "autograd_tests Cases/EveryOp.Matches*/attention_*",
    ),
    Mutant(
        "attention_sees_the_next_key",
        "autograd/ops/attention/mask.hpp",
        "o.causal ? shift + 1 : kFar",
        "o.causal ? shift + 2 : kFar",
        "autograd_tests Attention.*:AttentionMask.*",
    ),
    Mutant(
        "philox_of_nine_rounds",
        "autograd/core/philox.hpp",
        "round < 10",
        "round < 9",
        "autograd_tests Philox.KnownAnswers",
    ),
]

# The kernels of CUDA, executed on the CPU.
CUDA = [
    Mutant(
        "cuda_adamw_ignores_is_valid",
        "optim/adamw.cu",
        "  if (options.scalars.is_valid.get() == 0) return;\n",
        "",
        "cuda_plain_tests All/OptimizerOnCuda.*",
    ),
    Mutant(
        "cuda_adamw_writes_past_the_tail",
        "optim/adamw.cu",
        "if (first + N <= p.count) {",
        "if (first < p.count) {",
        "cuda_plain_tests All/OptimizerOnCuda.*",
    ),
    Mutant(
        "cuda_head_with_unaligned_rows",
        "autograd/ops/linear_cross_entropy.cpp",
        "round_up(vocab, 16 / size_bytes(dtype))",
        "round_up(vocab, 2)",
        "cuda_plain_tests AlignedRows.*",
    ),
    Mutant(
        "cuda_cross_entropy_without_barrier",
        "autograd/ops/cross_entropy.cu",
        "partial[threadIdx.x / kWarp] = mine;\n    __syncthreads();\n",
        "partial[threadIdx.x / kWarp] = mine;\n",
        "cuda_plain_tests Cases/EveryOpOnCuda.F32*/cross_entropy_*",
    ),
    Mutant(
        "cuda_cross_entropy_reads_past_the_tail",
        "autograd/ops/cross_entropy.cu",
        "if (pieces.body + lane < count) f(",
        "if (pieces.body + lane <= count) f(",
        "cuda_plain_tests Cases/EveryOpOnCuda.F32*/cross_entropy_*",
    ),
    Mutant(
        "cuda_layer_norm_leaves_out_a_warp",
        "autograd/cuda/norm_rows.cuh",
        "for (int other = 1; other < kWarps; ++other)",
        "for (int other = 1; other < kWarps - 1; ++other)",
        "cuda_plain_tests Cases/EveryOpOnCuda.F32*/layer_norm_*",
    ),
    Mutant(
        "cuda_embedding_forgets_other_chunks",
        "autograd/ops/embedding.cu",
        "if (run.began_before || goes_on) {",
        "if (run.began_before || (goes_on && chunk < 0)) {",
        "cuda_plain_tests KnownValues.OneTokenManyTimes",
    ),
    Mutant(
        "cuda_attention_backward_without_barrier",
        "autograd/ops/attention/cuda/simt/backward.cu",
        "__syncthreads();\n      const bool all = mask_range.all(keys,",
        "const bool all = mask_range.all(keys,",
        "cuda_plain_tests KnownValues.LengthsAndHeadSizesThatFillNoTile",
    ),
]

ABLATE = [
    Mutant(
        "ablate_interval_without_correction",
        "train/ablate/statistics.cpp",
        "critical_t(pairs, significance / m) * error",
        "critical_t(pairs, significance) * error",
        "train_tests Statistics.*",
    ),
    Mutant(
        "ablate_locks_nothing",
        "train/ablate/sweep_folder.cpp",
        "if (!locked && errno == EWOULDBLOCK) return std::nullopt;",
        "if (!locked && errno == ENOLCK) return std::nullopt;",
        "heed train.ablate$",
    ),
    Mutant(
        "ablate_trains_one_seed",
        "train/ablate/ablation.cpp",
        'fmt::format("seed={}", task.seed)',
        'fmt::format("seed={}", task.seed * 0)',
        "heed train.ablate$",
    ),
]

PLOT = [
    Mutant(
        "plot_replaces_pictures_of_others",
        "train/run/run_mark.cpp",
        'text.find("<dc:title>heed</dc:title>") != std::string::npos',
        'text.find("<") != std::string::npos',
        "train_tests RunFolderTest.*",
    ),
    Mutant(
        "plot_loses_spikes",
        "train/plot/curve.cpp",
        "if (low != high) result.push_back(*std::max(low, high));",
        "",
        "train_tests Curve.*",
    ),
]

MUTANTS = OPTIM + DATA + NN + TRAIN + AUTOGRAD + CUDA + ABLATE + PLOT + MODEL_FAMILY
