// Layer normalisation, a row at a time while it is in L1; gradients of gain and bias by blocks of rows of a fixed
// number.
#include "kernels/rows/norm.h"

#include <algorithm>
#include <cmath>

#include "base/memory.h"
#include "base/threads.h"
#include "kernels/rows/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/rows/dropout-inl.h"
#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// f(j, load, store): load(p) is Row16 at p + j, the missing lanes zero.
template <class F>
HWY_INLINE void ForRow(int64_t columns, F&& f) {
  int64_t j = 0;
  for (; j + 16 <= columns; j += 16) {
    f(
        int64_t{16}, [&](const float* p) { return Load16(p + j); },
        [&](const Row16& v, float* p) { Store16(v, p + j); });
  }
  if (j < columns) {
    f(
        columns - j, [&](const float* p) { return LoadFirst16(p + j, columns - j); },
        [&](const Row16& v, float* p) { StoreFirst16(v, p + j, columns - j); });
  }
}

void RunNormForward(const kernels::NormForward& n) {
  const DropoutStream stream(n.dropout);
  const float inverse_count = 1.0f / static_cast<float>(n.columns);
  const auto add = [](F32Vector a, F32Vector b) { return hn::Add(a, b); };
  const bool drop = n.residual != nullptr && n.dropout.rate > 0.0f;
  parallel_for(n.rows, std::max<int64_t>(1, 8192 / n.columns), [&](int64_t begin, int64_t end) {
    const Buffer<float> factors(drop ? n.columns : 1);
    for (int64_t i = begin; i < end; ++i) {
      const float* input = n.x + i * n.columns;
      Row16 total = Set16(0.0f);
      if (n.residual != nullptr) {
        if (drop) DropoutFactors(stream, i * n.columns, n.columns, factors.data());
        const float* const residual = n.residual + i * n.columns;
        float* const sum = n.sum + i * n.columns;
        ForRow(n.columns, [&](int64_t, auto&& load, auto&& store) {
          Row16 x = load(input);
          if (drop) x = Map16([](F32Vector v, F32Vector f) { return Drop(v, f); }, x, load(factors.data()));
          x = Map16(add, load(residual), x);
          store(x, sum);
          total = Map16(add, total, x);
        });
        input = sum;
      } else if (n.centre) {
        ForRow(n.columns, [&](int64_t, auto&& load, auto&&) { total = Map16(add, total, load(input)); });
      }
      const float mean = n.centre ? Sum16(total) * inverse_count : 0.0f;
      const auto m = hn::Set(F32(), mean);
      Row16 squares = Set16(0.0f);
      ForRow(n.columns, [&](int64_t lanes, auto&& load, auto&&) {
        // Missing lanes must count as the mean, not as zero.
        Row16 x = load(input);
        x = Map16([&](F32Vector v) { return hn::Sub(v, m); }, x);
        if (lanes < 16) {
          for (int part = 0; part < kParts; ++part) {
            const auto valid = hn::FirstN(F32(), static_cast<size_t>(LanesOfPart(lanes, part)));
            x.part[part] = hn::IfThenElseZero(valid, x.part[part]);
          }
        }
        squares = Map16([](F32Vector v, F32Vector s) { return Fma(v, v, s); }, x, squares);
      });
      const float rstd = 1.0f / std::sqrt(Sum16(squares) * inverse_count + n.epsilon);
      if (n.mean != nullptr) n.mean[i] = mean;
      n.rstd[i] = rstd;
      const auto r = hn::Set(F32(), rstd);
      float* const output = n.output + i * n.columns;
      ForRow(n.columns, [&](int64_t, auto&& load, auto&& store) {
        const Row16 hat = Map16([&](F32Vector v) { return hn::Mul(hn::Sub(v, m), r); }, load(input));
        if (n.bias != nullptr) {
          store(Map16([](F32Vector v, F32Vector g, F32Vector b) { return Fma(v, g, b); }, hat, load(n.gain),
                      load(n.bias)),
                output);
        } else {
          store(Map16([](F32Vector v, F32Vector g) { return hn::Mul(v, g); }, hat, load(n.gain)), output);
        }
      });
    }
  });
}

