#include "train/sentence_model.h"

#include <algorithm>
#include <system_error>

#include "base/files.h"
#include "heed/error.h"
#include "models/pooling.h"

namespace heed::train {

namespace fs = std::filesystem;

namespace {

constexpr char kSlash = '/';

bool is_dense_module(const models::SentenceModule& module) { return module.kind == "Dense"; }

std::string folder_below(const models::SentenceModule& module, const fs::path& folder) {
  return module.folder.lexically_relative(folder).generic_string();
}

}  // namespace

// The parameters of a Dense, under the names of its file.
class SentenceModel::Weights : public nn::Module {
 public:
  explicit Weights(models::SentenceDense& dense) {
    dense.weight = add_parameter("linear.weight", dense.weight.data());
    if (dense.bias.defined()) dense.bias = add_parameter("linear.bias", dense.bias.data());
  }
};

SentenceModel::SentenceModel(std::unique_ptr<models::Bert> encoder, std::vector<Layer> layers)
    : Model(encoder->config()), encoder_(std::move(encoder)), layers_(std::move(layers)) {
  set_origin(encoder_->origin());
  add_module("encoder", *encoder_);
  for (Layer& layer : layers_) {
    if (layer.folder.empty()) continue;
    weights_.push_back(std::make_unique<Weights>(layer.dense));
    add_module("modules." + layer.folder, *weights_.back());
  }
  name_paths();
}

SentenceModel::~SentenceModel() = default;

Value SentenceModel::vectors(const Value& pooled) const {
  Value x = pooled;
  for (const Layer& layer : layers_) x = layer.folder.empty() ? models::unit_rows(x) : layer.dense(x);
  return x;
}

io::Tensors SentenceModel::dense_tensors() const {
  io::Tensors tensors;
  for (const Layer& layer : layers_) {
    if (layer.folder.empty()) continue;
    tensors[layer.folder + kSlash + "linear.weight"] = layer.dense.weight.data();
    if (layer.dense.bias.defined()) tensors[layer.folder + kSlash + "linear.bias"] = layer.dense.bias.data();
  }
  return tensors;
}

void SentenceModel::save(const fs::path& folder) const {
  models::save(*encoder_, folder);
  write_dense_tensors(dense_tensors(), folder);
}

std::vector<SentenceModel::Layer> read_layers(const fs::path& folder, int64_t width) {
  const std::vector<models::SentenceModule> modules = models::read_sentence_modules(folder);
  if (std::ranges::none_of(modules, is_dense_module)) return {};
  std::vector<SentenceModel::Layer> layers;
  for (size_t i = 2; i < modules.size(); ++i) {
    const std::string where = folder_below(modules[i], folder);
    if (!is_dense_module(modules[i])) {
      layers.emplace_back();
      continue;
    }
    const auto same = [&](const SentenceModel::Layer& layer) { return layer.folder == where; };
    require(where != "." && std::ranges::none_of(layers, same), "train", (folder / "modules.json").string(),
            ": a folder of its own for each Dense; found \"", where, "\"");
    layers.push_back({.folder = where, .dense = models::read_sentence_dense(modules[i].folder, width)});
    width = layers.back().dense.size();
  }
  return layers;
}

io::Tensors read_dense_tensors(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / kDenseFile, ignored)) return io::read_safetensors(folder / kDenseFile).tensors;
  io::Tensors tensors;
  if (!models::has_sentence_modules(folder)) return tensors;
  for (const models::SentenceModule& module : models::read_sentence_modules(folder)) {
    if (!is_dense_module(module)) continue;
    for (auto& [name, tensor] : io::read_weights(module.folder).tensors) {
      tensors[folder_below(module, folder) + kSlash + name] = tensor;
    }
  }
  return tensors;
}

void write_dense_tensors(const io::Tensors& dense, const fs::path& to) {
  std::map<std::string, io::Tensors> files;
  for (const auto& [name, tensor] : dense) {
    const size_t at = name.rfind(kSlash);
    files[name.substr(0, at)][name.substr(at + 1)] = tensor;
  }
  for (const auto& [folder, tensors] : files) {
    std::error_code error;
    fs::create_directories(to / folder, error);
    require(!error, "train", files::quoted(to / folder), ": a folder that can be made; ", error.message());
    io::write_safetensors(to / folder / "model.safetensors", tensors, {{"format", "pt"}});
  }
}

io::Tensors read_whole_model(const fs::path& folder) {
  io::Tensors all = io::read_safetensors(folder / "model.safetensors").tensors;
  all.merge(read_dense_tensors(folder));
  return all;
}

ModelParts parts_of_model(const io::Tensors& all) {
  ModelParts parts;
  for (const auto& [name, tensor] : all) {
    (name.find(kSlash) != std::string::npos ? parts.dense : parts.encoder)[name] = tensor;
  }
  return parts;
}

}  // namespace heed::train
