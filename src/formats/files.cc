// The parts of heed/io.h that are about files as such.
#include "base/files.h"
#include "heed/error.h"
#include "heed/io.h"

namespace heed::io {

Tensors read_arrays(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  if (ending == ".safetensors") return read_safetensors(file).tensors;
  if (ending == ".npz") return read_npz(file);
  if (ending == ".npy") return {{"array", read_npy(file)}};
  fail("read_arrays", files::quoted(file), ": a name ending in .safetensors, .npz or .npy");
}

std::string read_file(const std::filesystem::path& file, int64_t limit) {
  return files::read_all(file, limit, "read_file");
}

void write_file_atomically(const std::filesystem::path& file, std::string_view contents) {
  files::write_atomically(file, contents, "write_file");
}

}  // namespace heed::io
