// The tiles of AMX: eight of 16 rows of 64 bytes.
#if defined(HEED_KERNELS_SIMD_AMX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_AMX_INL_H_
#undef HEED_KERNELS_SIMD_AMX_INL_H_
#else
#define HEED_KERNELS_SIMD_AMX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

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
struct AmxTiles {
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
  template <int kC, int kA, int kB>  // signed times signed numbers
  static HWY_INLINE void dot_int8() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard
