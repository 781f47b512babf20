#include "train/sentence_modules.h"

#include <algorithm>
#include <system_error>

#include "base/files.h"
#include "formats/json.h"
#include "heed/error.h"
#include "models/sentence_folder.h"
#include "models/sentence_settings.h"
#include "train/sentence_files.h"
#include "train/sentence_model.h"

namespace heed::train {

namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr const char* kModules = "modules.json";
constexpr const char* kSettings = "config_sentence_transformers.json";

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

void copy_if_there(const fs::path& from, const fs::path& to, const char* name) {
  if (is_there(from / name)) files::write_atomically(to / name, io::read_file(from / name), "train");
}

void write_json(const fs::path& file, const Json& json) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  require(!error, "train", files::quoted(file.parent_path()), ": a folder that can be made; ", error.message());
  files::write_atomically(file, io::json_text(json, 2) + "\n", "train");
}

void write_mean_pooling(const fs::path& to, int64_t width) {
  const auto module = [](int index, const char* path, const char* type) {
    return Json{{"idx", index},
                {"name", std::to_string(index)},
                {"path", path},
                {"type", std::string("sentence_transformers.models.") + type}};
  };
  write_json(
      to / kMeanPooling / "config.json",
      {{"word_embedding_dimension", width}, {"pooling_mode_cls_token", false}, {"pooling_mode_mean_tokens", true}});
  write_json(to / "modules.json", Json::array({module(0, "", "Transformer"), module(1, kMeanPooling, "Pooling")}));
}

std::unique_ptr<models::Model> with_layers(std::unique_ptr<models::Model> model,
                                           std::vector<SentenceModel::Layer> layers) {
  auto* const bert = dynamic_cast<models::Bert*>(model.get());
  require(bert != nullptr, "train", "an encoder below a Dense; found another kind of model");
  (void)model.release();
  return std::make_unique<SentenceModel>(std::unique_ptr<models::Bert>(bert), std::move(layers));
}

}  // namespace

void read_modules(const Recipe& recipe, const fs::path& folder, Start& start) {
  auto contrast = std::make_shared<Contrast>();
  contrast->scale = recipe.similarity_scale;
  if (models::has_sentence_modules(folder)) {
    const std::vector<models::SentenceModule> modules = models::read_sentence_modules(folder);
    const int64_t width = start.model->config().width;
    contrast->poolings = models::read_sentence_pooling(modules[1].folder, width).poolings;
    auto layers = read_layers(folder, width * std::ssize(contrast->poolings));
    if (!layers.empty()) start.model = with_layers(std::move(start.model), std::move(layers));
  }
  start.contrast = std::move(contrast);
}

void copy_settings(const fs::path& from, const fs::path& to) {
  for (const char* const name : models::sentence_settings_files()) copy_if_there(from, to, name);
}

bool copy_modules(const fs::path& from, const fs::path& to) {
  if (!models::has_sentence_modules(from)) return false;
  for (const char* const name : {kModules, kSettings}) copy_if_there(from, to, name);
  copy_settings(from, to);
  for (const models::SentenceModule& module : models::read_sentence_modules(from)) {
    const fs::path below = module.folder.lexically_relative(from), config = below / "config.json";
    if (below.empty() || below == "." || !is_there(from / config)) continue;
    write_json(to / config, io::parse_json(io::read_file(from / config, 1 << 20)).value);
    if (module.kind == "Pooling") models::keep_prompts_out(module.folder, to / below);
  }
  return true;
}

bool copy_cross_encoder(const fs::path& from, const fs::path& to) {
  if (!models::is_cross_encoder(from)) return false;
  copy_settings(from, to);
  for (const char* const name : {kModules, kSettings}) copy_if_there(from, to, name);
  return true;
}

void write_cross_encoder(const fs::path& from, const fs::path& to) {
  if (!copy_cross_encoder(from, to)) return;
  Json settings = io::parse_json(io::read_file(from / kSettings, 1 << 20)).value;
  settings.erase("activation_fn");
  write_json(to / kSettings, settings);
}

void write_modules(const models::Model& model, const fs::path& from, const fs::path& to) {
  if (!copy_modules(from, to)) {
    if (model.origin() != nullptr) write_mean_pooling(to, model.config().width);
    return;
  }
  if (const auto* sentence = dynamic_cast<const SentenceModel*>(&model)) {
    write_dense_tensors(sentence->dense_tensors(), to);
  }
}

}  // namespace heed::train
