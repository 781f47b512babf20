// The modules of sentence-transformers beside a model that is trained.
#pragma once

#include <filesystem>

#include "train/start.h"

namespace heed::train {

// The Pooling of a model of others that had no modules.
inline constexpr const char* kMeanPooling = "1_Pooling";

// How `start` pools its states, as the files in `folder` say; the mean of all tokens where there is no modules.json.
// Dense modules become a part of the model. Throws Error for modules that cannot be trained.
void read_modules(const Recipe& recipe, const std::filesystem::path& folder, Start& start);

// Copies the settings of the encoder alone: how long a text may be.
void copy_settings(const std::filesystem::path& from, const std::filesystem::path& to);

// Copies modules.json and the settings of what it names, where it is there.
bool copy_modules(const std::filesystem::path& from, const std::filesystem::path& to);

// The same with the Dense modules' weights. A model of others without modules.json gets one that pools as training
// does.
void write_modules(const models::Model& model, const std::filesystem::path& from, const std::filesystem::path& to);

// Copies the settings of a cross-encoder, its prompts among them, where there are some.
bool copy_cross_encoder(const std::filesystem::path& from, const std::filesystem::path& to);
// The same for a model that comes of a training: config.json alone says what its scores are.
void write_cross_encoder(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace heed::train
