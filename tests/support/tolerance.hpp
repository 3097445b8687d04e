// Every tolerance of the tests, with its reason. A test takes its bound from here or it compares exactly.
#pragma once

#include <limits>

namespace heed::test {

// f64 against f64, other order of summation: some hundred roundings of the largest term.
inline constexpr double kF64 = 1e-11;
// Logits with a KV cache against those of the whole sequence in f64: the same terms in other orders.
inline constexpr double kKvCacheF64 = 1e-12;
// Analytic gradient against the five-point stencil in f64.
inline constexpr double kGradcheck = 1e-6;
// f32 operations: the error may be at most twice that of the plain reference in f32, plus this many roundings of the
// largest value of the tensor.
inline constexpr double kF32Slack = 2.0;
inline constexpr double kF32Roundings = 16.0;
inline constexpr double kF32Epsilon = std::numeric_limits<float>::epsilon();
// A sum of a million equal values in f32, relative: sums of blocks of sums round some dozen times. One running sum
// would be wrong by 1e-2.
inline constexpr double kF32LongSum = 16 * kF32Epsilon;
// bf16 operations compute in f32 and round once when they store, by at most half of this of the value; values far below
// the largest of the tensor may lose more, where they are differences or use what was stored before.
inline constexpr double kBf16Epsilon = 1.0 / 128;
inline constexpr double kBf16Floor = 1.0 / 16;
inline constexpr double kBf16ResultFloor = 2.0;
inline constexpr double kBf16RoundedOnce = kBf16Epsilon / 2 + kF32LongSum;
// One optimizer step in f32: the weight is rounded once, what it moves by a few times.
inline constexpr double kF32StepRoundings = 1.0;
// Over very many steps in f32 roundings add up like a random walk: this many roundings times the root of their
// number.
inline constexpr double kF32Drift = 2.0;
// Means of random draws, in standard errors: one in two million falls outside by chance, and seeds are fixed.
inline constexpr double kSigmas = 5.0;
// f32 values derived by hand, relative.
inline constexpr double kF32 = 1e-5;
// Values quoted with six digits.
inline constexpr double kSixDigits = 1e-6;
// Elements of a matrix after newton_schulz() in f32: five steps multiply the rounding of a small singular value by up
// to 3.4445^5.
inline constexpr double kNewtonSchulzF32 = 500 * 0x1p-23;
// torch.optim.Muon, whose newton_schulz() is in bf16, as a share of the norm of ten updates. Measured: 0.0046.
inline constexpr double kTorchMuonBf16 = 0.01;
// The same model in PyTorch, as a share of a tensor's norm, over up to ten steps: other orders of summation, whose
// roundings AdamW carries on. Measured: 2e-15 in f64, 1e-6 in f32.
inline constexpr double kTorchF64 = 1e-9;
inline constexpr double kTorchF32 = 1e-5;
// Logits of transformers in f32, as a share of the largest. Measured: 2e-6.
inline constexpr double kTransformersF32 = 1e-5;
// Differences of logits that a fault in an exported file must exceed, as a share of the largest, at least 1: what the
// export itself allows in f32.
inline constexpr double kExportFault = 1e-3;
// A score of an attention head in TransformerLens, which rounds in f32.
inline constexpr double kTransformerLens = 1e-4;
// One step cut into micro-batches: gradients relative to their norm, losses over 20 steps relative.
inline constexpr double kMicroBatchGradient = 1e-6;
inline constexpr double kMicroBatchLoss = 1e-5;
// The same batch on several ranks, after some steps: the norm of the gradients, and weights and moments, of which
// Adam's first moves are near sign(g), so that rounding turns some around where a gradient is near 0.
inline constexpr double kRanksNorm = 1e-4;
inline constexpr double kRanksWeights = 2e-2;
// How far the share of equal elements of two masks of 20,000 is from a half.
inline constexpr double kHalfOfTheMask = 0.025;
// Ten steps on CUDA compared with the CPU, losses and norms of gradients relative: other orders of summation, in bf16
// other roundings of what is stored.
inline constexpr double kCudaLossF32 = 1e-5;
inline constexpr double kCudaLossBf16 = 2e-2;
// The gradient of one parameter in one step on CUDA compared with the CPU, as a share of its norm. Measured: 1e-5; in
// bf16 0.03, but 0.17 where rounding moves an activation over the kink of ReLU.
inline constexpr double kCudaGradientF32 = 5e-5;
inline constexpr double kCudaGradientBf16 = 0.25;
// Nats by which the mean log-loss of a source over 100,000 targets may miss its entropy.
inline constexpr double kPairedNoise = 0.02;
// Largest standard error, in nats, of the Monte-Carlo means that a synthetic dataset states for its reference losses.
inline constexpr double kReferenceError = 0.005;
// Nats by which a strategy that knows more is better at least, far more than the errors of the two means.
inline constexpr double kBetterStrategy = 0.02;
// Excess in nats below which a tiny model has learnt a tiny source.
inline constexpr double kLearnt = 0.05;

}  // namespace heed::test
