// Strided copies: axes are sorted and merged, then rows are copied whole, or squares of 16 x 16 where the two sides are
// contiguous along different axes.
#include "kernels/rows/copy.h"

#include <algorithm>
#include <utility>

#include "base/memory.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/copy.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::StridedCopy;

constexpr int64_t kChunk = 8192;  // elements of a row that one thread takes
constexpr int64_t kSquare = 16;

HWY_INLINE void add_row(float* out, FV factor, const float* x, int64_t count) {
  const F d;
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    hn::StoreU(fma(factor, hn::LoadU(d, x + j), hn::LoadU(d, out + j)), d, out + j);
  }
  if (j < count)
    store_first(fma(factor, load_first(x + j, count - j), load_first(out + j, count - j)), out + j, count - j);
}

// One row of the innermost axis, or `count` elements of it.
HWY_INLINE void one_row(const StridedCopy& s, float* out, int64_t out_stride, const float* x, int64_t x_stride,
                        int64_t count) {
  if (out_stride == 1 && x_stride == 1) {
    if (s.accumulate) {
      add_row(out, hn::Set(F(), s.factor), x, count);
    } else {
      std::memcpy(out, x, static_cast<size_t>(count) * sizeof(float));
    }
  } else if (s.accumulate) {
    const hn::CappedTag<float, 1> d1;
    for (int64_t j = 0; j < count; ++j) {
      const auto product = fma(hn::Set(d1, s.factor), hn::Set(d1, x[j * x_stride]), hn::Set(d1, out[j * out_stride]));
      out[j * out_stride] = hn::GetLane(product);
    }
  } else {
    for (int64_t j = 0; j < count; ++j) out[j * out_stride] = x[j * x_stride];
  }
}

// Axes of extent 1 dropped, sorted by the stride of `out`, merged where both sides allow it.
StridedCopy simplified(const StridedCopy& s) {
  std::array<int, 8> order{};
  int rank = 0;
  for (int axis = 0; axis < s.rank; ++axis) {
    if (s.extents[static_cast<size_t>(axis)] != 1) order[static_cast<size_t>(rank++)] = axis;
  }
  std::stable_sort(order.begin(), order.begin() + rank, [&](int a, int b) {
    return std::abs(s.out_strides[static_cast<size_t>(a)]) > std::abs(s.out_strides[static_cast<size_t>(b)]);
  });
  StridedCopy r = s;
  r.rank = 0;
  for (int i = 0; i < rank; ++i) {
    const auto axis = static_cast<size_t>(order[static_cast<size_t>(i)]);
    const auto last = static_cast<size_t>(r.rank) - 1;
    if (r.rank > 0 && r.out_strides[last] == s.out_strides[axis] * s.extents[axis] &&
        r.x_strides[last] == s.x_strides[axis] * s.extents[axis]) {
      r.extents[last] *= s.extents[axis];
      r.out_strides[last] = s.out_strides[axis];
      r.x_strides[last] = s.x_strides[axis];
      continue;
    }
    const auto next = static_cast<size_t>(r.rank++);
    r.extents[next] = s.extents[axis];
    r.out_strides[next] = s.out_strides[axis];
    r.x_strides[next] = s.x_strides[axis];
  }
  if (r.rank == 0) {
    r.rank = 1;
    r.extents[0] = r.out_strides[0] = r.x_strides[0] = 1;
  }
  return r;
}

// Where the element with this number (row-major over the first `axes`) lies on both sides.
HWY_INLINE std::pair<int64_t, int64_t> Offsets(const StridedCopy& s, int axes, int64_t number) {
  int64_t out = 0, x = 0;
  for (int axis = axes - 1; axis >= 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    const int64_t index = number % s.extents[a];
    number /= s.extents[a];
    out += index * s.out_strides[a];
    x += index * s.x_strides[a];
  }
  return {out, x};
}

