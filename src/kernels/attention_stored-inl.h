// Rows of keys and values that are kept narrow or in pages, as f32.
#if defined(HEED_KERNELS_ATTENTION_STORED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_STORED_INL_H_
#undef HEED_KERNELS_ATTENTION_STORED_INL_H_
#else
#define HEED_KERNELS_ATTENTION_STORED_INL_H_
#endif

#include <algorithm>

#include "base/half.h"
#include "kernels/attention.h"
#include "kernels/attention_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::Element;
using kernels::StoredRows;

// kLanes numbers from `from` on. Exact, but for the product with the scale, which is rounded once.
template <Element kElement>
HWY_INLINE FV widen(const void* from, int64_t at, FV scale) {
  if constexpr (kElement == Element::bf16) {
    const hn::Rebind<uint16_t, F> narrow;
    const auto bits = hn::LoadU(narrow, static_cast<const uint16_t*>(from) + at);
    return hn::BitCast(kF, hn::ShiftLeft<16>(hn::PromoteTo(kU, bits)));
  } else if constexpr (kElement == Element::f16) {
#if HWY_TARGET <= HWY_AVX2
    const hn::Rebind<hwy::float16_t, F> narrow;
    return hn::PromoteTo(kF, hn::LoadU(narrow, static_cast<const hwy::float16_t*>(from) + at));
#else
    HWY_ALIGN float lanes[kLanes];
    for (int64_t n = 0; n < kLanes; ++n) lanes[n] = f16_to_f32(static_cast<const uint16_t*>(from)[at + n]);
    return hn::Load(kF, lanes);
#endif
  } else if constexpr (kElement == Element::i8) {
    const hn::Rebind<int8_t, F> narrow;
    const auto integers = hn::PromoteTo(kI, hn::LoadU(narrow, static_cast<const int8_t*>(from) + at));
    return hn::Mul(hn::ConvertTo(kF, integers), scale);
  } else {
    return hn::LoadU(kF, static_cast<const float*>(from) + at);
  }
}

template <Element kElement>
HWY_INLINE float widen_one(const void* from, int64_t at, float scale) {
  if constexpr (kElement == Element::bf16) return bf16_to_f32(static_cast<const uint16_t*>(from)[at]);
  if constexpr (kElement == Element::f16) return f16_to_f32(static_cast<const uint16_t*>(from)[at]);
  if constexpr (kElement == Element::i8) return static_cast<float>(static_cast<const int8_t*>(from)[at]) * scale;
  return static_cast<const float*>(from)[at];
}

struct StoredRow {
  int64_t begin;  // in elements
  float scale;
};
inline StoredRow stored_row(const StoredRows& rows, int64_t j) {
  int64_t page = 0;
  if (rows.pages != nullptr) {
    page = rows.pages[j / rows.page_rows * rows.pages_step];
    j %= rows.page_rows;
  }
  const float scale = rows.scales == nullptr ? 1.0f : rows.scales[page * rows.scale_page + j * rows.scale_row];
  return {page * rows.page + j * rows.row, scale};
}

template <Element kElement>
HWY_NOINLINE void unpack_as(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to,
                            int64_t to_row) {
  for (int64_t j = 0; j < count; ++j, to += to_row) {
    const StoredRow row = stored_row(rows, from + j);
    const FV scale = all(row.scale);
    int64_t c = 0;
    if (rows.column == 1) {
      for (; c + kLanes <= columns; c += kLanes) hn::StoreU(widen<kElement>(rows.data, row.begin + c, scale), kF, to + c);
    }
    for (; c < columns; ++c) to[c] = widen_one<kElement>(rows.data, row.begin + c * rows.column, row.scale);
    std::fill(to + c, to + to_row, 0.0f);
  }
}

inline void unpack(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to, int64_t to_row) {
  switch (rows.element) {
    case Element::f32: return unpack_as<Element::f32>(rows, columns, from, count, to, to_row);
    case Element::bf16: return unpack_as<Element::bf16>(rows, columns, from, count, to, to_row);
    case Element::f16: return unpack_as<Element::f16>(rows, columns, from, count, to, to_row);
    case Element::i8: return unpack_as<Element::i8>(rows, columns, from, count, to, to_row);
  }
}

// The rows of a block as f32: where they lie, or unpacked to `spare` with rows of `spare_row` floats.
inline kernels::Strided<const float> block_rows(const kernels::Strided<const float>& plain, const StoredRows& stored,
                                                int64_t columns, int64_t from, int64_t count, float* spare,
                                                int64_t spare_row) {
  if (stored.data == nullptr) return {plain.at(0, from), 0, plain.row, plain.column};
  const bool one_page = stored.pages == nullptr || from / stored.page_rows == (from + count - 1) / stored.page_rows;
  if (stored.element == Element::f32 && one_page) {
    const StoredRow first = stored_row(stored, from);
    return {static_cast<const float*>(stored.data) + first.begin, 0, stored.row, stored.column};
  }
  unpack(stored, columns, from, count, spare, spare_row);
  return {spare, 0, spare_row, 1};
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
