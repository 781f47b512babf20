// Attention in bf16 by AMX: 16 x 16 sums over a depth of 32 in one instruction.
#include "kernels/attention/bf16/bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/bf16/amx.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/amx-inl.h"
#include "kernels/attention/bf16/round-inl.h"
#include "kernels/attention/bf16/units-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

struct AmxPairs : AmxTiles, Bf16Pack {};

int64_t RunAmxPeak(int64_t rounds) {
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

constexpr kernels::AttentionPairs kAmxKernels = {
    .forward_tile = forward_pairs_tile<TilePairs<AmxPairs>>,
    .backward_tile = backward_pairs_tile<TilePairs<AmxPairs>>,
    .whole_tiles = true,
    .run_peak = RunAmxPeak,
};

}  // namespace
const kernels::AttentionPairs* AmxKernels() { return &kAmxKernels; }
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace heed::kernels {

const AttentionPairs* attention_amx() {
#if HWY_TARGETS & HWY_AVX3
  return N_AVX3::AmxKernels();
#else
  return nullptr;
#endif
}

}  // namespace heed::kernels
#endif
