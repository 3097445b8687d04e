#include "autograd/cpu/gemm.hpp"

#include <algorithm>

#include "autograd/cpu/parallel.hpp"

#if HEED_HAVE_ONEDNN
#include <array>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#endif

namespace heed::cpu {
namespace {

template <class T>
void start_row(const Gemm<T>& g, T* row) {
  if (g.add) {
    if (g.bias != nullptr) {
      for (int64_t j = 0; j < g.n; ++j) row[j] += g.bias[j];
    }
  } else if (g.bias != nullptr) {
    std::copy_n(g.bias, g.n, row);
  } else {
    std::fill_n(row, g.n, T(0));
  }
}

template <class T>
void gemm_loops(const Gemm<T>& g) {
  const int64_t a_row = g.transpose_a ? 1 : g.k, a_column = g.transpose_a ? g.m : 1;
  constexpr int64_t kGrainOperations = 1 << 16;
  parallel_for(g.m, std::max<int64_t>(1, kGrainOperations / std::max<int64_t>(1, g.n * g.k)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   T* row = g.c + i * g.n;
                   start_row(g, row);
                   if (g.transpose_b) {
                     for (int64_t j = 0; j < g.n; ++j) {
                       T sum = 0;
                       for (int64_t p = 0; p < g.k; ++p) sum += g.a[i * a_row + p * a_column] * g.b[j * g.k + p];
                       row[j] += sum;
                     }
                   } else {
                     for (int64_t p = 0; p < g.k; ++p) {
                       const T factor = g.a[i * a_row + p * a_column];
                       for (int64_t j = 0; j < g.n; ++j) row[j] += factor * g.b[p * g.n + j];
                     }
                   }
                 }
               });
}

#if HEED_HAVE_ONEDNN
// Creating a primitive costs as much as a small product, so each shape's is kept.
class OneDnn {
 public:
  void run(const Gemm<float>& g) {
    Entry& entry = find(g);
    dnnl::memory a(entry.a, engine_, const_cast<float*>(g.a)), b(entry.b, engine_, const_cast<float*>(g.b)),
        c(entry.c, engine_, g.c);
    std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
    if (g.bias != nullptr) {
      arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(entry.bias, engine_, const_cast<float*>(g.bias)));
    }
    entry.primitive.execute(stream_, arguments);
  }

 private:
  struct Entry {
    dnnl::memory::desc a, b, c, bias;
    dnnl::matmul primitive;
  };
  using Key = std::array<int64_t, 7>;

  Entry& find(const Gemm<float>& g) {
    const Key key{g.m, g.n, g.k, g.transpose_a, g.transpose_b, g.add, g.bias != nullptr};
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    return found != entries_.end() ? found->second : entries_.emplace(key, make(g)).first->second;
  }

  Entry make(const Gemm<float>& g) const {
    using dnnl::memory;
    constexpr auto kType = memory::data_type::f32;
    Entry entry;
    entry.a = memory::desc({g.m, g.k}, kType, g.transpose_a ? memory::dims{1, g.m} : memory::dims{g.k, 1});
    entry.b = memory::desc({g.k, g.n}, kType, g.transpose_b ? memory::dims{1, g.k} : memory::dims{g.n, 1});
    entry.c = memory::desc({g.m, g.n}, kType, memory::dims{g.n, 1});
    entry.bias = memory::desc({1, g.n}, kType, memory::dims{g.n, 1});
    dnnl::primitive_attr attributes;
    if (g.add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    entry.primitive = dnnl::matmul(describe(entry, g.bias != nullptr, attributes));
    return entry;
  }

  dnnl::matmul::primitive_desc describe(const Entry& e, bool bias, const dnnl::primitive_attr& attributes) const {
#if DNNL_VERSION_MAJOR >= 3
    return bias ? dnnl::matmul::primitive_desc(engine_, e.a, e.b, e.bias, e.c, attributes)
                : dnnl::matmul::primitive_desc(engine_, e.a, e.b, e.c, attributes);
#else
    const dnnl::matmul::desc desc =
        bias ? dnnl::matmul::desc(e.a, e.b, e.bias, e.c) : dnnl::matmul::desc(e.a, e.b, e.c);
    return dnnl::matmul::primitive_desc(desc, attributes, engine_);
#endif
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::mutex mutex_;
  std::map<Key, Entry> entries_;
};
#endif

}  // namespace

void gemm(Context&, const Gemm<double>& product) { gemm_loops(product); }

void gemm(Context&, const Gemm<float>& product) {
#if HEED_HAVE_ONEDNN
  if (product.m == 0 || product.n == 0 || product.k == 0) {
    gemm_loops(product);
    return;
  }
  static OneDnn instance;
  keep_promised_threads();
  instance.run(product);
#else
  gemm_loops(product);
#endif
}

}  // namespace heed::cpu
