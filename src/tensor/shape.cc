// Extents on the stack.
#include <algorithm>
#include <limits>

#include "heed/error.h"
#include "heed/tensor.h"

namespace heed {

Shape::Shape(std::span<const int64_t> extents) {
  require(extents.size() <= kMaxRank, "shape", "at most ", kMaxRank, " axes; found ", extents.size());
  std::copy(extents.begin(), extents.end(), extents_.begin());
  rank_ = static_cast<int>(extents.size());
}

void Shape::push_back(int64_t extent) {
  require(rank_ < kMaxRank, "shape", "at most ", kMaxRank, " axes; found one more");
  extents_[static_cast<size_t>(rank_++)] = extent;
}

int64_t Shape::numel() const {
  int64_t product = 1;
  bool overflow = false, zero = false;
  for (const int64_t extent : *this) {
    zero = zero || extent == 0;
    overflow = overflow || __builtin_mul_overflow(product, extent, &product);
  }
  if (zero) return 0;
  require(!overflow, "shape", "fewer than 2^63 elements; found ", *this);
  return product;
}

bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + ")";
}

}  // namespace heed
