#include "models/families/families.h"

#include <array>

#include "heed/error.h"
#include "models/families/rounded.h"
#include "models/families/weights.h"
#include "models/sentence_folder.h"
#include "models/weights.h"

namespace heed::models {
namespace {

constexpr TiedNames kBartTied{"model.", kSharedTable, "lm_head.weight"};
constexpr TiedNames kT5Tied{"", kSharedTable, "lm_head.weight"};
constexpr TiedNames kBertTied{"bert.", kWordTable, "cls.predictions.decoder.weight"};
constexpr TiedNames kDistilBertTied{"distilbert.", kWordTable, "vocab_projector.weight"};
constexpr TiedNames kModernBertTied{"model.", "embeddings.tok_embeddings.weight", "decoder.weight"};
constexpr TiedNames kMpnetTied{"mpnet.", kWordTable, "lm_head.decoder.weight"};
constexpr TiedNames kRobertaTied{"roberta.", kWordTable, "lm_head.decoder.weight"};

constexpr std::array kFamilies = {
    Family{"bart", read_bart, kBartTied},
    Family{"bert", read_bert, kBertTied},
    Family{"camembert", read_roberta, kRobertaTied},
    Family{"distilbert", read_distilbert, kDistilBertTied},
    Family{"m2m_100", read_m2m100, kBartTied},
    Family{"marian", read_marian, kBartTied},
    Family{"mbart", read_bart, kBartTied},
    Family{"modernbert", read_modernbert, kModernBertTied},
    Family{"mpnet", read_mpnet, kMpnetTied},
    Family{"mt5", read_t5, kT5Tied},
    Family{"roberta", read_roberta, kRobertaTied},
    Family{"t5", read_t5, kT5Tied},
    Family{"xlm-roberta", read_roberta, kRobertaTied},
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

// A file may have a table that is tied under the output's name alone: safetensors' save_model() keeps the first name of
// a shared tensor in the order of the alphabet. It gets its other name.
void name_tied_table(Weights& weights, const io::Json& object, const TiedNames& names) {
  const bool is_tied = object.value("tie_word_embeddings", io::Json()) != false;
  const auto output = weights.find(std::string(names.output));
  if (!is_tied || output == weights.end()) return;
  const std::string prefix(prefix_in(weights, names.prefix));
  const auto has = [&](std::string_view table) { return weights.contains(prefix + std::string(table)); };
  // A table for each side: the output's is the decoder's.
  const bool apart = object.value("share_encoder_decoder_embeddings", io::Json()) == false && has(kEncoderTable);
  if (has(names.table) || has(kDecoderTable) || (has(kEncoderTable) && !apart)) return;
  weights[prefix + std::string(apart ? std::string_view(kDecoderTable) : names.table)] = output->second;
  weights.erase(output);
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
  name_tied_table(reading.weights, object, family.tied);
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