void RunNormBackward(const kernels::NormBackward& n) {
  const DropoutStream stream(n.dropout);
  const float inverse_count = 1.0f / static_cast<float>(n.columns);
  const auto fma = [](F32Vector a, F32Vector b, F32Vector c) { return Fma(a, b, c); };
  const auto add = [](F32Vector a, F32Vector b) { return hn::Add(a, b); };
  const int64_t blocks = (n.rows + kernels::kBlockOfRows - 1) / kernels::kBlockOfRows;
  const bool drop = n.d_dropped != nullptr;
  const Buffer<float> d_gains(std::max<int64_t>(1, blocks * n.columns));
  const Buffer<float> d_biases(std::max<int64_t>(1, blocks * n.columns));
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    const Buffer<float> factors(drop ? n.columns : 1);
    for (int64_t block = begin; block < end; ++block) {
      float* const d_gain = d_gains.data() + block * n.columns;
      float* const d_bias = d_biases.data() + block * n.columns;
      std::fill(d_gain, d_gain + n.columns, 0.0f);
      std::fill(d_bias, d_bias + n.columns, 0.0f);
      const int64_t last = std::min(n.rows, (block + 1) * kernels::kBlockOfRows);
      for (int64_t i = block * kernels::kBlockOfRows; i < last; ++i) {
        const float* const dy = n.d_output + i * n.columns;
        const float* const x = n.input + i * n.columns;
        float* const dx = n.d_input + i * n.columns;
        const auto m = hn::Set(F32(), n.mean != nullptr ? n.mean[i] : 0.0f), r = hn::Set(F32(), n.rstd[i]);
        const auto normalised = [&](F32Vector v) { return hn::Mul(hn::Sub(v, m), r); };
        Row16 sum = Set16(0.0f), dot = Set16(0.0f);
        ForRow(n.columns, [&](int64_t, auto&& load, auto&& store) {
          const Row16 hat = Map16(normalised, load(x));
          const Row16 d = load(dy);  // zero in missing lanes, so that nothing comes from them
          const Row16 g = Map16([](F32Vector a, F32Vector b) { return hn::Mul(a, b); }, d, load(n.gain));
          sum = Map16(add, sum, g);
          dot = Map16(fma, g, hat, dot);
          store(Map16(fma, d, hat, load(d_gain)), d_gain);
          store(Map16(add, load(d_bias), d), d_bias);
        });
        const auto mean_g = hn::Set(F32(), n.mean != nullptr ? Sum16(sum) * inverse_count : 0.0f);
        const auto mean_dot = hn::Set(F32(), Sum16(dot) * inverse_count);
        if (drop) DropoutFactors(stream, i * n.columns, n.columns, factors.data());
        ForRow(n.columns, [&](int64_t, auto&& load, auto&& store) {
          const Row16 result = Map16(
              [&](F32Vector v, F32Vector d, F32Vector gain) {
                return hn::Mul(FmaNegated(normalised(v), mean_dot, hn::Sub(hn::Mul(d, gain), mean_g)), r);
              },
              load(x), load(dy), load(n.gain));
          store(result, dx);
          if (drop) {
            store(Map16([](F32Vector v, F32Vector f) { return Drop(v, f); }, result, load(factors.data())),
                  n.d_dropped + i * n.columns);
          }
        });
      }
    }
  });
  if (n.d_gain != nullptr) kernels::add_partials(d_gains.data(), blocks, n.columns, 1.0f, n.d_gain);
  if (n.d_bias != nullptr) kernels::add_partials(d_biases.data(), blocks, n.columns, 1.0f, n.d_bias);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(RunNormForward);
HWY_EXPORT(RunNormBackward);

void norm_forward(const NormForward& n) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunNormForward)(n);
}
void norm_backward(const NormBackward& n) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunNormBackward)(n);
}

}  // namespace heed::kernels
#endif
