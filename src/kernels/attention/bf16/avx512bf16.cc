// The engine of vdpbf16ps: two products a lane and instruction, twice the f32 peak.
#include "kernels/attention/engine.h"

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

int64_t run_bf16_peak(int64_t rounds) {
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

constexpr kernels::Engine kEngine = {
    .name = "bf16 tiles (AVX512-BF16)",
    .accepts =
        [](const kernels::EngineRequest& request) {
          return active_isa() == Isa::avx512bf16 && kernels::suits_bf16_tiles(request);
        },
    .whole_groups = false,
    .bf16_in_place = true,
    .forward_scratch = kernels::bf16_forward_scratch,
    .backward_scratch = kernels::bf16_backward_scratch,
    .bind = [](AttentionGroup& group, kernels::Operands& operands,
               bool backward) { kernels::bind_bf16(group, false, backward, operands.bf16); },
    .forward = forward_bf16_tile<VectorPairs<Bf16Dot>>,
    .backward = backward_bf16_tile<VectorPairs<Bf16Dot>>,
    .run_peak = run_bf16_peak,
};

}  // namespace
const kernels::Engine* avx512bf16_engine() { return &kEngine; }
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace heed::kernels {

const Engine* avx512bf16_engine() {
#if HWY_TARGETS & HWY_AVX3
  return N_AVX3::avx512bf16_engine();
#else
  return nullptr;
#endif
}

}  // namespace heed::kernels
#endif
