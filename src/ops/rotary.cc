// Rotary position embeddings.
#include <cmath>

#include "base/threads.h"
#include "heed/error.h"
#include "heed/ops.h"

namespace heed::ops {
namespace {

Tensor rotate(std::string_view function, const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved,
              float direction) {
  require(x.defined() && x.rank() == 4 && x.dtype() == DType::f32, function, "x (B, H, L, D) in f32; found ", x.shape(),
          " in ", x.dtype());
  const int64_t batch = x.size(0), heads = x.size(1), rows = x.size(2), size = x.size(3);
  require(cos.defined() && sin.defined() && cos.shape() == sin.shape() && cos.dtype() == DType::f32 &&
              sin.dtype() == DType::f32 && (cos.rank() == 2 || (cos.rank() == 3 && cos.size(0) == batch)) &&
              cos.size(-2) == rows && 2 * cos.size(-1) <= size,
          function, "cos and sin (L, R / 2) or (B, L, R / 2) in f32, L = ", rows, ", R at most ", size, "; found ",
          cos.shape(), " and ", sin.shape());
  const Tensor c = cos.contiguous(), s = sin.contiguous(), result = Tensor::empty(x.shape());
  const int64_t pairs = c.size(-1), apart = interleaved ? 1 : pairs, step = interleaved ? 2 : 1;
  parallel_for(batch * heads * rows, 1 + 16384 / (size + 1), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t i = n % rows, h = n / rows % heads, b = n / rows / heads;
      const float* const from = x.data<float>() + b * x.stride(0) + h * x.stride(1) + i * x.stride(2);
      const int64_t table = ((c.rank() == 3 ? b * rows : 0) + i) * pairs;
      float* const to = result.data<float>() + n * size;
      for (int64_t p = 0; p < pairs; ++p) {
        const float cosine = c.data<float>()[table + p], sine = direction * s.data<float>()[table + p];
        const float first = from[p * step * x.stride(3)], second = from[(p * step + apart) * x.stride(3)];
        to[p * step] = first * cosine - second * sine;
        to[p * step + apart] = second * cosine + first * sine;
      }
      for (int64_t d = 2 * pairs; d < size; ++d) to[d] = from[d * x.stride(3)];
    }
  });
  return result;
}

}  // namespace

Tensor rotary_embedding(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  return rotate("rotary_embedding", x, cos, sin, interleaved, 1.0f);
}

Tensor rotary_embedding_backward(const Tensor& d_output, const Tensor& cos, const Tensor& sin, bool interleaved) {
  return rotate("rotary_embedding_backward", d_output, cos, sin, interleaved, -1.0f);
}

RotaryTables rotary_tables(int64_t count, int64_t size, int64_t first_position, double base) {
  require(count >= 0 && size >= 0 && size % 2 == 0 && base > 0, "rotary_tables",
          "a count of 0 or more, an even size and a base above 0; found ", count, ", ", size, " and ", base);
  const RotaryTables tables{Tensor::empty({count, size / 2}), Tensor::empty({count, size / 2})};
  for (int64_t n = 0; n < size / 2; ++n) {
    const double power = std::pow(base, 2.0 * static_cast<double>(n) / static_cast<double>(size));
    const float frequency = 1.0f / static_cast<float>(power);
    for (int64_t i = 0; i < count; ++i) {
      const float angle = static_cast<float>(first_position + i) * frequency;
      tables.cos.data<float>()[i * (size / 2) + n] = static_cast<float>(std::cos(static_cast<double>(angle)));
      tables.sin.data<float>()[i * (size / 2) + n] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
  return tables;
}

}  // namespace heed::ops
