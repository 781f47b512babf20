// Sinusoidal positions: Vaswani et al. 2017, section 3.5.
#include <cmath>

#include "heed/error.h"
#include "heed/nn.h"

namespace heed::nn {

Tensor sinusoidal_positions(int64_t length, int64_t width, PositionLayout layout, int64_t first) {
  require(width > 0 && width % 2 == 0, "sinusoidal_positions", "an even width; found ", width);
  require(length >= 0, "sinusoidal_positions", "a length of at least 0; found ", length);
  const int64_t half = width / 2;
  // The wavelengths run from 2 pi to 10000 * 2 pi: the paper stops one step before the end, the halves layout at it.
  const auto steps = static_cast<double>(layout == PositionLayout::halves ? std::max<int64_t>(half - 1, 1) : half);
  Tensor table = Tensor::empty({length, width});
  float* row = table.data<float>();
  for (int64_t position = 0; position < length; ++position, row += width) {
    for (int64_t i = 0; i < half; ++i) {
      const double frequency = std::exp(-std::log(10000.0) * static_cast<double>(i) / steps);
      const double angle = static_cast<double>(first + position) * frequency;
      const bool interleaved = layout == PositionLayout::interleaved;
      row[interleaved ? 2 * i : i] = static_cast<float>(std::sin(angle));
      row[interleaved ? 2 * i + 1 : half + i] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

}  // namespace heed::nn
