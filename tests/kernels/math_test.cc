// exp, log, tanh, sigmoid and GELU against double precision, in units in the last place.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/math_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/rows/activations-inl.h"
#include "kernels/settings.h"
#include "kernels/simd/math-inl.h"
#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

template <class Function>
void Map(std::vector<float>& values, Function&& f) {
  for (size_t i = 0; i + 16 <= values.size(); i += 16) {
    store16(map16([&](FV v) { return f(F(), v); }, load16(values.data() + i)), values.data() + i);
  }
}

void ExpAll(std::vector<float>& v) {
  Map(v, [](auto d, auto x) { return full_exp(d, x); });
}
void LogAll(std::vector<float>& v) {
  Map(v, [](auto d, auto x) { return full_log(d, x); });
}
void TanhAll(std::vector<float>& v) {
  Map(v, [](auto d, auto x) { return full_tanh(d, x); });
}
void GeluAll(std::vector<float>& v) {
  Map(v, [](auto d, auto x) { return GeluFunction::value(d, x); });
}
void CumulativeAll(std::vector<float>& v) {
  Map(v, [](auto d, auto x) { return GeluFunction::cumulative(d, x); });
}
void SigmoidAll(std::vector<float>& v) {
  Map(v, [](auto d, auto x) { return sigmoid(d, x); });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
namespace {

HWY_EXPORT(ExpAll);
HWY_EXPORT(LogAll);
HWY_EXPORT(TanhAll);
HWY_EXPORT(GeluAll);
HWY_EXPORT(CumulativeAll);
HWY_EXPORT(SigmoidAll);

using Values = std::vector<float>;

void exp_all(Values& v) { HWY_DYNAMIC_DISPATCH(ExpAll)(v); }
void log_all(Values& v) { HWY_DYNAMIC_DISPATCH(LogAll)(v); }
void tanh_all(Values& v) { HWY_DYNAMIC_DISPATCH(TanhAll)(v); }
void gelu_all(Values& v) { HWY_DYNAMIC_DISPATCH(GeluAll)(v); }
void cumulative_all(Values& v) { HWY_DYNAMIC_DISPATCH(CumulativeAll)(v); }
void sigmoid_all(Values& v) { HWY_DYNAMIC_DISPATCH(SigmoidAll)(v); }

// Floats evenly spread over [low, high], and evenly over their bit patterns there.
Values spread(float low, float high) {
  Values values;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    values.push_back(low + (high - low) * (static_cast<float>(i) / static_cast<float>(kCount)));
  }
  std::mt19937 engine(1);
  while (values.size() < 3 * kCount) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(engine()));
    if (value >= low && value <= high) values.push_back(value);
  }
  values.resize(values.size() / 16 * 16);
  return values;
}

double ulps(float found, double exact) {
  if (std::isnan(exact)) return std::isnan(found) ? 0 : 1e9;
  const float nearest = static_cast<float>(exact);
  if (std::isinf(nearest)) return found == nearest ? 0 : 1e9;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(static_cast<double>(found) - exact) / unit;
}

using Error = double (*)(float found, double exact);

void expect_errors(double most, const Values& inputs, void (*function)(Values&), double (*exact)(double),
                   Error error_of) {
  testing::on_every_isa([&] {
    Values found = inputs;
    function(found);
    double worst = 0;
    float at = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double error = error_of(found[i], exact(static_cast<double>(inputs[i])));
      if (!(error <= worst)) worst = error, at = inputs[i];
    }
    EXPECT_LE(worst, most) << "at " << at;
    ::testing::Test::RecordProperty("worst", std::to_string(worst));
  });
  testing::expect_same_bits_everywhere([&] {
    Values found = inputs;
    function(found);
    return found;
  });
}

// In units in the last place.
void expect_within(double most, const Values& inputs, void (*function)(Values&), double (*exact)(double)) {
  expect_errors(most, inputs, function, exact, ulps);
}

void expect_near(double most, const Values& inputs, void (*function)(Values&), double (*exact)(double)) {
  expect_errors(most, inputs, function, exact, [](float found, double exact_value) {
    if (std::isnan(exact_value)) return std::isnan(found) ? 0.0 : INFINITY;
    if (std::isinf(static_cast<float>(exact_value))) return static_cast<double>(found) == exact_value ? 0.0 : INFINITY;
    return std::fabs(static_cast<double>(found) - exact_value);
  });
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

TEST(Math, Exp) {
  expect_within(1.1, spread(-104.0f, 89.0f), exp_all, std::exp);
  Values special(16, 0.0f);
  special = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN, 200.0f, -200.0f, 1e-40f,
             88.72f, -103.9f, -1e30f,   1e30f,     1,   2,      3,       4};
  expect_within(1.1, special, exp_all, std::exp);
}

TEST(Math, Log) {
  expect_within(1.1, spread(1e-45f, 3.4e38f), log_all, std::log);
  expect_within(1.1, spread(0.5f, 2.0f), log_all, std::log);
  expect_within(
      1.1,
      {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -1.0f, 1.0f, 1e-40f, 1e-45f, 1.17549435e-38f, 3.4e38f, 2, 3, 4, 5, 6},
      log_all, std::log);
}

TEST(Math, full_tanh) {
  expect_within(2.0, spread(-12.0f, 12.0f), tanh_all, std::tanh);
  expect_within(2.0, {0.0f, INFINITY, -INFINITY, NAN, 1e-40f, 50.0f, -50.0f, 1e30f, 0.625f, -0.625f, 1, 2, 3, 4, 5, 6},
                tanh_all, std::tanh);
}

double cumulative(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
double gelu(double x) { return x == -INFINITY ? 0 : x * cumulative(x); }

TEST(Math, cumulative) {
  expect_within(2.0, spread(0.0f, 15.0f), cumulative_all, cumulative);
  expect_within(128.0, spread(-5.0f, 0.0f), cumulative_all, cumulative);
  expect_near(1e-11, spread(-50.0f, -5.0f), cumulative_all, cumulative);
}

TEST(Math, gelu) {
  expect_within(2.2, spread(0.0f, 15.0f), gelu_all, gelu);
  expect_within(4.0, spread(-1.0f, 0.0f), gelu_all, gelu);
  expect_within(128.0, spread(-5.0f, -1.0f), gelu_all, gelu);
  expect_near(5e-8, spread(-5.0f, 0.0f), gelu_all, gelu);
  expect_near(2e-11, spread(-1e30f, -5.0f), gelu_all, gelu);
  expect_near(0,
              {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 60.0f, 50.0f, -50.0f, 3e38f, -3e38f, 40.0f, -40.0f, 1e9f,
               1e30f, -1e30f},
              gelu_all, gelu);
}

TEST(Math, sigmoid) {
  expect_within(2.5, spread(-87.0f, 87.0f), sigmoid_all, sigmoid);
  expect_within(2.5, {0.0f, INFINITY, -INFINITY, NAN, 1e-40f, 50.0f, -50.0f, 1e30f, -1e30f, 1, 2, 3, 4, 5, 6, 7},
                sigmoid_all, sigmoid);
}

}  // namespace
}  // namespace heed
#endif
