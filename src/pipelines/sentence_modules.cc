#include "pipelines/sentence_modules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <system_error>

#include "heed/error.h"
#include "heed/io.h"
#include "models/families/keys.h"
#include "models/sentence_folder.h"
#include "models/weights.h"
#include "pipelines/json_file.h"

namespace heed::pipelines {
namespace {

namespace fs = std::filesystem;
using models::has_sentence_modules;
using models::Keys;
using models::read_sentence_modules;
using models::SentenceModule;
using models::TokenPooling;

constexpr const char* kModulesReader = "Encoder::load";

void normalise_rows(const Tensor& rows) {
  constexpr double kLeast = 1e-12;
  const int64_t width = rows.size(1);
  for (int64_t b = 0; b < rows.size(0); ++b) {
    float* row = rows.data<float>() + b * width;
    double squares = 0;
    for (int64_t e = 0; e < width; ++e) squares += static_cast<double>(row[e]) * static_cast<double>(row[e]);
    const double length = std::max(std::sqrt(squares), kLeast);
    for (int64_t e = 0; e < width; ++e) row[e] = static_cast<float>(static_cast<double>(row[e]) / length);
  }
}

}  // namespace

SentenceModules::SentenceModules(int64_t width) : width_(width), size_(width) {}

fs::path SentenceModules::encoder_folder(const fs::path& folder) {
  return has_sentence_modules(folder) ? read_sentence_modules(folder).front().folder : folder;
}

std::vector<fs::path> SentenceModules::folders(const fs::path& folder) {
  if (!has_sentence_modules(folder)) return {folder};
  std::vector<fs::path> result;
  for (const SentenceModule& entry : read_sentence_modules(folder)) result.push_back(entry.folder);
  return result;
}

SentenceModules SentenceModules::load(const fs::path& folder, int64_t width) {
  SentenceModules result(width);
  if (!has_sentence_modules(folder)) return result;
  const std::vector<SentenceModule> entries = read_sentence_modules(folder);
  models::SentencePooling pooling = models::read_sentence_pooling(entries[1].folder, width);
  result.poolings_ = std::move(pooling.poolings);
  result.pools_prompts_ = pooling.pools_prompts;
  result.size_ = width * std::ssize(result.poolings_);
  for (size_t i = 2; i < entries.size(); ++i) {
    require(entries[i].kind != "Pooling", kModulesReader, (folder / "modules.json").string(), ", module ", i + 1,
            ": key \"type\": one Pooling; found a second");
    if (entries[i].kind == "Normalize") {
      result.modules_.emplace_back(Normalize{});  // has no settings; its folder may be missing
    } else {
      result.read_dense(entries[i].folder);
    }
  }
  return result;
}

void SentenceModules::read_dense(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  const io::Json object = read_json(file, kModulesReader);
  Keys keys(object, file.string());
  const int64_t in = keys.whole("in_features"), out = keys.whole("out_features");
  if (in != size_) keys.refuse("in_features", std::to_string(size_) + ", the size of what the module before gives");
  constexpr int64_t kMostNumbers = int64_t{1} << 20;
  if (out < 1 || out > kMostNumbers) keys.refuse("out_features", "1 to 2^20");
  const bool with_bias = keys.flag("bias", true);
  const std::string path = keys.word("activation_function", "torch.nn.modules.activation.Tanh");
  const std::string name = path.starts_with("torch.nn.") ? path.substr(path.rfind('.') + 1) : path;
  Dense dense;
  if (name == "Tanh") {
    dense.activation = Activation::tanh;
  } else if (name == "ReLU") {
    dense.activation = Activation::relu;
  } else if (name == "GELU") {
    dense.activation = Activation::gelu;
  } else if (name == "Sigmoid") {
    dense.sigmoid = true;
  } else if (name != "Identity") {
    keys.refuse("activation_function", "Tanh, Identity, ReLU, GELU or Sigmoid of torch.nn");
  }
  keys.expect("module_input_name", {"sentence_embedding"});
  keys.expect("module_output_name", {"sentence_embedding"});
  keys.expect("use_residual", false);
  keys.finish();
  const std::string where = folder.string();
  const io::Tensors tensors = io::read_weights(folder).tensors;
  const auto take = [&](const char* tensor, const Shape& shape) {
    const Tensor found = models::find_weight(tensors, where, tensor);
    require(found.shape() == shape, kModulesReader, where, ": shape ", shape, " of tensor \"", tensor, "\"; found ",
            found.shape());
    models::check_finite(found, where, tensor);
    return Value(found.contiguous().clone());
  };
  dense.weight = take("linear.weight", {out, in});
  if (with_bias) dense.bias = take("linear.bias", {out});
  require(tensors.size() == (with_bias ? 2U : 1U), kModulesReader, where, ": tensors linear.weight",
          with_bias ? " and linear.bias" : "", " only; found ", tensors.size(), " tensors");
  modules_.emplace_back(std::move(dense));
  size_ = out;
}

Tensor SentenceModules::operator()(const Tensor& states, const Tensor& lengths) const {
  const NoGradScope no_grad;
  Tensor rows = models::pooled_states(Value(states), lengths, poolings_).data();
  for (const Module& module : modules_) {
    if (const auto* dense = std::get_if<Dense>(&module); dense != nullptr) {
      rows = linear(Value(rows), dense->weight, dense->bias, dense->activation).data().contiguous();
      if (!dense->sigmoid) continue;
      for (int64_t i = 0; i < rows.numel(); ++i) {
        rows.data<float>()[i] = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(rows.data<float>()[i]))));
      }
    } else {
      normalise_rows(rows);
    }
  }
  return rows;
}

}  // namespace heed::pipelines
