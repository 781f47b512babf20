// Stored rows of keys and values (group.h) as f32.
#if defined(HEED_KERNELS_ATTENTION_TILE_STORED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_TILE_STORED_INL_H_
#undef HEED_KERNELS_ATTENTION_TILE_STORED_INL_H_
#else
#define HEED_KERNELS_ATTENTION_TILE_STORED_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "base/half.h"
#include "kernels/attention/group.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::Element;
using kernels::StoredRows;

// kLanes numbers from `from` on. Exact, but for the product with the scale, which is rounded once.
template <Element kElement>
HWY_INLINE FV to_f32(const void* from, int64_t at, FV scale) {
  if constexpr (kElement == Element::bf16) {
    const hn::Rebind<uint16_t, F> d16;
    const auto bits = hn::LoadU(d16, static_cast<const uint16_t*>(from) + at);
    return hn::BitCast(kF, hn::ShiftLeft<16>(hn::PromoteTo(kU, bits)));
  } else if constexpr (kElement == Element::f16) {
#if HWY_TARGET <= HWY_AVX2
    const hn::Rebind<hwy::float16_t, F> d16;
    return hn::PromoteTo(kF, hn::LoadU(d16, static_cast<const hwy::float16_t*>(from) + at));
#else
    HWY_ALIGN float lanes[kLanes];
    for (int64_t n = 0; n < kLanes; ++n) lanes[n] = f16_to_f32(static_cast<const uint16_t*>(from)[at + n]);
    return hn::Load(kF, lanes);
#endif
  } else if constexpr (kElement == Element::i8) {
    const hn::Rebind<int8_t, F> d8;
    const auto integers = hn::PromoteTo(kI, hn::LoadU(d8, static_cast<const int8_t*>(from) + at));
    return hn::Mul(hn::ConvertTo(kF, integers), scale);
  } else {
    return hn::LoadU(kF, static_cast<const float*>(from) + at);
  }
}

template <Element kElement>
HWY_INLINE float one_to_f32(const void* from, int64_t at, float scale) {
  if constexpr (kElement == Element::bf16) return bf16_to_f32(static_cast<const uint16_t*>(from)[at]);
  if constexpr (kElement == Element::f16) return f16_to_f32(static_cast<const uint16_t*>(from)[at]);
  if constexpr (kElement == Element::i8) return static_cast<float>(static_cast<const int8_t*>(from)[at]) * scale;
  return static_cast<const float*>(from)[at];
}

constexpr int64_t bytes_of(Element element) { return element == Element::f32 ? 4 : element == Element::i8 ? 1 : 2; }

// Reads rows in order from `first` on, from page to page.
class StoredRowReader {
 public:
  StoredRowReader(const StoredRows& rows, int64_t first)
      : rows_(&rows),
        bytes_(bytes_of(rows.element)),
        step_(rows.row * bytes_),
        page_(rows.pages == nullptr ? 0 : first / rows.page_rows) {
    enter_page(first - page_ * rows.page_rows);
  }

  [[nodiscard]] const char* row() const { return row_; }
  [[nodiscard]] float scale() const { return scale_ == nullptr ? 1.0f : *scale_; }
  [[nodiscard]] int64_t rows_in_page() const { return left_; }  // from this one on
  // The next `count` rows, fewer than are left in this page, and their scales where there are any and `scales` is not
  // null.
  void read(int64_t count, const float** rows, float* scales) {
    const char* const row = row_;
    const int64_t step = step_;
    for (int64_t j = 0; j < count; ++j) rows[j] = reinterpret_cast<const float*>(row + j * step);
    row_ += count * step;
    left_ -= count;
    if (scale_ == nullptr) return;
    for (int64_t j = 0; scales != nullptr && j < count; ++j) scales[j] = scale_[j * rows_->scale_row];
    scale_ += count * rows_->scale_row;
  }
  void advance() {
    row_ += step_;
    if (scale_ != nullptr) scale_ += rows_->scale_row;
    if (--left_ == 0) {
      ++page_;
      enter_page(0);
    }
  }

 private:
  void enter_page(int64_t at) {
    const bool paged = rows_->pages != nullptr;
    const int64_t page = paged ? rows_->pages[page_ * rows_->pages_step] : 0;
    row_ = static_cast<const char*>(rows_->data) + (page * rows_->page + at * rows_->row) * bytes_;
    if (rows_->scales != nullptr) scale_ = rows_->scales + page * rows_->scale_page + at * rows_->scale_row;
    left_ = paged ? rows_->page_rows - at : std::numeric_limits<int64_t>::max();
  }

  const StoredRows* rows_;
  int64_t bytes_, step_, page_;
  int64_t left_ = 0;  // rows of this page, this one included
  const char* row_ = nullptr;
  const float* scale_ = nullptr;
};

template <Element kElement>
HWY_NOINLINE void convert_as(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to,
                             int64_t to_row) {
  StoredRowReader walk(rows, from);
  for (int64_t j = 0; j < count; ++j, to += to_row) {
    const char* const row = walk.row();
    const float row_scale = walk.scale();
    const FV scale = all(row_scale);
    int64_t c = 0;
    if (rows.column == 1) {
      for (; c + kLanes <= columns; c += kLanes) hn::StoreU(to_f32<kElement>(row, c, scale), kF, to + c);
    }
    for (; c < columns; ++c) to[c] = one_to_f32<kElement>(row, c * rows.column, row_scale);
    if (j + 1 < count) walk.advance();
  }
}

inline void convert(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to, int64_t to_row) {
  switch (rows.element) {
    case Element::f32: return convert_as<Element::f32>(rows, columns, from, count, to, to_row);
    case Element::bf16: return convert_as<Element::bf16>(rows, columns, from, count, to, to_row);
    case Element::f16: return convert_as<Element::f16>(rows, columns, from, count, to, to_row);
    case Element::i8: return convert_as<Element::i8>(rows, columns, from, count, to, to_row);
  }
}

// Keys or values of a group, whatever the form, as stored rows.
inline StoredRows stored(const StoredRows& rows, const kernels::StridedRows<const float>& plain) {
  if (rows.data != nullptr) return rows;
  StoredRows same;
  same.data = plain.data;
  same.row = plain.row, same.column = plain.column;
  return same;
}

// Calls f<element>() for the element type at hand.
template <class Function>
HWY_INLINE void with_element(Element element, const Function& f) {
  switch (element) {
    case Element::f32: return f.template operator()<Element::f32>();
    case Element::bf16: return f.template operator()<Element::bf16>();
    case Element::f16: return f.template operator()<Element::f16>();
    case Element::i8: return f.template operator()<Element::i8>();
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
