// Learning rates by the number of the update.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "heed/train.h"

namespace heed::train {

double Schedule::at(int64_t update) const {
  const double t = static_cast<double>(std::max<int64_t>(update, 1));
  const double w = static_cast<double>(warmup);
  if (kind == ScheduleKind::noam) {  // Vaswani et al. 2017, section 5.3, equation 3
    const double growth = warmup > 0 ? t * std::pow(w, -1.5) : 1.0;
    return peak * std::pow(static_cast<double>(std::max<int64_t>(width, 1)), -0.5) *
           std::min(std::pow(t, -0.5), growth);
  }
  if (t < w) return warmup_start + (peak - warmup_start) * t / w;
  switch (kind) {
    case ScheduleKind::constant:
    case ScheduleKind::noam: return peak;
    case ScheduleKind::inverse_sqrt: return warmup > 0 ? peak * std::sqrt(w / t) : peak / std::sqrt(t);
    case ScheduleKind::cosine: {  // Loshchilov and Hutter 2017, one period
      const double length = static_cast<double>(total) - w;
      const double done = length > 0 ? std::clamp((t - w) / length, 0.0, 1.0) : 1.0;
      return floor + 0.5 * (peak - floor) * (1.0 + std::cos(std::numbers::pi * done));
    }
  }
  return peak;
}

}  // namespace heed::train
