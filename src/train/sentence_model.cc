#include "train/sentence_model.h"

#include <algorithm>
#include <system_error>

#include "base/files.h"
#include "heed/error.h"
#include "models/pooling.h"
#include "train/sentence_files.h"

namespace heed::train {

namespace fs = std::filesystem;

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
    tensors[layer.folder + "/linear.weight"] = layer.dense.weight.data();
    if (layer.dense.bias.defined()) tensors[layer.folder + "/linear.bias"] = layer.dense.bias.data();
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

}  // namespace heed::train
