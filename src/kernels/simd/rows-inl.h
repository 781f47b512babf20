// Sixteen virtual lanes: one AVX-512 vector, two of AVX2, four of the portable path. A reduction over a row keeps
// sixteen partial results and folds them in one fixed tree, so its bits do not depend on the width of the machine's
// vectors. Include guard per target, as Highway wants it.
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

using F32 = hn::CappedTag<float, 16>;
using F32Vector = hn::Vec<F32>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(F32()));
inline constexpr int kParts = 16 / kLanes;  // machine vectors in sixteen lanes

// The first `count` (0 .. kLanes) floats at p, the rest zero. Reads nothing beyond them.
HWY_INLINE F32Vector LoadFirst(const float* p, int64_t count) {
  const F32 d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, p);
#else
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(count) * sizeof(float));
  return hn::Load(d, lanes);
#endif
}

HWY_INLINE void StoreFirst(F32Vector v, float* p, int64_t count) {
  const F32 d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, p);
#else
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, d, lanes);
  std::memcpy(p, lanes, static_cast<size_t>(count) * sizeof(float));
#endif
}

// Sixteen lanes. The loops over their parts are unrolled by hand: at -O2 the compiler would leave them in memory.
struct Row16 {
  F32Vector part[kParts];
};

HWY_INLINE Row16 Set16(float value) {
  Row16 r;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) r.part[i] = hn::Set(F32(), value);
  return r;
}

HWY_INLINE Row16 Load16(const float* p) {
  Row16 r;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) r.part[i] = hn::LoadU(F32(), p + i * kLanes);
  return r;
}

HWY_INLINE int64_t LanesOfPart(int64_t count, int part) {
  const int64_t left = count - static_cast<int64_t>(part) * kLanes;
  return left < 0 ? 0 : (left > kLanes ? kLanes : left);
}

// The first `count` (0 .. 16), the rest `fill`.
HWY_INLINE Row16 LoadFirst16(const float* p, int64_t count, float fill = 0.0f) {
  const F32 d;
  Row16 r;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) {
    const int64_t lanes = LanesOfPart(count, i);
    const F32Vector v = lanes == 0 ? hn::Zero(d) : LoadFirst(p + i * kLanes, lanes);
    r.part[i] = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(lanes)), v, hn::Set(d, fill));
  }
  return r;
}

HWY_INLINE void Store16(const Row16& r, float* p) {
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) hn::StoreU(r.part[i], F32(), p + i * kLanes);
}

HWY_INLINE void StoreFirst16(const Row16& r, float* p, int64_t count) {
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) {
    const int64_t lanes = LanesOfPart(count, i);
    if (lanes > 0) StoreFirst(r.part[i], p + i * kLanes, lanes);
  }
}

// f(vector, ...) on each machine vector.
template <class F, class... Rows>
HWY_INLINE Row16 Map16(F&& f, const Rows&... rows) {
  Row16 r;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) r.part[i] = f(rows.part[i]...);
  return r;
}

// Folds lanes i and i + 8, then i + 4, i + 2, i + 1.
template <class F>
HWY_INLINE float Fold16(const Row16& r, F&& f) {
  HWY_ALIGN float lanes[16];
  Store16(r, lanes);
  float t[4];
  for (int i = 0; i < 4; ++i) t[i] = f(f(lanes[i], lanes[i + 8]), f(lanes[i + 4], lanes[i + 12]));
  return f(f(t[0], t[2]), f(t[1], t[3]));
}

HWY_INLINE float Sum16(const Row16& r) {
  return Fold16(r, [](float a, float b) { return a + b; });
}

// The larger; deterministic, if arbitrary, when one is NaN: whoever needs NaN to show gets it from the sum that
// follows.
HWY_INLINE float Max16(const Row16& r) {
  return Fold16(r, [](float a, float b) { return a < b ? b : a; });
}

HWY_INLINE F32Vector Larger(F32Vector a, F32Vector b) { return hn::IfThenElse(hn::Lt(a, b), b, a); }

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
