#include "autograd/cpu/gemm/onednn_gemm.hpp"

#include "autograd/core/host_limits.hpp"
#include "autograd/cpu/parallel.hpp"

#if HEED_HAVE_ONEDNN
#include <array>
#include <cstdlib>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <mutex>
#endif

namespace heed::cpu {

#if HEED_HAVE_ONEDNN
namespace {

using Type = dnnl::memory::data_type;
template <class T>
constexpr Type kTypeOf = std::is_same_v<T, Bf16> ? Type::bf16 : Type::f32;

constexpr const char *kWhat = "a matrix product by oneDNN", *kAdvice = "free memory or raise the limit";
// Free memory that creating a primitive may need: if it lacks memory for machine code, oneDNN 2.6 ends the process with
// SIGSEGV.
constexpr int64_t kPrimitiveBytes = int64_t{16} << 20;

// For some shapes, oneDNN 2.6 executes AMX instructions without a tile configuration, which terminates the process with
// SIGILL. Limits oneDNN to AVX512_BF16, unless the user has set a limit.
bool limit_instructions() {
#if DNNL_VERSION_MAJOR < 3
  if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr || std::getenv("DNNL_MAX_CPU_ISA") != nullptr) return false;
  return dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16) == dnnl::status::success;
#else
  return false;
#endif
}

// Cache of oneDNN primitives by shape: creating a primitive costs as much as a small GEMM. A primitive keeps memory, so
// a program whose shapes always change starts again with an empty cache when it is full.
class OneDnn {
 public:
  template <class T, class Out>
  void run(const Gemm<T, Out>& g) {
    const std::shared_ptr<const Entry> entry = find(g);  // another thread may clear the cache
    dnnl::memory a(entry->a, engine_, const_cast<T*>(g.a)), b(entry->b, engine_, const_cast<T*>(g.b)),
        c(entry->c, engine_, g.c);
    std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
    if (g.bias != nullptr) {
      arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(entry->bias, engine_, const_cast<float*>(g.bias)));
    }
    entry->primitive.execute(stream_, arguments);
  }

 private:
  struct Entry {
    dnnl::memory::desc a, b, c, bias;
    dnnl::matmul primitive;
  };
  using Key = std::array<int64_t, 11>;
  static constexpr size_t kMostEntries = 512;

  template <class T, class Out>
  std::shared_ptr<const Entry> find(const Gemm<T, Out>& g) {
    // The key contains the number of threads, since a primitive is planned for the number at its creation.
    const Key key{g.m,           g.n,           g.k,          g.batches,
                  g.transpose_a, g.transpose_b, g.add,        g.bias != nullptr,
                  sizeof(T),     sizeof(Out),   max_threads()};
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end()) return found->second;
    if (entries_.size() >= kMostEntries) entries_.clear();
    require_memory({.bytes = kPrimitiveBytes, .what = kWhat, .advice = kAdvice});
    return entries_.emplace(key, std::make_shared<const Entry>(make(g))).first->second;
  }

  template <class T, class Out>
  Entry make(const Gemm<T, Out>& g) const {
    using dnnl::memory;
    Entry entry;
    const auto matrices = [](int64_t batches, int64_t rows, int64_t columns, Type type, bool transposed) {
      memory::dims sizes{rows, columns}, strides = transposed ? memory::dims{1, rows} : memory::dims{columns, 1};
      if (batches > 1) {
        sizes.insert(sizes.begin(), batches);
        strides.insert(strides.begin(), rows * columns);
      }
      return memory::desc(sizes, type, strides);
    };
    entry.a = matrices(g.batches, g.m, g.k, kTypeOf<T>, g.transpose_a);
    entry.b = matrices(g.batches, g.k, g.n, kTypeOf<T>, g.transpose_b);
    entry.c = matrices(g.batches, g.m, g.n, kTypeOf<Out>, false);
    entry.bias = g.batches > 1 ? memory::desc({1, 1, g.n}, Type::f32, memory::dims{g.n, g.n, 1})
                               : memory::desc({1, g.n}, Type::f32, memory::dims{g.n, 1});
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
  std::map<Key, std::shared_ptr<const Entry>> entries_;
};

template <class T, class Out>
void run(const Gemm<T, Out>& product) {
  [[maybe_unused]] static const bool limited = limit_instructions();  // must precede any use of oneDNN
  static OneDnn instance;
  keep_promised_threads();
  try {
    instance.run(product);
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_out_of_memory) throw;
    throw_out_of_memory({.bytes = 0, .what = kWhat, .advice = kAdvice});
  }
}

}  // namespace

const bool kOneDnn = true;
#else
namespace {

template <class Product>
[[noreturn]] void run(const Product&) {
  throw GraphError("oneDNN is not built in");
}

}  // namespace

const bool kOneDnn = false;
#endif

void run_onednn(const Gemm<float>& product) { run(product); }
void run_onednn(const Gemm<Bf16>& product) { run(product); }
void run_onednn(const Gemm<Bf16, float>& product) { run(product); }

}  // namespace heed::cpu
