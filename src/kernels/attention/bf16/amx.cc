// The engine of AMX: 16 x 16 sums over a depth of 32 in one instruction.
#include "kernels/attention/engine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/bf16/amx.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/bf16/round-inl.h"
#include "kernels/attention/bf16/units-inl.h"
#include "kernels/simd/amx-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

struct AmxPairs : AmxTiles, Bf16Pack {};

int64_t run_amx_peak(int64_t rounds) {
  const AmxTiles::Scope scope;
  AmxTiles::clear<0>(), AmxTiles::clear<1>(), AmxTiles::clear<2>(), AmxTiles::clear<3>();
  AmxTiles::clear<4>(), AmxTiles::clear<5>(), AmxTiles::clear<6>(), AmxTiles::clear<7>();
  constexpr int64_t kSteps = 16;  // of 64 cycles
  for (int64_t step = 0; step < rounds * kSteps; ++step) {
    AmxTiles::dot<0, 4, 6>();
    AmxTiles::dot<1, 4, 7>();
    AmxTiles::dot<2, 5, 6>();
    AmxTiles::dot<3, 5, 7>();
  }
  return rounds * kSteps * 4 * 16 * 16 * 32 * 2;
}

constexpr kernels::Engine kEngine = {
    .name = "bf16 tiles (AMX)",
    .accepts =
        [](const kernels::EngineRequest& request) {
          return active_isa() == Isa::amx && kernels::suits_bf16_tiles(request);
        },
    .whole_groups = false,
    .bf16_in_place = true,
    .forward_scratch = kernels::bf16_forward_scratch,
    .backward_scratch = kernels::bf16_backward_scratch,
    .bind = [](AttentionGroup& group, kernels::Operands& operands,
               bool backward) { kernels::bind_bf16(group, true, backward, operands.bf16); },
    .forward = forward_bf16_tile<TilePairs<AmxPairs>>,
    .backward = backward_bf16_tile<TilePairs<AmxPairs>>,
    .run_peak = run_amx_peak,
};

}  // namespace
const kernels::Engine* amx_engine() { return &kEngine; }
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace heed::kernels {

const Engine* amx_engine() {
#if HWY_TARGETS & HWY_AVX3
  return N_AVX3::amx_engine();
#else
  return nullptr;
#endif
}

}  // namespace heed::kernels
#endif
