#include "models/distance_bias.h"

#include <algorithm>
#include <cmath>

namespace heed::models {
namespace {

// The first half of the buckets are one distance each; the rest grow with its logarithm up to `farthest`. In f32, as
// the published models were trained.
int64_t bucket_of(int64_t distance, int64_t buckets, int64_t farthest) {
  const int64_t exact = buckets / 2;
  if (distance < exact) return distance;
  const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                      std::log(static_cast<float>(farthest) / static_cast<float>(exact));
  return std::min(buckets - 1, exact + static_cast<int64_t>(ratio * static_cast<float>(buckets - exact)));
}

}  // namespace

DistanceBias::DistanceBias(const Config& config, bool both_sides, nn::Initializer& init)
    : buckets_(Tensor::empty({1, 2 * config.relative_distance + 1}, DType::i32)) {
  const int64_t side = both_sides ? config.relative_buckets / 2 : config.relative_buckets;
  for (int64_t n = 0; n < buckets_.size(1); ++n) {
    const int64_t behind = n - config.relative_distance;  // i - j: above 0, the key stands before the query
    const int64_t bucket =
        bucket_of(both_sides ? std::abs(behind) : std::max<int64_t>(behind, 0), side, config.relative_distance);
    buckets_.data<int32_t>()[n] = static_cast<int32_t>(bucket + (both_sides && behind < 0 ? side : 0));
  }
  const float deviation = 1.0f / std::sqrt(static_cast<float>(config.width));
  table_ = add_parameter("table", init.normal({config.relative_buckets, config.heads}, deviation));
}

Value DistanceBias::operator()() const {
  const Value by_distance = embedding(buckets_, table_);  // (1, 2 R + 1, H)
  return transpose(reshape(by_distance, {by_distance.size(1), by_distance.size(2)}), 0, 1);
}

}  // namespace heed::models
