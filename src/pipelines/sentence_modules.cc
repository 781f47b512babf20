#include "pipelines/sentence_modules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <system_error>

#include "heed/error.h"
#include "heed/io.h"
#include "models/bert_head.h"
#include "models/families/keys.h"
#include "models/weights.h"
#include "pipelines/json_file.h"

namespace heed::pipelines {
namespace {

namespace fs = std::filesystem;
using models::Keys;

constexpr const char* kModulesReader = "Encoder::load";

// An entry of modules.json.
struct Entry {
  std::string kind;  // "Pooling"
  fs::path folder;
};

// The folder of the entry: inside of `folder`, so that no model reads files that are not its own.
fs::path folder_of_entry(const fs::path& folder, Keys& keys) {
  const std::string path = keys.word("path", "");
  const fs::path below = fs::path(path).lexically_normal();
  const bool leaves = below.is_absolute() || (!below.empty() && *below.begin() == "..");
  if (leaves) keys.refuse("path", "a folder inside of the model's");
  return path.empty() ? folder : folder / below;
}

std::vector<Entry> read_entries(const fs::path& folder) {
  const fs::path file = folder / "modules.json";
  const io::Json list = read_json(file, kModulesReader);
  require(list.is_array() && !list.empty(), kModulesReader, file.string(), ": a list of modules; found ",
          list.is_array() ? "an empty one" : list.type_name());
  std::vector<Entry> entries;
  for (const io::Json& item : list) {
    Keys keys(item, file.string() + ", module " + std::to_string(entries.size() + 1));
    const std::string type = keys.word("type", "");
    if (!type.starts_with("sentence_transformers.")) keys.refuse("type", "a class of sentence_transformers");
    (void)keys.value("idx");
    (void)keys.word("name", "");
    entries.push_back({.kind = type.substr(type.rfind('.') + 1), .folder = folder_of_entry(folder, keys)});
    keys.finish();
    constexpr std::array<std::string_view, 4> kKnown = {"Transformer", "Pooling", "Dense", "Normalize"};
    if (std::find(kKnown.begin(), kKnown.end(), entries.back().kind) == kKnown.end()) {
      keys.refuse("type", "Transformer, Pooling, Dense or Normalize at its end");
    }
    const bool in_place = entries.size() == 1   ? entries.back().kind == "Transformer"
                          : entries.size() == 2 ? entries.back().kind == "Pooling"
                                                : entries.back().kind != "Transformer";
    if (!in_place) keys.refuse("type", "a Transformer, a Pooling, and then others");
  }
  require(entries.size() >= 2, kModulesReader, file.string(), ": a Transformer and a Pooling; found one module");
  return entries;
}

bool has_modules(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "modules.json", ignored);
}

struct PoolingName {
  std::string_view older, newer;
  TokenPooling pooling;
};
// In the order in which several older ones stand side by side.
constexpr std::array kPoolingNames = {
    PoolingName{"pooling_mode_cls_token", "cls", TokenPooling::first},
    PoolingName{"pooling_mode_max_tokens", "max", TokenPooling::largest},
    PoolingName{"pooling_mode_mean_tokens", "mean", TokenPooling::mean},
    PoolingName{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", TokenPooling::mean_by_root},
    PoolingName{"pooling_mode_weightedmean_tokens", "weightedmean", TokenPooling::weighted_mean},
    PoolingName{"pooling_mode_lasttoken", "lasttoken", TokenPooling::last},
};

std::vector<TokenPooling> read_newer_poolings(Keys& keys) {
  const io::Json& mode = keys.value("pooling_mode");
  std::vector<TokenPooling> poolings;
  for (const io::Json& one : mode.is_array() ? mode : io::Json::array({mode})) {
    const auto at = std::find_if(kPoolingNames.begin(), kPoolingNames.end(), [&](const PoolingName& name) {
      return one.is_string() && one.get<std::string>() == name.newer;
    });
    if (at == kPoolingNames.end()) {
      keys.refuse("pooling_mode", "cls, max, mean, mean_sqrt_len_tokens, weightedmean or lasttoken, or a list of them");
    }
    poolings.push_back(at->pooling);
  }
  if (poolings.empty()) keys.refuse("pooling_mode", "one or more");
  return poolings;
}

std::vector<TokenPooling> read_poolings(Keys& keys) {
  if (keys.has("pooling_mode")) return read_newer_poolings(keys);
  std::vector<TokenPooling> poolings;
  for (const PoolingName& name : kPoolingNames) {
    if (keys.flag(name.older, false)) poolings.push_back(name.pooling);
  }
  if (poolings.empty()) poolings.push_back(TokenPooling::mean);
  return poolings;
}

// One pooling of states (length, width), in one order of additions.
void pool(TokenPooling pooling, const float* states, int64_t length, int64_t width, float* out) {
  if (length == 0) return;
  const auto row = [&](int64_t l) { return states + l * width; };
  if (pooling == TokenPooling::first || pooling == TokenPooling::last) {
    std::copy_n(row(pooling == TokenPooling::first ? 0 : length - 1), width, out);
    return;
  }
  if (pooling == TokenPooling::largest) {
    std::copy_n(row(0), width, out);
    for (int64_t l = 1; l < length; ++l) {
      for (int64_t e = 0; e < width; ++e) out[e] = std::max(out[e], row(l)[e]);
    }
    return;
  }
  const bool weighted = pooling == TokenPooling::weighted_mean;
  const auto count = static_cast<double>(length);
  const double share = weighted ? 2 / (count * (count + 1)) : 1 / std::sqrt(count);
  for (int64_t e = 0; e < width; ++e) {
    double sum = 0;
    for (int64_t l = 0; l < length; ++l) {
      sum += static_cast<double>(row(l)[e]) * (weighted ? static_cast<double>(l + 1) : 1.0);
    }
    out[e] = static_cast<float>(sum * share);
  }
}

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
  return has_modules(folder) ? read_entries(folder).front().folder : folder;
}

std::vector<fs::path> SentenceModules::folders(const fs::path& folder) {
  if (!has_modules(folder)) return {folder};
  std::vector<fs::path> result;
  for (const Entry& entry : read_entries(folder)) result.push_back(entry.folder);
  return result;
}

SentenceModules SentenceModules::load(const fs::path& folder, int64_t width) {
  SentenceModules result(width);
  if (!has_modules(folder)) return result;
  const std::vector<Entry> entries = read_entries(folder);
  result.read_pooling(entries[1].folder);
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

void SentenceModules::read_pooling(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  const io::Json object = read_json(file, kModulesReader);
  Keys keys(object, file.string());
  const char* const size_key = keys.has("embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
  if (keys.whole(size_key) != width_) keys.refuse(size_key, std::to_string(width_) + ", the width of the model");
  poolings_ = read_poolings(keys);
  pools_prompts_ = keys.flag("include_prompt", true);
  keys.finish();
  size_ = width_ * static_cast<int64_t>(poolings_.size());
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
  const Tensor all = states.contiguous();
  const int64_t batch = all.size(0), longest = all.size(1);
  Tensor rows;
  if (poolings_ == std::vector{TokenPooling::mean}) {
    rows = models::mean_of_states(Value(all), lengths).data();
  } else {
    const auto count = static_cast<int64_t>(poolings_.size());
    rows = Tensor::zeros({batch, width_ * count});
    for (int64_t b = 0; b < batch; ++b) {
      const auto length = static_cast<int64_t>(lengths.at({b}));
      const Tensor mean = models::mean_of_states(Value(all.slice(0, b, b + 1)), lengths.slice(0, b, b + 1)).data();
      for (int64_t p = 0; p < count; ++p) {
        float* out = rows.data<float>() + (b * count + p) * width_;
        const TokenPooling pooling = poolings_[static_cast<size_t>(p)];
        if (pooling == TokenPooling::mean) {
          std::copy_n(mean.data<float>(), width_, out);
        } else {
          pool(pooling, all.data<float>() + b * longest * width_, length, width_, out);
        }
      }
    }
  }
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
