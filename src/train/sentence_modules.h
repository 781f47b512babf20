// The modules of sentence-transformers beside a model that is trained.
#pragma once

#include <filesystem>

#include "train/start.h"

namespace heed::train {

// How `start` pools its states, and how long its texts may be, as the files in `folder` say; the mean of all tokens
// where there is no modules.json. Throws Error for modules that cannot be trained.
void read_modules(const Recipe& recipe, const std::filesystem::path& folder, Start& start);

// Copies modules.json and what it names. A model of others without one gets a modules.json that pools as training does.
void write_modules(const models::Model& model, const std::filesystem::path& from, const std::filesystem::path& to);

// What a training that starts from recipe.from takes over beside the model: the tokenizer, and modules where it needs
// them.
void copy_beside_model(const Recipe& recipe, const models::Model& model, const std::filesystem::path& to);

}  // namespace heed::train
