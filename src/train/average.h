// The mean of several files of weights.
#pragma once

#include <filesystem>
#include <span>

#include "heed/io.h"

namespace heed::train {

// Of files model.safetensors, each with the Dense modules of its folder or checkpoint (sentence_model.h). Summed in the
// given order in double precision. Throws Error unless all files hold the same parameters.
[[nodiscard]] io::Tensors mean_of(std::span<const std::filesystem::path> files);

// The tokenizer's files (and generation_config.json) of a model folder, or of the run that a checkpoint belongs to.
void copy_tokenizer(const std::filesystem::path& model, const std::filesystem::path& output);

}  // namespace heed::train
