// The model that a training starts from (recipe.from): its weights, its configuration and its tokenizers.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "heed/generate.h"
#include "heed/io.h"
#include "heed/train.h"
#include "train/data.h"
#include "train/examples.h"

namespace heed::train {

// What stands around the texts of a model, and how its masked tokens look.
struct Frames {
  Frame source = {}, target = {};  // of an encoder-only model: source
  text::Ids prefix = {};           // what every translation begins with
  int32_t mask_id = -1;
  int64_t first_drawn = 4;  // ids below do not replace a masked token
};
[[nodiscard]] text::SpecialIds special_of(const models::Config& config);

// As their tokenizers spell them; both empty for models that do not name languages.
struct Languages {
  std::string source, target;
};
// Of heed's own models their special ids; of models of others what their tokenizers put around a text. `target` is
// null for encoder-only models. Models of several languages (M2M100, NLLB, mBART) read and write with the tokens of
// `languages`. Throws Error where these are missing, unknown, or given for another model.
[[nodiscard]] Frames frames_of(const models::Model& model, const text::Tokenizer& source, const text::Tokenizer* target,
                               const Languages& languages = {});

struct Start {
  std::unique_ptr<models::Model> model;
  std::shared_ptr<const text::Tokenizer> source, target;  // as in Corpus
  Frames frames;
  std::shared_ptr<const Contrast> contrast;     // sentence_embedding
  Reading reading;                              // of texts that are wholes
  std::optional<generate::BeamOptions> search;  // what the folder says of searches; where BLEU is computed
  std::string note;                             // of a head that was replaced; empty: none was
};
// Reads the model of `folder` and the tokenizers of `tokenizers` (a checkpoint has none of its own), and sets what they
// decide in `recipe`: its model, with the recipe's dropout rates, and its tokenizer. Throws Error, naming the key, for
// what contradicts them.
[[nodiscard]] Start load_start(Recipe& recipe, const std::filesystem::path& folder,
                               const std::filesystem::path& tokenizers);

// The folder that recipe.from names. Throws Error where there is none.
[[nodiscard]] std::filesystem::path start_folder(const Recipe& recipe);

// Writes what a training that starts from recipe.from takes over beside the model: the tokenizer, the settings of a
// search, and modules where it needs them.
void copy_beside_model(const Recipe& recipe, const Start& start, const std::filesystem::path& to);

// Throws Error where one of the recipes starts from a model and the other, that of a checkpoint as JSON, does not.
void require_same_start(const Recipe& recipe, const std::string& recorded);

// A model's folder as the layout of its origin has it, or heed's own: config.json, and the tensors of
// model.safetensors in f32 and back. Dense modules that are trained count as a part of the model (sentence_model.h).
[[nodiscard]] std::string config_text(const models::Model& model);
[[nodiscard]] io::Tensors tensors_in_file(const models::Model& model);
[[nodiscard]] io::Tensors own_tensors(const models::Model& model, io::Tensors in_file, const std::string& where);
void save_model(const models::Model& model, const std::filesystem::path& folder);
// The metadata "format" of the file.
[[nodiscard]] std::string file_format(const models::Model& model);

}  // namespace heed::train
