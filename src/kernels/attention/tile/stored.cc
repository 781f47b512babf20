// Whole rows between f32 and the forms in which a cache keeps them, and the canonical form of what leaves a kernel.
#include "kernels/attention/group.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/tile/stored.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/tile/stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void run_rows_to_f32(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to, int64_t to_row) {
  convert(rows, columns, from, count, to, to_row);
}

using Halves = hn::Rebind<uint16_t, F>;

// As f32_to_bf16.
HWY_INLINE hn::Vec<Halves> to_bf16(FV x) {
  const auto bits = hn::BitCast(kU, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kU, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(kU, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(kU, 0x400000));
  const auto nan = hn::RebindMask(kU, hn::IsNaN(x));
  return hn::TruncateTo(Halves(), hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded)));
}

HWY_INLINE hn::Vec<Halves> to_f16(FV x) {
#if HWY_TARGET <= HWY_AVX2
  return hn::BitCast(Halves(), hn::DemoteTo(hn::Rebind<hwy::float16_t, F>(), x));
#else
  HWY_ALIGN float lanes[kLanes];
  HWY_ALIGN uint16_t halves[kLanes];
  hn::Store(x, kF, lanes);
  for (int64_t n = 0; n < kLanes; ++n) halves[n] = f32_to_f16(lanes[n]);
  return hn::Load(Halves(), halves);
#endif
}

template <bool kBf16>
void half_rows(const float* from, int64_t from_row, int64_t rows, int64_t columns, uint16_t* to, int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r, from += from_row, to += to_row) {
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      const FV x = hn::LoadU(kF, from + c);
      hn::StoreU(kBf16 ? to_bf16(x) : to_f16(x), Halves(), to + c);
    }
    for (; c < columns; ++c) to[c] = kBf16 ? f32_to_bf16(from[c]) : f32_to_f16(from[c]);
  }
}

void run_rows_to_half(const float* from, int64_t from_row, int64_t rows, int64_t columns, bool bf16, uint16_t* to,
                      int64_t to_row) {
  if (bf16) {
    half_rows<true>(from, from_row, rows, columns, to, to_row);
  } else {
    half_rows<false>(from, from_row, rows, columns, to, to_row);
  }
}

void run_copy_canonical(const float* source, int64_t source_stride, float* destination, int64_t destination_stride,
                        int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, source += source_stride, destination += destination_stride) {
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) hn::StoreU(canonical(hn::LoadU(kF, source + c)), kF, destination + c);
    for (; c < columns; ++c) {
      destination[c] = source[c] == source[c] ? source[c] + 0.0f : std::numeric_limits<float>::quiet_NaN();
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>
#include <cstring>
#include <limits>

namespace heed::kernels {

HWY_EXPORT(run_rows_to_f32);
HWY_EXPORT(run_rows_to_half);
HWY_EXPORT(run_copy_canonical);

void rows_to_f32(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to, int64_t to_row) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_rows_to_f32)(rows, columns, from, count, to, to_row);
}

void rows_to_half(const float* from, int64_t from_row, int64_t rows, int64_t columns, Element element, void* to,
                  int64_t to_row) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_rows_to_half)
  (from, from_row, rows, columns, element == Element::bf16, static_cast<uint16_t*>(to), to_row);
}

namespace {

// Multiples of the largest magnitude / 127. A row with a NaN or an infinity becomes NaN as a whole: its scale is NaN.
void store_i8(const float* from, int64_t count, int8_t* to, float* scale) {
  float largest = 0;
  bool finite = true;
  for (int64_t n = 0; n < count; ++n) {
    finite = finite && std::isfinite(from[n]);
    largest = std::max(largest, std::abs(from[n]));
  }
  *scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
  for (int64_t n = 0; n < count; ++n) {
    const float multiple = finite && *scale > 0 ? std::nearbyint(from[n] / *scale) : 0.0f;
    to[n] = static_cast<int8_t>(std::clamp(multiple, -127.0f, 127.0f));
  }
}

}  // namespace

void store_cache_row(const float* from, int64_t count, Element element, void* to, float* scale) {
  switch (element) {
    case Element::f32: std::copy_n(from, count, static_cast<float*>(to)); return;
    case Element::bf16:
    case Element::f16: rows_to_half(from, 0, 1, count, element, to, 0); return;
    case Element::i8: store_i8(from, count, static_cast<int8_t*>(to), scale); return;
  }
}

void copy_canonical_rows(const float* source, int64_t source_stride, float* destination, int64_t destination_stride,
                         int64_t rows, int64_t columns) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_copy_canonical)(source, source_stride, destination, destination_stride, rows, columns);
}

}  // namespace heed::kernels
#endif
