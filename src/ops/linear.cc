// The linear layer, with a weight as it is trained and with a packed one.
#include <algorithm>
#include <memory>
#include <variant>

#include "heed/cpu.h"
#include "heed/ops.h"
#include "kernels/gemm/gemm.h"
#include "ops/checks.h"

namespace heed::ops {
namespace {

// What the product of both kinds of weight is given. The tensors own the memory that `gemm` points to.
struct LinearCall {
  Tensor x, bias;
  LinearResult result;
  kernels::Gemm gemm;

  LinearCall(const Tensor& x_tensor, const Shape& weight, const Tensor& bias_tensor, const LinearOptions& options) {
    x = dense(x_tensor, "linear", "x");
    require(weight.rank() == 2, "linear", "weight of shape (Out, In); found ", weight);
    const auto [rows, columns] = rows_of(x, "linear", "x");
    require(columns == weight[1], "linear", "x with a last axis of ", weight[1], "; found ", x.shape());
    if (bias_tensor.defined()) {
      bias = dense(bias_tensor, "linear", "bias");
      require_shape(bias, {weight[0]}, "linear", "bias");
    }
    Shape shape = x.shape();
    shape[shape.rank() - 1] = weight[0];
    result.output = Tensor::empty(shape);
    const bool keep = options.save && options.activation != Activation::none && options.activation != Activation::relu;
    if (keep) result.saved = Tensor::empty(shape);
    gemm.m = rows, gemm.n = weight[0], gemm.k = columns;
    gemm.a = x.data<float>(), gemm.a_row = columns;
    gemm.c = result.output.data<float>(), gemm.c_row = gemm.n;
    gemm.bias = bias.defined() ? bias.data<float>() : nullptr;
    gemm.activation = options.activation;
    gemm.saved = keep ? result.saved.data<float>() : nullptr;
    gemm.bf16 = MatmulPrecisionScope::current() == Precision::bf16;
  }

  LinearResult finish(const LinearOptions& options) {
    if (options.save && options.activation == Activation::relu) result.saved = result.output;
    return std::move(result);
  }
};

void require_int8_depth(int64_t in) {
  require(in >= 1 && in <= kernels::PackedInt8::kMostK, "PackedWeight", "1 to ", kernels::PackedInt8::kMostK,
          " inputs in int8; found ", in);
}

}  // namespace

LinearResult linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const LinearOptions& options) {
  require_f32(weight, "linear", "weight");
  LinearCall call(x, weight.shape(), bias, options);
  call.gemm.b = weight.data<float>(), call.gemm.b_row = weight.stride(1), call.gemm.b_column = weight.stride(0);
  kernels::gemm(call.gemm);
  return call.finish(options);
}

struct PackedWeight::Contents {
  std::variant<kernels::PackedB, kernels::PackedInt8> packed;
};

PackedWeight::PackedWeight(const Tensor& weight_tensor, WeightFormat format) : shape_(weight_tensor.shape()) {
  const Tensor weight = dense(weight_tensor, "PackedWeight", "weight");
  require(weight.rank() == 2, "PackedWeight", "weight of shape (Out, In); found ", weight.shape());
  const int64_t out = weight.size(0), in = weight.size(1);
  if (format == WeightFormat::int8) {
    require_int8_depth(in);
    const auto rows = kernels::rows_at(weight.data<float>(), in);
    contents_ = std::make_unique<Contents>(Contents{kernels::PackedInt8(rows, in, out)});
  } else {
    const bool bf16 = format == WeightFormat::bf16;
    require(!bf16 || multiplies_bf16(), "PackedWeight",
            "a processor that multiplies bf16 (AVX512-BF16 or AMX), for weights in bf16; found ",
            to_string(active_isa()), ", where f32 and int8 run");
    contents_ = std::make_unique<Contents>(Contents{kernels::PackedB(weight.data<float>(), 1, in, in, out, bf16)});
  }
}

PackedWeight::PackedWeight(const Shape& shape, const std::function<void(int64_t number, float* out)>& row)
    : shape_(shape) {
  require(shape.rank() == 2, "PackedWeight", "a shape (Out, In); found ", shape);
  require_int8_depth(shape[1]);
  contents_ = std::make_unique<Contents>(Contents{kernels::PackedInt8(row, shape[1], shape[0])});
}

PackedWeight::PackedWeight(const Int8Numbers& given) : shape_(given.numbers.shape()) {
  const Tensor numbers = given.numbers.contiguous(), scales = dense(given.scales, "PackedWeight", "scales");
  require(numbers.rank() == 2 && numbers.dtype() == DType::i8, "PackedWeight",
          "numbers of shape (Out, In) in i8; found ", numbers.shape(), " of ", numbers.dtype());
  require_shape(scales, {numbers.size(0)}, "PackedWeight", "scales");
  require_int8_depth(numbers.size(1));
  Tensor balance;
  if (given.balance.defined()) {
    balance = dense(given.balance, "PackedWeight", "balance");
    require_shape(balance, {numbers.size(1)}, "PackedWeight", "balance");
  }
  const float* const balanced_by = balance.defined() ? balance.data<float>() : nullptr;
  contents_ = std::make_unique<Contents>(Contents{kernels::PackedInt8(numbers.data<int8_t>(), scales.data<float>(),
                                                                      balanced_by, numbers.size(1), numbers.size(0))});
}

PackedWeight::~PackedWeight() = default;

Tensor PackedWeight::unpack() const {
  Tensor weight = Tensor::empty(shape_);
  std::visit([&](const auto& packed) { packed.unpack(weight.data<float>()); }, contents_->packed);
  return weight;
}

void PackedWeight::row(int64_t number, float* out) const {
  std::visit([&](const auto& packed) { packed.column(number, out); }, contents_->packed);
}

Int8Numbers PackedWeight::int8_numbers() const {
  const auto* const int8 = std::get_if<kernels::PackedInt8>(&contents_->packed);
  require(int8 != nullptr, "PackedWeight", "a weight in int8; found one of floating point");
  Int8Numbers result{Tensor::empty(shape_, DType::i8), Tensor::empty({shape_[0]}), Tensor::empty({shape_[1]})};
  int8->numbers(result.numbers.data<int8_t>());
  std::copy_n(int8->scales(), shape_[0], result.scales.data<float>());
  std::copy_n(int8->balance(), shape_[1], result.balance.data<float>());
  return result;
}

WeightFormat PackedWeight::format() const {
  const auto* const floats = std::get_if<kernels::PackedB>(&contents_->packed);
  if (floats == nullptr) return WeightFormat::int8;
  return floats->layout().bf16 ? WeightFormat::bf16 : WeightFormat::f32;
}

int64_t PackedWeight::nbytes() const {
  return std::visit([](const auto& packed) { return packed.nbytes(); }, contents_->packed);
}

LinearResult linear(const Tensor& x, const PackedWeight& weight, const Tensor& bias, const LinearOptions& options) {
  LinearCall call(x, weight.shape(), bias, options);
  call.gemm.packed = std::get_if<kernels::PackedB>(&weight.contents_->packed);
  call.gemm.int8 = std::get_if<kernels::PackedInt8>(&weight.contents_->packed);
  kernels::gemm(call.gemm);
  return call.finish(options);
}

}  // namespace heed::ops
