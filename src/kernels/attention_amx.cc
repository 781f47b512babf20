// Attention in bf16 by AMX: 16 x 16 sums over a depth of 32 in one instruction.
#include "kernels/attention_pairs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_amx.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_avx512bf16-inl.h"
#include "kernels/attention_pair_units-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// As the processor wants it (SDM, volume 1, 18.3): palette 1, and for each tile the bytes of a row and the rows.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// Written as text: the compiler's functions do not say that a load reads memory, and lose stores before it.
struct AmxTiles : Bf16Pack {
  struct Scope {
    Scope() {
      static constexpr TileConfig kConfig;
      asm volatile("ldtilecfg %0" : : "m"(kConfig));
    }
    ~Scope() { asm volatile("tilerelease"); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };
  template <int kTile>
  static HWY_INLINE void load(const void* from, int64_t row_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row_bytes), "i"(kTile) : "memory");
  }
  template <int kTile>
  static HWY_INLINE void store(void* to, int64_t row_bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(row_bytes), "i"(kTile) : "memory");
  }
  template <int kTile>
  static HWY_INLINE void clear() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kC, int kA, int kB>
  static HWY_INLINE void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};

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
    .forward_tile = forward_pairs_tile<TilePairs<AmxTiles>>,
    .backward_tile = backward_pairs_tile<TilePairs<AmxTiles>>,
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
