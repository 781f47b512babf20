// Radial kernels: |q - k|^2 = (q, |q|^2, 1) . (-2 k, 1, |k|^2), so the engine's own product gives the distances.
#include <cmath>

#include "base/threads.h"
#include "heed/attention_variants.h"
#include "heed/error.h"

namespace heed {

float score::checked_width(const char* kernel, float width) {
  require(std::isfinite(width) && width > 0, kernel, "a width above 0; found ", width);
  return width;
}

namespace {

// Rows (factor x, ...) with |x|^2 in column D + `square_at` and 1 in the other of the two.
Tensor augmented(const Tensor& x, float factor, int64_t square_at) {
  const int64_t heads = x.size(1), rows = x.size(2), size = x.size(3);
  const Tensor result = Tensor::empty({x.size(0), heads, rows, size + 2});
  parallel_for(x.size(0) * heads * rows, 1 + 16384 / (size + 1), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t b = n / rows / heads, h = n / rows % heads, i = n % rows;
      const float* const from = x.data<float>() + b * x.stride(0) + h * x.stride(1) + i * x.stride(2);
      float* const to = result.data<float>() + n * (size + 2);
      double square = 0;
      for (int64_t d = 0; d < size; ++d) {
        const float value = from[d * x.stride(3)];
        to[d] = factor * value;
        square += static_cast<double>(value) * static_cast<double>(value);
      }
      to[size + square_at] = static_cast<float>(square);
      to[size + 1 - square_at] = 1.0f;
    }
  });
  return result;
}

// d x = factor * (first D columns) + 2 x * (column D + square_at), in the layout of `gradient`.
Tensor without_squares(const Tensor& gradient, const Tensor& x, float factor, int64_t square_at) {
  const int64_t batch = x.size(0), heads = x.size(1), rows = x.size(2), size = x.size(3);
  const Tensor result = Tensor::empty({batch, rows, heads, size}).transpose(1, 2);
  parallel_for(batch * heads * rows, 1 + 16384 / (size + 1), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t b = n / rows / heads, h = n / rows % heads, i = n % rows;
      const auto row = [&](const Tensor& t) {
        return t.data<float>() + b * t.stride(0) + h * t.stride(1) + i * t.stride(2);
      };
      const float *const d = row(gradient), *const from = row(x);
      float* const to = row(result);
      const float by_square = 2.0f * d[(size + square_at) * gradient.stride(3)];
      for (int64_t c = 0; c < size; ++c) {
        to[c] = factor * d[c * gradient.stride(3)] + by_square * from[c * x.stride(3)];
      }
    }
  });
  return result;
}

AttentionOptions radial_options(std::string_view function, const Tensor& query, const Tensor& key,
                                const Score& log_alpha, const AttentionOptions& options) {
  require(query.defined() && key.defined() && query.rank() == 4 && key.rank() == 4, function,
          "query (B, H, L, D) and key (B, Hkv, S, D); found ", query.shape(), " and ", key.shape());
  require(query.dtype() == DType::f32 && key.dtype() == DType::f32, function, "query and key in f32; found ",
          query.dtype(), " and ", key.dtype());
  require(query.size(3) == key.size(3), function, "query and key of one head size; found ", query.shape(), " and ",
          key.shape());
  require(log_alpha.defined(), function, "a kernel; found none");
  require(!options.scale && !options.score.defined() && options.softcap == 0, function,
          "no scale, softcap or score function beside the kernel; found one");
  AttentionOptions with_kernel = options;
  with_kernel.scale = 1.0f;
  with_kernel.score = log_alpha;
  return with_kernel;
}

}  // namespace

AttentionResult attention_radial(const Tensor& query, const Tensor& key, const Tensor& value, const Score& log_alpha,
                                 const AttentionOptions& options) {
  const AttentionOptions with_kernel = radial_options("attention_radial", query, key, log_alpha, options);
  return attention(augmented(query, 1.0f, 0), augmented(key, -2.0f, 1), value, with_kernel);
}

AttentionGradients attention_radial_backward(const Tensor& d_output, const Tensor& query, const Tensor& key,
                                             const Tensor& value, const Score& log_alpha,
                                             const AttentionResult& forward, const AttentionOptions& options,
                                             const AttentionWantGradients& want) {
  const AttentionOptions with_kernel = radial_options("attention_radial_backward", query, key, log_alpha, options);
  AttentionGradients gradients = attention_backward(d_output, augmented(query, 1.0f, 0), augmented(key, -2.0f, 1),
                                                    value, forward, with_kernel, want);
  gradients.query = without_squares(gradients.query, query, 1.0f, 0);
  gradients.key = without_squares(gradients.key, key, -2.0f, 1);
  return gradients;
}

}  // namespace heed
