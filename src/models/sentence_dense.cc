#include "models/sentence_dense.h"

#include <cmath>

#include "formats/json.h"
#include "heed/error.h"
#include "heed/io.h"
#include "models/families/keys.h"
#include "models/weights.h"

namespace heed::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDenseReader = "Encoder::load";

Value logistic(const Value& x) {
  const Tensor from = x.data().contiguous(), y = Tensor::empty(from.shape());
  for (int64_t i = 0; i < y.numel(); ++i) {
    y.data<float>()[i] = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(from.data<float>()[i]))));
  }
  return Value::record(y, {x}, [y](const Tensor& d_y) {
    const Tensor d = Tensor::empty(y.shape());
    for (int64_t i = 0; i < d.numel(); ++i) {
      const float p = y.data<float>()[i];
      d.data<float>()[i] = d_y.data<float>()[i] * p * (1 - p);
    }
    return std::vector<Tensor>{d};
  });
}

void read_activation(Keys& keys, SentenceDense& dense) {
  constexpr const char* kUsual = "torch.nn.modules.activation.Tanh";
  std::string path = keys.word("activation_function", kUsual);
  if (!path.starts_with("torch.")) path = kUsual;  // sentence-transformers imports no other
  const std::string name = path.starts_with("torch.nn.") ? path.substr(path.rfind('.') + 1) : path;
  if (name == "Tanh") {
    dense.activation = Activation::tanh;
  } else if (name == "ReLU") {
    dense.activation = Activation::relu;
  } else if (name == "GELU") {
    dense.activation = Activation::gelu;
  } else if (name == "SiLU") {
    dense.activation = Activation::silu;
  } else if (name == "Sigmoid") {
    dense.sigmoid = true;
  } else if (name != "Identity") {
    keys.refuse("activation_function", "Tanh, Identity, ReLU, GELU, SiLU or Sigmoid of torch.nn");
  }
}

}  // namespace

Value SentenceDense::operator()(const Value& rows) const {
  const Value y = linear(rows, weight, bias, activation);
  return sigmoid ? logistic(y) : y;
}

SentenceDense read_sentence_dense(const fs::path& folder, int64_t in) {
  constexpr int64_t kLimit = int64_t{1} << 20;  // bytes of a config.json
  const fs::path file = folder / "config.json";
  const io::ParsedJson parsed = io::parse_json(io::read_file(file, kLimit));
  require(parsed.problem.empty(), kDenseReader, file.string(), ": ", parsed.problem);
  Keys keys(parsed.value, file.string());
  if (keys.whole("in_features") != in) {
    keys.refuse("in_features", std::to_string(in) + ", the size of what the module before gives");
  }
  const int64_t out = keys.whole("out_features");
  constexpr int64_t kMostNumbers = int64_t{1} << 20;
  if (out < 1 || out > kMostNumbers) keys.refuse("out_features", "1 to 2^20");
  const bool with_bias = keys.flag("bias", true);
  SentenceDense dense;
  read_activation(keys, dense);
  keys.expect("module_input_name", {std::string_view("sentence_embedding")});
  keys.expect("module_output_name", {std::string_view("sentence_embedding")});
  keys.expect("use_residual", false);
  keys.finish();
  const std::string where = folder.string();
  const io::Tensors tensors = io::read_weights(folder).tensors;
  const auto take = [&](const char* tensor, const Shape& shape) {
    const Tensor found = find_weight(tensors, where, tensor);
    require(found.shape() == shape, kDenseReader, where, ": shape ", shape, " of tensor \"", tensor, "\"; found ",
            found.shape());
    const Tensor own = own_copy(found);
    check_finite(own, where, tensor);
    return Value(own);
  };
  dense.weight = take("linear.weight", {out, in});
  if (with_bias) dense.bias = take("linear.bias", {out});
  require(tensors.size() == (with_bias ? 2U : 1U), kDenseReader, where, ": tensors linear.weight",
          with_bias ? " and linear.bias" : "", " only; found ", tensors.size(), " tensors");
  return dense;
}

}  // namespace heed::models
