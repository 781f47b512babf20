// The mean of several models.
#include "train/average.h"

#include <algorithm>

#include "base/files.h"
#include "formats/json.h"
#include "formats/weights.h"
#include "heed/error.h"
#include "heed/models.h"
#include "heed/text.h"
#include "heed/train.h"
#include "models/sentence_folder.h"
#include "models/weights.h"
#include "train/run_folder.h"
#include "train/sentence_files.h"
#include "train/sentence_modules.h"

namespace heed::train {

namespace fs = std::filesystem;

io::Tensors mean_of(std::span<const fs::path> files) {
  require(!files.empty(), "average", "one model or more; found none");
  io::Tensors first = read_whole_model(files[0].parent_path());
  std::map<std::string, std::vector<double>> sums;
  for (const auto& [name, tensor] : first) sums[name].resize(static_cast<size_t>(tensor.numel()));
  for (const fs::path& file : files) {
    const io::Tensors tensors = read_whole_model(file.parent_path());
    const auto int8 =
        std::ranges::find_if(tensors, [](const auto& entry) { return entry.second.dtype() == DType::i8; });
    require(int8 == tensors.end(), "average", files::quoted(file), ": ", int8->first,
            " in f32, f16 or bf16; found int8, whose numbers cannot be averaged");
    require(tensors.size() == first.size(), "average", files::quoted(file), ": the ", first.size(), " parameters of ",
            files::quoted(files[0]), "; found ", tensors.size());
    for (const auto& [name, tensor] : tensors) {
      const auto expected = first.find(name);
      require(expected != first.end(), "average", files::quoted(file), ": the parameters of ", files::quoted(files[0]),
              "; found another, ", name);
      require(tensor.shape() == expected->second.shape(), "average", files::quoted(file), ": ", name, " of shape ",
              expected->second.shape(), "; found ", tensor.shape());
      const Tensor values = tensor.to(DType::f32).contiguous();
      const float* x = values.data<float>();
      std::vector<double>& sum = sums[name];
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(x[i]);
    }
  }
  io::Tensors mean;
  for (auto& [name, sum] : sums) {
    Tensor tensor = Tensor::empty(first.at(name).shape());
    float* out = tensor.data<float>();
    for (size_t i = 0; i < sum.size(); ++i) out[i] = static_cast<float>(sum[i] / static_cast<double>(files.size()));
    mean.emplace(name, std::move(tensor));
  }
  return mean;
}

namespace {

// The tokenizer's files of a model folder; of a checkpoint, those of its run, two folders above it.
std::vector<fs::path> tokenizer_of(const fs::path& model) {
  std::vector<fs::path> found;
  for (const fs::path& place : {model, model / ".." / ".."}) {
    std::error_code ignored;
    for (const char* const name : tokenizer_files())
      if (fs::is_regular_file(place / name, ignored)) found.push_back(place / name);
    if (!found.empty()) break;
  }
  return found;
}

// Throws Error for a tokenizer that cannot be read, if there is one.
void require_tokenizer(const fs::path& model, models::Architecture architecture) {
  const std::vector<fs::path> found = tokenizer_of(model);
  if (found.empty()) return;
  const fs::path folder = found.front().parent_path();
  using models::Architecture;
  if (architecture != Architecture::decoder_only) (void)text::Tokenizer::load(folder, text::Side::source);
  if (architecture != Architecture::encoder_only) (void)text::Tokenizer::load(folder, text::Side::target);
}

// Dropout rates change no result of a model that is trained.
std::string essence_of(const fs::path& folder) {
  models::Config config = models::read_config(folder);
  config.dropout = config.attention_dropout = config.activation_dropout = 0;
  return models::to_json(config);
}

// Weights of the same shapes may belong to models that compute otherwise, and rows to other tokens.
void require_same_model(const fs::path& first, const fs::path& other) {
  require(essence_of(other) == essence_of(first), "average", files::quoted(other / "config.json"), ": the model of ",
          files::quoted(first), "; found another one");
  const std::vector<fs::path> theirs = tokenizer_of(other);
  for (const fs::path& file : tokenizer_of(first)) {
    const auto same = std::ranges::find(theirs, file.filename(), [](const fs::path& one) { return one.filename(); });
    if (same == theirs.end()) continue;
    require(io::read_file(file) == io::read_file(*same), "average", files::quoted(*same),
            ": the tokenizer of the first model; found another one");
  }
}

// The metadata "format" of weights beside this config.json: transformers reads no file without its own.
std::string format_beside(const std::string& config) {
  const io::ParsedJson parsed = io::parse_json(config);
  return parsed.value.is_object() && parsed.value.contains("model_type") ? "pt" : models::kFormat;
}

}  // namespace

void copy_tokenizer(const fs::path& model, const fs::path& output) {
  for (const fs::path& file : tokenizer_of(model)) {
    const fs::path copy = output / file.filename();
    std::error_code ignored;
    if (!fs::equivalent(file, copy, ignored)) io::write_file_atomically(copy, io::read_file(file));
  }
}

void average_models(std::span<const fs::path> folders, const fs::path& output, const AverageOptions& options) {
  const DType dtype = options.dtype;
  require(!folders.empty(), "average", "one model folder or more; found none");
  std::error_code error;
  for (const fs::path& folder : folders) {
    models::require_model_folder(folder, "average");
    models::require_file(folder, "model.safetensors", "average");
    require(!fs::equivalent(folder, output, error), "average", files::quoted(output),
            ": a folder other than those of the models; found one of them, which would be written over");
  }
  require(options.overwrite || fs::is_empty(output, error) || error, "average", files::quoted(output),
          ": a new or empty folder; found files in it, and AverageOptions::overwrite is not set");
  std::vector<fs::path> files;
  for (const fs::path& folder : folders) files.push_back(folder / "model.safetensors");
  require_tokenizer(folders[0], models::read_config(folders[0]).architecture);
  for (const fs::path& folder : folders) require_same_model(folders[0], folder);
  const std::string config = io::read_file(folders[0] / "config.json", int64_t{1} << 20);
  require(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16, "average",
          "weights in f32, f16 or bf16; found ", dtype);
  io::Tensors mean = mean_of(files);
  for (auto& [name, tensor] : mean) tensor = tensor.to(dtype);
  const bool is_checkpoint = fs::exists(folders[0] / "state.json", error);  // and lies two below its run
  std::vector<fs::path> stale = io::safetensors_shards(output);
  stale.insert(stale.end(), tokenizer_files().begin(), tokenizer_files().end());
  files::write_folder(output, "average", stale, [&](const fs::path& to) {
    copy_tokenizer(folders[0], to);
    const fs::path beside = is_checkpoint ? folders[0] / ".." / ".." : folders[0];
    if (!copy_modules(beside, to) && !copy_cross_encoder(beside, to)) copy_settings(beside, to);
    const auto [encoder, dense] = parts_of_model(mean);
    write_dense_tensors(dense, to);
    io::write_file_atomically(to / "config.json", config);
    io::write_safetensors(to / "model.safetensors", encoder,
                          {{"format", format_beside(config)}, {models::kChecksumKey, models::checksum(encoder)}});
  });
}

}  // namespace heed::train
