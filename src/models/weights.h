// Weights in files: what folder.cc and tests of it share.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "heed/io.h"
#include "heed/models.h"

namespace heed::models {

// Who speaks in the messages about weights; `where` is the file or folder.
inline constexpr const char* kLoader = "load";

// Throws Error in the name of `function` unless `folder` is one with a config.json.
void require_model_folder(const std::filesystem::path& folder, std::string_view function);

// The same unless the folder has that file.
void require_file(const std::filesystem::path& folder, const char* file, std::string_view function);

// How a model that is loaded keeps its weights. Those that pack() packs are packed one by one, as they are read, so
// that one of them at a time is in memory twice; in int8 none is in f32.
class Keep {
 public:
  Keep() = default;  // as rows
  Keep(const Model& model, const LoadOptions& options);
  // `stored`: what a file has for `parameter`, in f32, f16 or bf16. It is checked as check_finite() does.
  void operator()(const Value& parameter, const Tensor& stored, const std::string& where, const std::string& name,
                  int64_t first = 0) const;
  [[nodiscard]] bool packs() const { return !packed_.empty(); }

 private:
  std::vector<Value> packed_;
  WeightFormat format_ = WeightFormat::f32;
};

// Takes the tensors of `file` (named `where` in messages) as the weights of `model`, each under its own path. Where an
// error is thrown, the model is as before; but with a `keep` that packs, some of its weights may be new.
void take_weights(const Model& model, const io::SafetensorsFile& file, const std::string& where, const Keep& keep = {});
// The same under the names of another tool.
void take_weights(const Model& model, const io::SafetensorsFile& file, const std::string& where,
                  const NameMapping& mapping);

// The tensor of that name, in f32, f16 or bf16. Throws Error where there is none.
[[nodiscard]] Tensor find_weight(const io::Tensors& tensors, const std::string& where, const std::string& name);
// Throws Error for NaN and infinities. `first` is the number of the tensor's first element, for the message.
void check_finite(const Tensor& tensor, const std::string& where, const std::string& name, int64_t first = 0);
// A copy in f32 with memory of its own. What is copied from a mapped file is given back piece by piece, so that a model
// and its file are not in memory at the same time.
[[nodiscard]] Tensor own_copy(const Tensor& stored);
// Before memory is taken for a configuration from a file, its weights must roughly be there: a few wrong sizes still
// lead to the message about the tensor concerned.
void check_plausible(const Config& config, const io::Tensors& tensors, const std::string& where);
// The parameters as save() writes them, each under its path. One whose weight is packed in int8 is three tensors: the
// numbers, i8, the scales of its rows, f32, under the path and kScaleEnding, and the balance of its columns, f32, under
// the path and kBalanceEnding (which a file may lack). Beside them, what fits f16 is in f16.
[[nodiscard]] io::Tensors tensors_of(const Model& model);
inline constexpr const char* kScaleEnding = ".scale";
inline constexpr const char* kBalanceEnding = ".balance";

// The metadata key under which save() writes checksum(): what tells a flipped bit in a weight from a trained one.
inline constexpr const char* kChecksumKey = "heed.checksum";
inline constexpr const char* kFormat = "heed";  // metadata "format" of a file that save() wrote

// 16 hexadecimal digits over names, shapes and contents. Every single changed bit changes it.
[[nodiscard]] std::string checksum(const io::Tensors& tensors);

}  // namespace heed::models
