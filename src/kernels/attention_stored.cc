// Stored rows for the drivers: unpacked as a whole, and packed.
#include "kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_stored.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void UnpackRows(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to, int64_t to_row) {
  unpack(rows, columns, from, count, to, to_row);
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

void attention_unpack_rows(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to,
                           int64_t to_row) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(UnpackRows)(rows, columns, from, count, to, to_row);
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
    case Element::bf16: std::transform(from, from + count, static_cast<uint16_t*>(to), f32_to_bf16); return;
    case Element::f16: std::transform(from, from + count, static_cast<uint16_t*>(to), f32_to_f16); return;
    case Element::i8: pack_i8(from, count, static_cast<int8_t*>(to), scale); return;
  }
}

}  // namespace heed::kernels
#endif
