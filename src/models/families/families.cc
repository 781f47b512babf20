#include "models/families/families.h"

#include <array>

#include "heed/error.h"
#include "models/families/rounded.h"
#include "models/families/weights.h"
#include "models/sentence_folder.h"
#include "models/weights.h"

namespace heed::models {
namespace {

constexpr std::array kFamilies = {
    Family{"bart", read_bart},           Family{"bert", read_bert},
    Family{"camembert", read_roberta},   Family{"distilbert", read_distilbert},
    Family{"m2m_100", read_m2m100},      Family{"marian", read_marian},
    Family{"mbart", read_bart},          Family{"modernbert", read_modernbert},
    Family{"mpnet", read_mpnet},         Family{"mt5", read_t5},
    Family{"roberta", read_roberta},     Family{"t5", read_t5},
    Family{"xlm-roberta", read_roberta},
};

const Family& family_of(const std::string& model_type, const std::string& where) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return family;
    known.append(known.empty() ? "" : ", ").append(family.model_type);
  }
  fail("load", where, ": a model_type that heed knows (", known, "); found \"", model_type, "\"");
}

// Files of 2019 name the parameters of a norm gamma and beta.
Weights with_current_names(const Weights& weights) {
  Weights result;
  for (const auto& [name, tensor] : weights) {
    std::string current = name;
    if (name.ends_with("LayerNorm.gamma")) current.replace(name.size() - 5, 5, "weight");
    if (name.ends_with("LayerNorm.beta")) current.replace(name.size() - 4, 4, "bias");
    result[current] = tensor;
  }
  return result;
}

// The family that the file names. Throws Error, too, for weights that are quantised.
const Family& family_in(Keys& keys) {
  const Family& family = family_of(keys.word("model_type", ""), keys.where());
  require(!keys.has("quantization_config"), "load", keys.where(),
          ": weights that are not quantised; found \"quantization_config\"");
  return family;
}

// What a folder says: its design and its weights, none of them checked against the other.
struct Reading {
  Design design;
  Weights weights;
};

Reading read_folder(const std::filesystem::path& folder, const io::Json& object) {
  const std::string where = (folder / "config.json").string();
  Keys keys(object, where);
  const Family& family = family_in(keys);  // before the weights are looked for
  Reading reading{.design = {}, .weights = read_current_weights(folder)};
  // As in sentence-transformers, a T5 with modules.json is its encoder, also where the file has its decoder.
  if (family.read == read_t5 && (has_sentence_modules(folder) || is_sentence_transformer(folder)))
    std::erase_if(reading.weights, [](const auto& entry) { return entry.first.starts_with("decoder."); });
  reading.design = read_design(object, where, reading.weights);
  return reading;
}

}  // namespace

Weights read_current_weights(const std::filesystem::path& folder) {
  return with_current_names(io::read_weights(folder).tensors);
}

Design read_design(const io::Json& object, const std::string& where, const Weights& weights) {
  Keys keys(object, where);
  Design design = family_in(keys).read(keys, weights);
  keys.finish();
  try {
    design.config.validate();
  } catch (const Error& error) {
    fail("load", where, ": ", error.what());
  }
  return design;
}

Config read_family_config(const std::filesystem::path& folder, const io::Json& object) {
  if (is_rounded(object)) return read_rounded_config(folder, object);
  return read_folder(folder, object).design.config;
}

std::unique_ptr<Model> load_family(const std::filesystem::path& folder, const io::Json& object,
                                   const std::string& config_json, const LoadOptions& options) {
  if (is_rounded(object)) return load_rounded(folder, object, config_json, options);
  const auto [design, weights] = read_folder(folder, object);
  auto origin = std::make_shared<Origin>();
  origin->config_json = config_json;
  origin->design = design;
  for (const auto& [name, tensor] : weights) origin->forms[name] = {.dtype = tensor.dtype(), .shape = tensor.shape()};
  const Config& config = origin->design.config;
  check_plausible(config, weights, folder.string());
  std::unique_ptr<Model> model = create(config);
  take_weights(*model, origin->design, weights, folder.string(), Keep(*model, options));
  model->set_origin(std::move(origin));
  return model;
}

void save_family(const Model& model, const std::filesystem::path& folder) {
  if (model.packed_as(WeightFormat::int8)) return save_rounded(model, folder);
  require(!was_rounded(model), "save", "weights as they are in the folder, in int8; found them in f32");
  const Origin& origin = *model.origin();
  const io::Tensors tensors = weights_of(model, origin);
  // transformers reads no file without "format"; "pt" is what it writes itself.
  io::write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}, {kChecksumKey, checksum(tensors)}});
  io::write_file_atomically(folder / "config.json", origin.config_json);
}

}  // namespace heed::models
