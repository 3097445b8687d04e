#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/cpu/build_info.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "autograd/cpu/build_info.hpp"
#include "autograd/cpu/gemm/gemm.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
const char* target_name() { return hwy::TargetName(HWY_TARGET); }
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if HEED_HAVE_ONEDNN
#include <dnnl.hpp>
#endif

namespace heed::cpu {

HWY_EXPORT(target_name);

std::string instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

std::string gemm_library() {
#if HEED_HAVE_ONEDNN
  const dnnl_version_t* v = dnnl_version();
  return "heed's own blocks and oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch) + (has_bf16_products() ? ", bf16 on its own instructions" : ", bf16 widened to f32");
#else
  return "heed's own blocks";
#endif
}

std::string thread_library() {
#if HEED_HAVE_OPENMP
  return "OpenMP";
#else
  return "std::thread";
#endif
}

}  // namespace heed::cpu
#endif
