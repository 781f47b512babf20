// Files of arrays: safetensors, .npy and .npz, read through one checked reader and written atomically.
//
// Nothing is allocated before it has been checked against the size of the file. A malformed file is an Error that names
// the file, the place and what was expected.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"
#include "heed/tensor.h"

HEED_EXPORT_BEGIN
namespace heed::io {

using Tensors = std::map<std::string, Tensor>;

struct SafetensorsFile {
  Tensors tensors;
  std::map<std::string, std::string> metadata;
};
[[nodiscard]] SafetensorsFile read_safetensors(const std::filesystem::path& file);
// Writes a new file beside `file`, syncs it and renames it over `file`. Until then an existing file stays whole.
void write_safetensors(const std::filesystem::path& file, const Tensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

// One array. Fortran order is accepted (and becomes strides); object arrays and big-endian data are refused.
[[nodiscard]] Tensor read_npy(const std::filesystem::path& file);
void write_npy(const std::filesystem::path& file, const Tensor& tensor);
// Stored or deflated members.
[[nodiscard]] Tensors read_npz(const std::filesystem::path& file);
void write_npz(const std::filesystem::path& file, const Tensors& tensors);

// By the ending: .safetensors, .npz, or .npy (one array named "array").
[[nodiscard]] Tensors read_arrays(const std::filesystem::path& file);

// A whole file, at most `limit` bytes.
[[nodiscard]] std::string read_file(const std::filesystem::path& file, int64_t limit = int64_t{1} << 32);
// Writes a file beside `file`, syncs it, renames it over `file`, and syncs the directory. On an Error ("no space left
// on device", ...) the old file stays whole.
void write_file_atomically(const std::filesystem::path& file, std::string_view contents);

}  // namespace heed::io
HEED_EXPORT_END
