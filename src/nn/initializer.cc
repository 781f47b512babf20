// Initial weights. The n-th tensor asked for is a pure function of (seed, n, shape), whatever the thread count.
#include <cmath>
#include <numbers>
#include <utility>

#include "base/philox.h"
#include "base/threads.h"
#include "heed/nn.h"

namespace heed::nn {
namespace {

// Philox gives four words a call: four uniform numbers, or two pairs of normal ones.
constexpr int64_t kWords = 4;
constexpr int64_t kGrain = 4096;

thread_local bool skipped = false;

template <class FillFour>
Tensor fill(const Shape& shape, FillFour&& fill_four) {
  Tensor tensor = Tensor::empty(shape);
  if (skipped) return tensor;
  float* out = tensor.data<float>();
  const int64_t count = tensor.numel();
  parallel_for((count + kWords - 1) / kWords, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t call = begin; call < end; ++call) {
      float four[kWords];
      fill_four(call, four);
      const int64_t first = call * kWords;
      for (int64_t i = 0; i < kWords && first + i < count; ++i) out[first + i] = four[i];
    }
  });
  return tensor;
}

}  // namespace

Initializer::Skipped::Skipped() : before_(std::exchange(skipped, true)) {}
Initializer::Skipped::~Skipped() { skipped = before_; }
bool Initializer::Skipped::active() { return skipped; }

Tensor Initializer::normal(const Shape& shape, float deviation) {
  const uint64_t stream = count_++;
  return fill(shape, [&](int64_t call, float* four) {
    const auto words = philox(seed_, stream, static_cast<uint64_t>(call));
    for (size_t pair = 0; pair < 2; ++pair) {  // Box and Muller 1958
      const double u = (static_cast<double>(words[2 * pair]) + 0.5) * 0x1p-32;
      const double angle = 2 * std::numbers::pi * static_cast<double>(words[2 * pair + 1]) * 0x1p-32;
      const double radius = static_cast<double>(deviation) * std::sqrt(-2 * std::log(u));
      four[2 * pair] = static_cast<float>(radius * std::cos(angle));
      four[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
    }
  });
}

Tensor Initializer::uniform(const Shape& shape, float bound) {
  const uint64_t stream = count_++;
  return fill(shape, [&](int64_t call, float* four) {
    const auto words = philox(seed_, stream, static_cast<uint64_t>(call));
    for (size_t i = 0; i < kWords; ++i) four[i] = (2 * uniform_float(words[i]) - 1) * bound;
  });
}

Tensor Initializer::xavier_uniform(int64_t out_size, int64_t in_size) {
  return uniform({out_size, in_size}, std::sqrt(6.0f / static_cast<float>(out_size + in_size)));
}

}  // namespace heed::nn
