// Attention in bf16 by vdpbf16ps: two products a lane and instruction, twice the f32 peak.
#include "kernels/attention/bf16/bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/bf16/avx512bf16.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/bf16/round-inl.h"
#include "kernels/attention/bf16/units-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

struct Bf16Dot : Bf16Pack {
  static HWY_INLINE FV add(FV sum, UV a, UV x) { return FV{bf16_dot(sum.raw, a.raw, x.raw)}; }
};

int64_t RunBf16Peak(int64_t rounds) {
  constexpr int kChains = 20;
  constexpr int64_t kSteps = 64;
  FV sums[kChains];
  HWY_UNROLL(20)
  for (int n = 0; n < kChains; ++n) sums[n] = all(static_cast<float>(n) * 0x1p-20f);
  const UV half = hn::Set(kU, 0x3E803E80);  // a quarter, twice
  for (int64_t step = 0; step < rounds * kSteps; ++step) {
    HWY_UNROLL(20)
    for (int n = 0; n < kChains; ++n) sums[n] = Bf16Dot::add(sums[n], half, half);
  }
  FV total = hn::Zero(kF);
  HWY_UNROLL(20)
  for (int n = 0; n < kChains; ++n) total = hn::Add(total, sums[n]);
  volatile float sink = hn::GetLane(total);
  (void)sink;
  return rounds * kSteps * kChains * kLanes * 4;
}

constexpr kernels::AttentionPairs kBf16Kernels = {
    .forward_tile = forward_pairs_tile<VectorPairs<Bf16Dot>>,
    .backward_tile = backward_pairs_tile<VectorPairs<Bf16Dot>>,
    .whole_tiles = false,
    .run_peak = RunBf16Peak,
};

}  // namespace
const kernels::AttentionPairs* Bf16Kernels() { return &kBf16Kernels; }
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace heed::kernels {

const AttentionPairs* attention_avx512bf16() {
#if HWY_TARGETS & HWY_AVX3
  return N_AVX3::Bf16Kernels();
#else
  return nullptr;
#endif
}

}  // namespace heed::kernels
#endif
