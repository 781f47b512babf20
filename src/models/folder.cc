// Folders: config.json and model.safetensors.
#include <system_error>

#include "formats/json.h"
#include "heed/error.h"
#include "heed/memory.h"
#include "models/ctranslate2.h"
#include "models/families/families.h"
#include "models/weights.h"

namespace heed::models {
namespace {

constexpr int64_t kConfigLimit = int64_t{1} << 20;  // bytes of a config.json

}  // namespace

std::unique_ptr<Model> create(const Config& config, uint64_t seed) {
  switch (config.architecture) {
    case Architecture::encoder_decoder: return std::make_unique<Transformer>(config, seed);
    case Architecture::decoder_only: return std::make_unique<Gpt>(config, seed);
    case Architecture::encoder_only: return std::make_unique<Bert>(config, seed);
  }
  fail("create", "a known architecture; found number ", static_cast<int>(config.architecture));
}

void save(const Model& model, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, "save", "a folder at ", folder.string(), "; found: ", error.message());
  if (model.origin() != nullptr) return save_family(model, folder);
  const io::Tensors tensors = tensors_of(model);
  io::write_safetensors(folder / "model.safetensors", tensors,
                        {{"format", kFormat}, {kChecksumKey, checksum(tensors)}});
  io::write_file_atomically(folder / "config.json", to_json(model.config()));
}

void require_file(const std::filesystem::path& folder, const char* file, std::string_view function) {
  std::error_code ignored;
  require(std::filesystem::exists(folder / file, ignored), function, "a model folder at ", folder.string(),
          "; found no ", file, " there");
}

void require_model_folder(const std::filesystem::path& folder, std::string_view function) {
  std::error_code ignored;
  require(std::filesystem::is_directory(folder, ignored), function, "a model folder at ", folder.string(), "; found ",
          std::filesystem::exists(folder, ignored) ? "a file" : "nothing");
  require_file(folder, "config.json", function);
}

namespace {

// Of a configuration that others wrote: heed's own have no "model_type".
bool is_family(const io::ParsedJson& config) {
  return config.problem.empty() && config.value.is_object() && config.value.contains("model_type");
}

void require_own_weights(const std::filesystem::path& folder, const char* function) {
  std::error_code ignored;
  require(std::filesystem::exists(folder / "model.safetensors", ignored) ||
              (!std::filesystem::exists(folder / "pytorch_model.bin", ignored) &&
               !std::filesystem::exists(folder / "pytorch_model.bin.index.json", ignored)),
          function, (folder / "config.json").string(),
          ": the key \"model_type\", as Hugging Face writes it; found none");
  require(!is_ctranslate2_folder(folder), function, folder.string(),
          ": model.safetensors; found model.bin of CTranslate2. This writes it anew: heed convert MODEL NEW_FOLDER "
          "(in Python: heed.convert(MODEL, NEW_FOLDER))");
  require_file(folder, "model.safetensors", function);
}

std::unique_ptr<Model> load_own(const std::filesystem::path& folder, const std::string& config_json,
                                const LoadOptions& options) {
  require_own_weights(folder, "load");
  const auto weights_file = folder / "model.safetensors";
  const Config config = config_from_json(config_json, (folder / "config.json").string());
  const io::SafetensorsFile weights = io::read_safetensors(weights_file);
  check_plausible(config, weights.tensors, weights_file.string());
  std::unique_ptr<Model> model = create(config);
  take_weights(*model, weights, weights_file.string(), Keep(*model, options));
  return model;
}

}  // namespace

Config read_config(const std::filesystem::path& folder) {
  require_model_folder(folder, "read_config");
  const auto file = folder / "config.json";
  const std::string text = io::read_file(file, kConfigLimit);
  if (const io::ParsedJson parsed = io::parse_json(text); is_family(parsed)) {
    return read_family_config(folder, parsed.value);
  }
  require_own_weights(folder, "read_config");
  return config_from_json(text, file.string());
}

std::unique_ptr<Model> load(const std::filesystem::path& folder, const LoadOptions& options) {
  require_model_folder(folder, "load");
  require(options.packed || options.weights == WeightFormat::f32, "load",
          "packed weights where their format is not f32; found weights that are not packed");
  const std::string config = io::read_file(folder / "config.json", kConfigLimit);
  std::unique_ptr<Model> model;
  {
    const nn::Initializer::Skipped no_initial_weights;
    const io::ParsedJson parsed = io::parse_json(config);
    model = is_family(parsed) ? load_family(folder, parsed.value, config, options) : load_own(folder, config, options);
  }
  if (options.packed) {
    model->pack(options.weights);  // what was stored in int8 has no rows yet
  } else {
    for (const auto& [path, value] : model->named_parameters()) (void)value.data();  // what was stored in int8
  }
  release_cached_memory();  // the file's tensors, and rows that were packed
  return model;
}

}  // namespace heed::models
