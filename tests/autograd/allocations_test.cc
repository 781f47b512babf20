// A value without a gradient costs what a tensor costs: the same function on both asks for memory equally often.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "heed/autograd.h"

namespace {
std::atomic<int64_t> allocations = 0;
}

// All of this test program allocates through these. (The one that does not throw is that of std::stable_sort; the
// usual one would call the other, but not that of AddressSanitizer.)
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(size_t bytes) {
  if (void* const memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace heed {
namespace {

// The second of two calls: the first fills what is kept for reuse.
template <class F>
int64_t allocations_of(F&& f) {
  f();
  const int64_t before = allocations;
  f();
  return allocations - before;
}

template <class OnTensors, class OnValues>
void expect_equal_cost(const char* name, OnTensors&& on_tensors, OnValues&& on_values) {
  EXPECT_EQ(allocations_of(on_values), allocations_of(on_tensors)) << name;
}

void expect_that_values_cost_nothing(const Value& x, const Value& y, const Value& weight, const Value& bias,
                                     const Value& four) {
  const Tensor tx = x.data(), ty = y.data(), tw = weight.data(), tb = bias.data(), t4 = four.data();
  const ops::Dropout none;
  expect_equal_cost(
      "+", [&] { (void)ops::add(tx, ty); }, [&] { (void)(x + y); });
  expect_equal_cost(
      "-", [&] { (void)ops::sub(tx, ty); }, [&] { (void)(x - y); });
  expect_equal_cost(
      "*", [&] { (void)ops::mul(tx, ty); }, [&] { (void)(x * y); });
  expect_equal_cost(
      "scale", [&] { (void)ops::scale(tx, 2); }, [&] { (void)(x * 2.0f); });
  expect_equal_cost(
      "gelu", [&] { (void)ops::activate(tx, Activation::gelu); }, [&] { (void)gelu(x); });
  expect_equal_cost(
      "softmax", [&] { (void)ops::softmax(tx); }, [&] { (void)softmax(x); });
  expect_equal_cost(
      "log_softmax", [&] { (void)ops::log_softmax(tx); }, [&] { (void)log_softmax(x); });
  expect_equal_cost(
      "matmul", [&] { (void)ops::matmul(tx, tw); }, [&] { (void)matmul(x, weight); });
  expect_equal_cost(
      "linear", [&] { (void)ops::linear(tx, tw, tb); }, [&] { (void)linear(x, weight, bias); });
  expect_equal_cost(
      "layer_norm", [&] { (void)ops::layer_norm(tx, tb, tb, 1e-5f); }, [&] { (void)layer_norm(x, bias, bias); });
  expect_equal_cost(
      "rms_norm", [&] { (void)ops::rms_norm(tx, tb, 1e-5f); }, [&] { (void)rms_norm(x, bias); });
  expect_equal_cost(
      "dropout_add_layer_norm", [&] { (void)ops::dropout_add_layer_norm(tx, ty, none, tb, tb, 1e-5f); },
      [&] { (void)dropout_add_layer_norm(x, y, 0.5f, bias, bias); });
  expect_equal_cost(
      "dropout", [] {}, [&] { (void)dropout(x, 0.5f); });
  expect_equal_cost(
      "reshape",
      [&] {
        (void)tx.reshape({16, 3});
      },
      [&] {
        (void)reshape(x, {16, 3});
      });
  expect_equal_cost(
      "transpose", [&] { (void)ops::transpose(tx, 0, 1); }, [&] { (void)transpose(x, 0, 1); });
  expect_equal_cost(
      "slice", [&] { (void)ops::contiguous(tx.slice(0, 1, 3)); }, [&] { (void)slice(x, 0, 1, 3); });
  expect_equal_cost(
      "attention", [&] { (void)attention(t4, t4, t4); }, [&] { (void)attention(four, four, four); });
  expect_equal_cost(
      "a copy", [] {}, [&] { const Value copy = x; });
}

TEST(Allocations, AValueWithoutAGradientCostsWhatATensorCosts) {
  const Value x(Tensor::full({4, 12}, 1)), weight(Tensor::full({12, 12}, 0.5f)), bias(Tensor::full({12}, 2));
  const Value four(Tensor::full({1, 2, 4, 8}, 0.5f));
  expect_that_values_cost_nothing(x, x, weight, bias, four);
}

TEST(Allocations, SoDoesOneWhoseGradientIsNotRecorded) {
  const Value x(Tensor::full({4, 12}, 1), true), weight(Tensor::full({12, 12}, 0.5f), true);
  const Value bias(Tensor::full({12}, 2), true), four(Tensor::full({1, 2, 4, 8}, 0.5f), true);
  EXPECT_GT(allocations_of([&] { (void)gelu(x); }),
            allocations_of([&] { (void)ops::activate(x.data(), Activation::gelu); }));
  const NoGradScope no_grad;
  expect_that_values_cost_nothing(x, x, weight, bias, four);
}

}  // namespace
}  // namespace heed
