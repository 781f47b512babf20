// Rows of keys and values that are kept narrow or in pages, as f32.
#if defined(HEED_KERNELS_ATTENTION_STORED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_STORED_INL_H_
#undef HEED_KERNELS_ATTENTION_STORED_INL_H_
#else
#define HEED_KERNELS_ATTENTION_STORED_INL_H_
#endif

#include <algorithm>

#include "base/half.h"
#include "kernels/attention_scores-inl.h"

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

inline int64_t bytes_of(Element element) { return element == Element::f32 ? 4 : element == Element::i8 ? 1 : 2; }

// Rows from `first` on, one after the other.
class RowWalk {
 public:
  RowWalk(const StoredRows& rows, int64_t first)
      : rows_(rows),
        bytes_(bytes_of(rows.element)),
        page_(rows.pages == nullptr ? 0 : first / rows.page_rows),
        row_(first - page_ * rows.page_rows) {}

  [[nodiscard]] const char* row() const {
    return static_cast<const char*>(rows_.data) + (page() * rows_.page + row_ * rows_.row) * bytes_;
  }
  [[nodiscard]] float scale() const {
    return rows_.scales == nullptr ? 1.0f : rows_.scales[page() * rows_.scale_page + row_ * rows_.scale_row];
  }
  void advance() {
    if (++row_ == rows_.page_rows && rows_.pages != nullptr) row_ = 0, ++page_;
  }

 private:
  [[nodiscard]] int64_t page() const { return rows_.pages == nullptr ? 0 : rows_.pages[page_ * rows_.pages_step]; }
  const StoredRows& rows_;
  int64_t bytes_, page_, row_;
};

template <Element kElement>
HWY_NOINLINE void unpack_as(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to,
                            int64_t to_row) {
  RowWalk walk(rows, from);
  for (int64_t j = 0; j < count; ++j, to += to_row) {
    const char* const row = walk.row();
    const float row_scale = walk.scale();
    const FV scale = all(row_scale);
    int64_t c = 0;
    if (rows.column == 1) {
      for (; c + kLanes <= columns; c += kLanes) hn::StoreU(widen<kElement>(row, c, scale), kF, to + c);
    }
    for (; c < columns; ++c) to[c] = widen_one<kElement>(row, c * rows.column, row_scale);
    if (j + 1 < count) walk.advance();
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

// Keys or values of a group, whatever the form, as stored rows.
inline StoredRows stored(const StoredRows& rows, const kernels::Strided<const float>& plain) {
  if (rows.data != nullptr) return rows;
  StoredRows same;
  same.data = plain.data;
  same.row = plain.row, same.column = plain.column;
  return same;
}

// Where the rows of a block are, and those that should come into the cache meanwhile: kRowsAhead further on, and behind
// the last ones the first of the next group.
constexpr int64_t kRowsAhead = 64;
struct BlockRows {
  Element element;
  const float* row[kBlockKeys + kRowsAhead];  // of whatever type; beyond the last of the block: that one again
  const float* const* next = row + kRowsAhead;
  const float* unpacked[kBlockKeys];
  float scale[kBlockKeys];
  int64_t line;  // columns of a cache line of `next`

  // Read where they are if `direct` and their columns are side by side, otherwise unpacked to `spare`. `all_rows`: how
  // many there are.
  BlockRows(const StoredRows& rows, const StoredRows& of_next, int64_t columns, const Block& block, int64_t all_rows,
            bool direct, float* spare, int64_t spare_row)
      : element(rows.element), line(64 / bytes_of(rows.element)) {
    const int64_t known = std::min(block.count + kRowsAhead, all_rows - block.from);
    find(rows, block.from, known, row);
    std::fill(row + known, row + kBlockKeys + kRowsAhead, row[known - 1]);
    const int64_t own = std::max(known, kBlockKeys);
    if (of_next.data != nullptr) find(of_next, 0, std::min(kBlockKeys + kRowsAhead - own, all_rows), row + own);
    const bool here = direct && rows.column == 1;
    if (!here) {
      unpack(rows, columns, block.from, block.count, spare, spare_row);
      element = Element::f32;
      for (int64_t j = 0; j < kBlockKeys; ++j) unpacked[j] = spare + std::min(j, block.count - 1) * spare_row;
    } else if (element == Element::i8) {
      RowWalk scales(rows, block.from);
      for (int64_t j = 0; j < kBlockKeys; ++j) {
        scale[j] = scales.scale();
        if (j + 1 < block.count) scales.advance();
      }
    }
    at_ = here ? row : unpacked;
  }
  BlockRows(const BlockRows&) = delete;
  BlockRows& operator=(const BlockRows&) = delete;

  // Row j, or further rows than the block's own where the count is not a multiple of the vector: any of them.
  [[nodiscard]] const float* const* at(int64_t j) const { return at_ + j; }

 private:
  static void find(const StoredRows& rows, int64_t first, int64_t count, const float** to) {
    RowWalk walk(rows, first);
    if (rows.pages == nullptr) {
      const char* at = walk.row();
      const int64_t step = rows.row * bytes_of(rows.element);
      for (int64_t j = 0; j < count; ++j, at += step) to[j] = reinterpret_cast<const float*>(at);
    } else {
      for (int64_t j = 0; j < count; ++j, walk.advance()) to[j] = reinterpret_cast<const float*>(walk.row());
    }
  }

  const float* const* at_;
};

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
