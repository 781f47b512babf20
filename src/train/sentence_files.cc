#include "train/sentence_files.h"

#include <map>
#include <system_error>

#include "base/files.h"
#include "heed/error.h"

namespace heed::train {

namespace fs = std::filesystem;

namespace {

constexpr char kSlash = '/';

}  // namespace

bool is_dense_module(const models::SentenceModule& module) { return module.kind == "Dense"; }

std::string folder_below(const models::SentenceModule& module, const fs::path& folder) {
  return module.folder.lexically_relative(folder).generic_string();
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
