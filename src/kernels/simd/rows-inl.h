// Sixteen lanes, whatever the width of the machine's vectors. A reduction over a row keeps sixteen partial results and
// folds them in one fixed tree, so its bits are the same on every instruction set.
#if defined(HEED_KERNELS_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_ROWS_INL_H_
#undef HEED_KERNELS_SIMD_ROWS_INL_H_
#else
#define HEED_KERNELS_SIMD_ROWS_INL_H_
#endif

#include <cstring>

#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

inline constexpr int kParts = static_cast<int>(16 / kLanes);  // vectors in sixteen lanes

// The first `count` (0 .. kLanes) floats at p, the rest zero. Reads nothing beyond them.
HWY_INLINE FV load_first(const float* p, int64_t count) {
  const F d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, p);
#else
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(count) * sizeof(float));
  return hn::Load(d, lanes);
#endif
}

HWY_INLINE void store_first(FV v, float* p, int64_t count) {
  const F d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, p);
#else
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, d, lanes);
  std::memcpy(p, lanes, static_cast<size_t>(count) * sizeof(float));
#endif
}

// Sixteen lanes. The loops over their parts are unrolled explicitly: at -O2 the compiler would leave them in memory.
struct Row16 {
  FV part[kParts];
};

HWY_INLINE Row16 set16(float value) {
  Row16 r;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) r.part[i] = hn::Set(F(), value);
  return r;
}

HWY_INLINE Row16 load16(const float* p) {
  Row16 r;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) r.part[i] = hn::LoadU(F(), p + i * kLanes);
  return r;
}

HWY_INLINE int64_t lanes_of_part(int64_t count, int part) {
  const int64_t left = count - static_cast<int64_t>(part) * kLanes;
  return left < 0 ? 0 : (left > kLanes ? kLanes : left);
}

// The first `count` (0 .. 16), the rest `fill`.
HWY_INLINE Row16 load_first16(const float* p, int64_t count, float fill = 0.0f) {
  const F d;
  Row16 r;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) {
    const int64_t lanes = lanes_of_part(count, i);
    const FV v = lanes == 0 ? hn::Zero(d) : load_first(p + i * kLanes, lanes);
    r.part[i] = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(lanes)), v, hn::Set(d, fill));
  }
  return r;
}

HWY_INLINE void store16(const Row16& r, float* p) {
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) hn::StoreU(r.part[i], F(), p + i * kLanes);
}

HWY_INLINE void store_first16(const Row16& r, float* p, int64_t count) {
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) {
    const int64_t lanes = lanes_of_part(count, i);
    if (lanes > 0) store_first(r.part[i], p + i * kLanes, lanes);
  }
}

// f(vector, ...) on each part.
template <class Function, class... Rows>
HWY_INLINE Row16 map16(Function&& f, const Rows&... rows) {
  Row16 r;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) r.part[i] = f(rows.part[i]...);
  return r;
}

// Folds lanes i and i + 8, then i + 4, i + 2, i + 1.
template <class Function>
HWY_INLINE float fold16(const Row16& r, Function&& f) {
  HWY_ALIGN float lanes[16];
  store16(r, lanes);
  float t[4];
  for (int i = 0; i < 4; ++i) t[i] = f(f(lanes[i], lanes[i + 8]), f(lanes[i + 4], lanes[i + 12]));
  return f(f(t[0], t[2]), f(t[1], t[3]));
}

HWY_INLINE float sum16(const Row16& r) {
  return fold16(r, [](float a, float b) { return a + b; });
}

// The largest lane. With NaN among them the result is one of the lanes, the same on every machine; callers find the NaN
// in the sum that follows.
HWY_INLINE float max16(const Row16& r) {
  return fold16(r, [](float a, float b) { return a < b ? b : a; });
}

// b > a ? b : a. A NaN in either gives a.
HWY_INLINE FV larger_else_first(FV a, FV b) { return hn::IfThenElse(hn::Lt(a, b), b, a); }

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
