// Files of arrays: safetensors, .npy and .npz, read through one checked reader and written atomically; the weights of
// other people's models.
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
// The file is mapped into memory: each number is read when it is first used, and the tensors keep the mapping alive.
// Writing into a tensor changes this process's copy, never the file. A file that is replaced by another one of its name
// (as heed does) stays what it was. Who writes into the file itself changes numbers that have not been used yet; who
// makes it shorter ends the program with SIGBUS when they are used. clone() what must survive that.
[[nodiscard]] SafetensorsFile read_safetensors(const std::filesystem::path& file);
// Writes a new file beside `file`, syncs it and renames it over `file`. Until then an existing file stays whole.
void write_safetensors(const std::filesystem::path& file, const Tensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

// The weights of a folder as Hugging Face's tools write it: model.safetensors, or else the shards that
// model.safetensors.index.json names. Index and shards must name the same tensors. `metadata` is what all shards agree
// on. Quantised and sparse weights are refused by name. Where a folder has pytorch_model.bin instead, or its shards,
// they are read only where that is allowed; else the Error says how to convert them.
[[nodiscard]] SafetensorsFile read_weights(const std::filesystem::path& folder);
// As long as one lives, read_weights() of this thread reads PyTorch's files too. It must end in the thread, and in the
// order, in which it began.
class PytorchAllowed {
 public:
  PytorchAllowed();
  ~PytorchAllowed();
  PytorchAllowed(const PytorchAllowed&) = delete;
  PytorchAllowed& operator=(const PytorchAllowed&) = delete;

 private:
  bool before_;
};

// A table of names and tensors that torch.save() wrote (pytorch_model.bin), in its zip format or the one before PyTorch
// 1.6. Such a file is a pickle, which can name any function of Python for its reader to call. Nothing is called here:
// other names than those of tensors are refused. The tensors may keep the file mapped, as those of read_safetensors(),
// and two tensors of one storage (tied weights) may share their memory.
[[nodiscard]] Tensors read_pytorch(const std::filesystem::path& file);

// CTranslate2's model.bin, of the versions 2 to 6. 8-bit weights become f32, by their scales; 16-bit ones are refused.
// Settings, which are numbers of rank 0, are tensors like the others. `metadata` has "spec" and "revision".
[[nodiscard]] SafetensorsFile read_ctranslate2(const std::filesystem::path& file);

// The folder of a model: `name` itself where something is there. Else the files of "ORG/NAME" or "NAME" in the cache of
// Hugging Face's tools on this machine (HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HOME). Nothing is
// ever downloaded: the Error for a model that is not there has the command that does it. `cache`, if given, is looked
// into instead.
[[nodiscard]] std::filesystem::path find_model_folder(const std::string& name, const std::filesystem::path& cache = {});

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