void run_strided_copy(const StridedCopy& given) {
  StridedCopy s = simplified(given);
  const auto inner = static_cast<size_t>(s.rank - 1);
  // An axis along which x is contiguous while out is along another: worked on in squares, so that each cache line of
  // either side is used whole.
  int other = -1;
  if (s.x_strides[inner] != 1) {
    for (int axis = 0; axis < s.rank - 1; ++axis) {
      if (s.x_strides[static_cast<size_t>(axis)] == 1) other = axis;
    }
  }
  if (other >= 0) {
    const auto next = static_cast<size_t>(s.rank - 2);
    std::swap(s.extents[static_cast<size_t>(other)], s.extents[next]);
    std::swap(s.out_strides[static_cast<size_t>(other)], s.out_strides[next]);
    std::swap(s.x_strides[static_cast<size_t>(other)], s.x_strides[next]);
  }
  const int outer_axes = other >= 0 ? s.rank - 2 : s.rank - 1;
  int64_t outer = 1;
  for (int axis = 0; axis < outer_axes; ++axis) outer *= s.extents[static_cast<size_t>(axis)];
  const int64_t count = s.extents[inner];

  if (other < 0) {
    const int64_t chunks = (count + kChunk - 1) / kChunk;
    const int64_t grain = std::max<int64_t>(1, kChunk / std::min(count, kChunk));
    parallel_for(outer * chunks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const auto [out, x] = Offsets(s, outer_axes, item / chunks);
        const int64_t j = item % chunks * kChunk;
        one_row(s, s.out + out + j * s.out_strides[inner], s.out_strides[inner], s.x + x + j * s.x_strides[inner],
                s.x_strides[inner], std::min(kChunk, count - j));
      }
    });
    return;
  }
  const auto second = static_cast<size_t>(s.rank - 2);
  const int64_t rows = s.extents[second];
  const int64_t bands = (rows + kSquare - 1) / kSquare;
  const int64_t grain = std::max<int64_t>(1, kChunk / (kSquare * count));
  parallel_for(outer * bands, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const auto [out, x] = Offsets(s, outer_axes, item / bands);
      const int64_t i_begin = item % bands * kSquare, i_end = std::min(rows, i_begin + kSquare);
      for (int64_t j = 0; j < count; j += kSquare) {
        const int64_t some = std::min(kSquare, count - j);
        for (int64_t i = i_begin; i < i_end; ++i) {
          one_row(s, s.out + out + i * s.out_strides[second] + j * s.out_strides[inner], s.out_strides[inner],
                  s.x + x + i * s.x_strides[second] + j * s.x_strides[inner], s.x_strides[inner], some);
        }
      }
    }
  });
}

void run_gather_rows(const float* table, const int32_t* ids, int64_t count, int64_t columns, float scale,
                     int64_t padding, float* out) {
  const F d;
  const auto f = hn::Set(d, scale);
  parallel_for(count, std::max<int64_t>(1, kChunk / std::max<int64_t>(1, columns)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const to = out + i * columns;
      if (ids[i] == padding) {
        std::fill(to, to + columns, 0.0f);
        continue;
      }
      const float* const from = table + static_cast<int64_t>(ids[i]) * columns;
      int64_t j = 0;
      for (; j + kLanes <= columns; j += kLanes) hn::StoreU(hn::Mul(f, hn::LoadU(d, from + j)), d, to + j);
      if (j < columns) store_first(hn::Mul(f, load_first(from + j, columns - j)), to + j, columns - j);
    }
  });
}

void run_scatter_add_rows(float* table, int64_t table_rows, const int32_t* ids, int64_t count, int64_t columns,
                          float scale, int64_t padding, const float* rows) {
  // Positions sorted by id, those of one id in order; then each id's rows are added by one thread.
  const Buffer<int64_t> first(table_rows + 1), sorted(std::max<int64_t>(1, count)), used(std::max<int64_t>(1, count));
  std::fill(first.data(), first.data() + table_rows + 1, 0);
  for (int64_t i = 0; i < count; ++i) ++first[ids[i] + 1];
  int64_t distinct = 0;
  for (int64_t id = 0; id < table_rows; ++id) {
    if (first[id + 1] > 0 && id != padding) used[distinct++] = id;
    first[id + 1] += first[id];
  }
  const Buffer<int64_t> place(table_rows + 1);
  std::copy(first.data(), first.data() + table_rows + 1, place.data());
  for (int64_t i = 0; i < count; ++i) sorted[place[ids[i]]++] = i;
  const auto factor = hn::Set(F(), scale);
  const int64_t grain = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, columns));
  parallel_for(distinct, grain, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t id = used[u];
      for (int64_t k = first[id]; k < first[id + 1]; ++k) {
        add_row(table + id * columns, factor, rows + sorted[k] * columns, columns);
      }
    }
  });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_strided_copy);
HWY_EXPORT(run_gather_rows);
HWY_EXPORT(run_scatter_add_rows);

void strided_copy(const StridedCopy& s) {
  for (int axis = 0; axis < s.rank; ++axis) {
    if (s.extents[static_cast<size_t>(axis)] == 0) return;
  }
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_strided_copy)(s);
}
void gather_rows(const float* table, const int32_t* ids, int64_t count, int64_t columns, float scale, int64_t padding,
                 float* out) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_gather_rows)(table, ids, count, columns, scale, padding, out);
}
void scatter_add_rows(float* table, int64_t table_rows, const int32_t* ids, int64_t count, int64_t columns, float scale,
                      int64_t padding, const float* rows) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_scatter_add_rows)(table, table_rows, ids, count, columns, scale, padding, rows);
}

}  // namespace heed::kernels
#endif
