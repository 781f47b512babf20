// Checked products of extents.
#include "formats/extents.h"

#include <algorithm>

namespace heed::io {

int64_t checked_bytes(std::span<const int64_t> extents, int64_t element_size) {
  if (extents.size() > Shape::kMaxRank) return -1;
  int64_t bytes = element_size;
  bool empty = false;
  for (const int64_t extent : extents) {
    empty = empty || extent == 0;
    if (extent < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(1, extent), &bytes)) return -1;
  }
  return empty ? 0 : bytes;
}

bool booleans_are_valid(const Tensor& tensor) {
  if (tensor.dtype() != DType::boolean) return true;
  const auto* bytes = static_cast<const uint8_t*>(tensor.raw());
  return std::all_of(bytes, bytes + tensor.numel(), [](uint8_t byte) { return byte <= 1; });
}

}  // namespace heed::io
