// The matrix product: both operands packed into the order in which the register tile reads them.
//
// On a 2.5 GHz Cascade Lake (two FMA units, 32 KB L1, 1 MB L2) the 8 x 48 tile is limited by the multiply-adds:
// 24 of them, three loads of B and eight broadcasts of A a step.
#include "kernels/gemm/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm/loops-inl.h"
#include "kernels/gemm/tile_amx-inl.h"
#include "kernels/simd/amx-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void run_gemm(const Gemm& g) {
#if HWY_TARGET == HWY_AVX3
  if (g.bf16) {
    switch (active_isa()) {
      case Isa::avx512bf16: return run_product<Bf16Step>(g);
      case Isa::amx: return run_product<AmxStep<AmxTiles>>(g);
      default: break;
    }
  }
#endif
  run_product<F32Step>(g);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_gemm);

void gemm(const Gemm& g) {
  if (g.m <= 0 || g.n <= 0) return;
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_gemm)(g);
}

}  // namespace heed::kernels
#endif
