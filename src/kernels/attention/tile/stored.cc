// Stored rows for the drivers: unpacked as a whole, and packed.
#include "kernels/attention/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/tile/stored.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/tile/stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void UnpackRows(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to, int64_t to_row) {
  unpack(rows, columns, from, count, to, to_row);
}

using Narrow = hn::Rebind<uint16_t, F>;

// As f32_to_bf16.
HWY_INLINE hn::Vec<Narrow> to_bf16(FV x) {
  const auto bits = hn::BitCast(kU, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kU, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(kU, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(kU, 0x400000));
  const auto nan = hn::RebindMask(kU, hn::IsNaN(x));
  return hn::TruncateTo(Narrow(), hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded)));
}

HWY_INLINE hn::Vec<Narrow> to_f16(FV x) {
#if HWY_TARGET <= HWY_AVX2
  return hn::BitCast(Narrow(), hn::DemoteTo(hn::Rebind<hwy::float16_t, F>(), x));
#else
  HWY_ALIGN float lanes[kLanes];
  HWY_ALIGN uint16_t narrow[kLanes];
  hn::Store(x, kF, lanes);
  for (int64_t n = 0; n < kLanes; ++n) narrow[n] = f32_to_f16(lanes[n]);
  return hn::Load(Narrow(), narrow);
#endif
}

template <bool kBf16>
void narrow_rows(const float* from, int64_t from_row, int64_t rows, int64_t columns, uint16_t* to, int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r, from += from_row, to += to_row) {
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      const FV x = hn::LoadU(kF, from + c);
      hn::StoreU(kBf16 ? to_bf16(x) : to_f16(x), Narrow(), to + c);
    }
    for (; c < columns; ++c) to[c] = kBf16 ? f32_to_bf16(from[c]) : f32_to_f16(from[c]);
  }
}

void NarrowRows(const float* from, int64_t from_row, int64_t rows, int64_t columns, bool bf16, uint16_t* to,
                int64_t to_row) {
  if (bf16) {
    narrow_rows<true>(from, from_row, rows, columns, to, to_row);
  } else {
    narrow_rows<false>(from, from_row, rows, columns, to, to_row);
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

HWY_EXPORT(UnpackRows);
HWY_EXPORT(NarrowRows);

void attention_unpack_rows(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to,
                           int64_t to_row) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(UnpackRows)(rows, columns, from, count, to, to_row);
}

void attention_narrow_rows(const float* from, int64_t from_row, int64_t rows, int64_t columns, Element element,
                           void* to, int64_t to_row) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(NarrowRows)
  (from, from_row, rows, columns, element == Element::bf16, static_cast<uint16_t*>(to), to_row);
}

namespace {

// Multiples of the largest magnitude / 127. A row that is not finite becomes NaN as a whole: its scale is.
void pack_i8(const float* from, int64_t count, int8_t* to, float* scale) {
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

void attention_pack_row(const float* from, int64_t count, Element element, void* to, float* scale) {
  switch (element) {
    case Element::f32: std::copy_n(from, count, static_cast<float*>(to)); return;
    case Element::bf16:
    case Element::f16: attention_narrow_rows(from, 0, 1, count, element, to, 0); return;
    case Element::i8: pack_i8(from, count, static_cast<int8_t*>(to), scale); return;
  }
}

}  // namespace heed::kernels
#endif
