#include "optim/muon.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/core/device.hpp"
#include "optim/newton_schulz.hpp"
#include "optim/sgd.hpp"

namespace heed::optim {
namespace {

// Limits the workspace of a batch to some tens of MiB; a single matrix may be larger.
constexpr int64_t kMostBatchElements = int64_t{1} << 22;

const char* begin_of(const Tensor& tensor) { return static_cast<const char*>(tensor.ref().data); }

int64_t bytes_of(const Tensor& tensor) { return tensor.numel() * size_bytes(tensor.dtype()); }

double scale_of(MuonOptions::Scale scale, int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
  return scale == MuonOptions::Scale::original ? std::sqrt(std::max(1.0, r / c)) : 0.2 * std::sqrt(std::max(r, c));
}

}  // namespace

Muon::Muon(std::vector<ParameterSpan> spans, std::vector<Tensor> matrices, const MuonOptions& options,
           std::function<void()> gather)
    : Optimizer(std::move(spans)), matrices_(std::move(matrices)), options_(options), gather_(std::move(gather)) {
  require<ValueError>(options.momentum >= 0 && options.momentum < 1,
                      "Muon: momentum is {}, it must be at least 0 and below 1", options.momentum);
  require_not_negative("weight_decay", options.weight_decay);
  require_not_negative("padding", static_cast<double>(options.padding));
  check(options.others);
  find_pieces();
  require_no_other_parameters();
  make_batches();
  for (size_t span = 0; span < this->spans().size(); ++span) {
    m_.push_back(add_state("m", span));
    v_.push_back(has_matrices_[span] ? Tensor() : add_state("v", span));
  }
}

void Muon::find_pieces() {
  has_matrices_.assign(spans().size(), false);
  for (size_t matrix = 0; matrix < matrices_.size(); ++matrix) {
    const Tensor& whole = matrices_[matrix];
    require<ShapeError>(whole && whole.rank() == 2 && whole.numel() > 0,
                        "Muon: matrix {} has shape {}, it must be (rows, columns) and not empty", matrix,
                        whole ? whole.shape() : Shape{});
    std::vector<Piece>& pieces = pieces_.emplace_back();
    for (size_t span = 0; span < spans().size(); ++span) {
      const Tensor& gradients = spans()[span].gradients;
      const int64_t size = size_bytes(gradients.dtype());
      const int64_t offset = (begin_of(whole) - begin_of(gradients)) / size;  // of the matrix in the span
      const int64_t first = std::max<int64_t>(offset, 0), last = std::min(offset + whole.numel(), gradients.numel());
      if (first >= last) continue;
      pieces.push_back({.span = span, .in_span = first, .in_matrix = first - offset, .count = last - first});
      has_matrices_[span] = true;
    }
    require<ValueError>(gather_ || (pieces.size() == 1 && pieces[0].count == whole.numel()),
                        "Muon: matrix {} is not within the gradients of one span", matrix);
  }
}

void Muon::require_no_other_parameters() const {
  std::vector<std::vector<std::pair<int64_t, int64_t>>> covered(spans().size());  // of each span: begin and end
  for (const std::vector<Piece>& pieces : pieces_) {
    for (const Piece& piece : pieces) covered[piece.span].emplace_back(piece.in_span, piece.in_span + piece.count);
  }
  for (size_t span = 0; span < covered.size(); ++span) {
    if (!has_matrices_[span]) continue;
    const int64_t size = spans()[span].gradients.numel();
    covered[span].emplace_back(size, size);
    std::sort(covered[span].begin(), covered[span].end());
    int64_t end = 0;
    for (const auto& [next, next_end] : covered[span]) {
      require<ValueError>(
          next - end <= options_.padding,
          "Muon: span {} has {} elements in a row outside of its matrices, at most {} are allowed: nothing would "
          "update them, so give other parameters a span of their own",
          span, next - end, options_.padding);
      end = std::max(end, next_end);
    }
  }
}

void Muon::make_batches() {
  for (size_t matrix = 0; matrix < matrices_.size(); ++matrix) {
    const int64_t rows = matrices_[matrix].shape()[0], columns = matrices_[matrix].shape()[1];
    const auto has_room = [&](const Batch& batch) {
      return batch.rows == rows && batch.columns == columns &&
             static_cast<int64_t>(batch.matrices.size() + 1) * rows * columns <= kMostBatchElements;
    };
    auto found = std::find_if(batches_.begin(), batches_.end(), has_room);
    if (found == batches_.end()) found = batches_.insert(found, {.rows = rows, .columns = columns, .matrices = {}});
    found->matrices.push_back(matrix);
  }
}

std::vector<std::string> Muon::moment_names(const Tensor& gradient) const {
  const bool is_hidden = std::any_of(matrices_.begin(), matrices_.end(), [&](const Tensor& matrix) {
    return begin_of(matrix) >= begin_of(gradient) && begin_of(matrix) < begin_of(gradient) + bytes_of(gradient);
  });
  return is_hidden ? std::vector<std::string>{"m"} : std::vector<std::string>{"m", "v"};
}

void Muon::update(size_t span, const StepScalars& scalars) {
  if (has_matrices_[span]) return;
  update_adamw(spans()[span], m_[span], v_[span], options_.others, scalars);
}

void Muon::update_matrices(const StepScalars& scalars) {
  if (gather_) {
    for (const std::vector<Piece>& pieces : pieces_) {
      for (const Piece& piece : pieces) {
        update_momentum(piece, spans()[piece.span].gradients.slice(piece.in_span, {piece.count}), scalars);
      }
    }
    gather_();
  }
  for (const Batch& batch : batches_) {
    const int64_t size = batch.rows * batch.columns, count = static_cast<int64_t>(batch.matrices.size());
    const Tensor& like = matrices_[batch.matrices[0]];
    const Tensor updates =
        empty({count, batch.rows, batch.columns}, like.dtype(), like.device(), MemoryCategory::workspace);
    for (int64_t i = 0; i < count; ++i) {
      const size_t matrix = batch.matrices[static_cast<size_t>(i)];
      const Tensor update = updates.slice(i * size, {size});
      gather_ ? copy_elements_to(update.ref(), matrices_[matrix].slice(0, {size}))
              : update_momentum(pieces_[matrix][0], update, scalars);
    }
    const Tensor directions = newton_schulz(updates);
    const double scale = scale_of(options_.scale, batch.rows, batch.columns);
    for (int64_t i = 0; i < count; ++i) {
      for (const Piece& piece : pieces_[batch.matrices[static_cast<size_t>(i)]]) {
        update_weights(piece, directions.slice(i * size + piece.in_matrix, {piece.count}), scale, scalars);
      }
    }
  }
}

void Muon::update_momentum(const Piece& piece, const Tensor& to, const StepScalars& scalars) {
  const ParameterSpan& span = spans()[piece.span];
  HEED_DISPATCH(to.device(), muon_momentum,
                {.m = m_[piece.span].slice(piece.in_span, {piece.count}).ref(),
                 .update = to.ref(),
                 .gradients = span.gradients.slice(piece.in_span, {piece.count}),
                 .scalars = scalars,
                 .momentum = options_.momentum});
}

// A step of gradient descent, whose weight decay would be scaled like its rate.
void Muon::update_weights(const Piece& piece, const Tensor& direction, double scale, const StepScalars& scalars) {
  const ParameterSpan& span = spans()[piece.span];
  StepScalars scaled = scalars;
  scaled.gradient_scale = 1;
  scaled.learning_rate_scale = span.learning_rate_scale * scale;
  HEED_DISPATCH(direction.device(), sgd_step,
                {.weights = span.weights.slice(piece.in_span, {piece.count}).ref(),
                 .copies = span.copies ? span.copies.slice(piece.in_span, {piece.count}).ref() : TensorRef(),
                 .gradients = direction,
                 .scalars = scaled,
                 .weight_decay = span.decay_of(options_.weight_decay) / scale});
}

}  // namespace heed::optim
