// The options of heed.attention(), and how its arrays lie, as the library takes them.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <string>

#include "heed/attention.h"
#include "python/arrays.h"

namespace heed::python {

inline bool is_half(const Tensor& x) { return x.defined() && (x.dtype() == DType::f16 || x.dtype() == DType::bf16); }

// Brings query, key, value and so on to one type: they stay as they are if all have the same half precision; otherwise
// half precision becomes f32. f64 stays for the reference.
template <size_t N>
void unify(std::array<Tensor, N>& tensors, bool halves) {
  const bool same = std::all_of(tensors.begin(), tensors.end(),
                                [&](const Tensor& x) { return is_half(x) && x.dtype() == tensors[0].dtype(); });
  if (same && halves) return;
  for (Tensor& x : tensors) {
    if (is_half(x)) x = x.to(DType::f32);
  }
}

// Batch, heads and lengths of arrays that may come as (B, H, L, D), (B, L, H, D), (H, L, D), (L, H, D) or (L, D).
struct Layout {
  bool heads_first = true;
  int rank = 4;

  [[nodiscard]] Tensor in(const Tensor& x) const;   // -> (B, H, L, D), a view
  [[nodiscard]] Tensor out(const Tensor& x) const;  // the way back
};

[[nodiscard]] bool are_heads_first(const std::string& layout);
[[nodiscard]] Layout layout_of(const pybind11::dict& options, const Tensor& query);

// `given` has every option of heed.attention() by its name; those that were not given are None. Raises TypeError and
// ValueError with the option's name.
[[nodiscard]] AttentionOptions options_of(const pybind11::dict& given, Arguments& arguments);

// Raises ValueError unless a relative_table among the options has as many rows as the query has heads.
void require_heads(const AttentionOptions& options, const Tensor& query);

}  // namespace heed::python
