// Muon for the hidden matrices of a model, AdamW for all its other parameters (embeddings, head, gains, biases).
// For a matrix of (rows, columns), rows = outputs:
//   m = momentum * m + (1 - momentum) * g             g = gradient * gradient_scale
//   u = momentum * m + (1 - momentum) * g             Nesterov
//   w -= lr * weight_decay * w                        before the update, with the unscaled rate
//   w -= lr * scale * newton_schulz(u)                see newton_schulz.hpp
//   scale: original          sqrt(max(1, rows / columns))
//          match_rms_adamw   0.2 sqrt(max(rows, columns)): the root mean square of an update is then about that of
//          AdamW,
//                            whose learning rate and weight decay can be kept
// All in the dtype of the weights. As torch.optim.Muon, which computes newton_schulz in bf16.
// Jordan 2024 (kellerjordan.github.io/posts/muon); match_rms_adamw: Liu et al. 2025, "Muon is scalable for LLM
// training" (arXiv 2502.16982).
#pragma once

#include <functional>

#include "autograd/core/context.hpp"
#include "optim/adamw.hpp"
#include "optim/optimizer.hpp"

namespace heed::optim {

struct MuonOptions {
  enum class Scale { original, match_rms_adamw };
  double momentum = 0.95;  // in [0, 1)
  double weight_decay = 0.1;
  Scale scale = Scale::match_rms_adamw;
  AdamWOptions others = {};  // of the parameters that are no hidden matrices
  int64_t padding = 0;       // the most elements in a row of a span with matrices that belong to no parameter
};

class Muon final : public Optimizer {
 public:
  // matrices: the gradient of each hidden matrix, (rows, columns), in the memory of the gradients of the spans. Those
  // of a projection to queries, keys and values are three matrices, also if one parameter holds them. A span has either
  // elements of hidden matrices, and none of other parameters, which nothing would update, or none.
  // gather: for spans that are shards of the parameters of several ranks, whose matrices lie in the spans of several of
  // them. It is called when the spans' gradients have been replaced by u, and copies those of each rank to all others,
  // so that `matrices` are whole.
  // Throws ValueError for options out of their range, for a matrix that is not within one span unless `gather` is
  // given, and for a span with matrices and more than `padding` other elements in a row; ShapeError for matrices that
  // are not of two dimensions; and as Optimizer does. State: m of each span, and v of those without hidden matrices.
  Muon(std::vector<ParameterSpan> spans, std::vector<Tensor> matrices, const MuonOptions& options,
       std::function<void()> gather = {});

  BiasCorrection bias_correction(int64_t step) const override { return optim::bias_correction(options_.others, step); }

 private:
  // The elements of a matrix that a span has.
  struct Piece {
    size_t span = 0;
    int64_t in_span = 0, in_matrix = 0, count = 0;  // elements
  };
  // Matrices of one shape, which newton_schulz() gets together.
  struct Batch {
    int64_t rows = 0, columns = 0;
    std::vector<size_t> matrices;
  };

  void find_pieces();
  void require_no_other_parameters() const;
  void make_batches();
  std::vector<std::string> moment_names(const Tensor& gradient) const override;
  void update(size_t span, const StepScalars& scalars) override;
  void update_matrices(const StepScalars& scalars) override;
  void update_momentum(const Piece& piece, const Tensor& to, const StepScalars& scalars);
  void update_weights(const Piece& piece, const Tensor& direction, double scale, const StepScalars& scalars);

  std::vector<Tensor> matrices_;
  MuonOptions options_;
  std::function<void()> gather_;
  std::vector<std::vector<Piece>> pieces_;  // of each matrix, those that are here
  std::vector<bool> has_matrices_;          // of each span
  std::vector<Batch> batches_;
  std::vector<Tensor> m_, v_;  // one per span; v empty for one with matrices
};

// m and u as above. update: where u is written, may be the gradients; all 0 if scalars.is_valid is 0.
struct MuonMomentum {
  TensorRef m = {}, update = {};
  ConstTensorRef gradients = {};
  StepScalars scalars = {};
  double momentum = 0;
};

}  // namespace heed::optim

namespace heed::cpu {
void muon_momentum(Context& context, const optim::MuonMomentum& p);
}  // namespace heed::cpu
namespace heed::cuda {
void muon_momentum(Context& context, const optim::MuonMomentum& p);
}  // namespace heed::cuda
