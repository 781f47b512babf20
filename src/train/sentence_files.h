// The tensors of a sentence model in files: those of the encoder, and of the Dense modules beside it.
#pragma once

#include <filesystem>
#include <string>

#include "heed/io.h"
#include "models/sentence_folder.h"

namespace heed::train {

[[nodiscard]] bool is_dense_module(const models::SentenceModule& module);
// "2_Dense", of a module of a sentence model in `folder`.
[[nodiscard]] std::string folder_below(const models::SentenceModule& module, const std::filesystem::path& folder);

// The tensors of the Dense modules of a folder with modules.json, or of a checkpoint, as "2_Dense/linear.weight": no
// encoder's tensor has a name with a slash.
[[nodiscard]] io::Tensors read_dense_tensors(const std::filesystem::path& folder);
// Into the modules' folders below `to`.
void write_dense_tensors(const io::Tensors& dense, const std::filesystem::path& to);

// model.safetensors of a folder, or of a checkpoint, and read_dense_tensors().
[[nodiscard]] io::Tensors read_whole_model(const std::filesystem::path& folder);
// Of such tensors those of the Dense modules, and all others.
struct ModelParts {
  io::Tensors encoder, dense;
};
[[nodiscard]] ModelParts parts_of_model(const io::Tensors& all);

// The file of a checkpoint that has the Dense modules' tensors.
inline constexpr const char* kDenseFile = "modules.safetensors";

}  // namespace heed::train
