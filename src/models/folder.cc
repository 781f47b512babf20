// Folders: config.json and model.safetensors.
#include <system_error>

#include "heed/error.h"
#include "models/weights.h"

namespace heed::models {
namespace {

constexpr int64_t kConfigLimit = int64_t{1} << 20;  // bytes of a config.json

// Before memory is taken for a configuration from a file, its weights must roughly be there: a few wrong sizes still
// lead to the message about the tensor concerned.
void check_plausible(const Config& config, const io::SafetensorsFile& file, const std::string& where) {
  constexpr int64_t kSlack = int64_t{1} << 24;
  int64_t held = 0;
  for (const auto& [name, tensor] : file.tensors) held += tensor.numel();
  const int64_t expected = cost(config, 1, 1, 1).parameters;
  require(expected <= 2 * held + kSlack, where, expected, " parameters, as config.json describes; found ", held);
}

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
  io::Tensors tensors;
  for (const auto& [path, value] : model.named_parameters()) tensors[path] = value.data();
  io::write_safetensors(folder / "model.safetensors", tensors,
                        {{"format", kFormat}, {kChecksumKey, checksum(tensors)}});
  io::write_file_atomically(folder / "config.json", to_json(model.config()));
}

void require_model_folder(const std::filesystem::path& folder, std::string_view function) {
  std::error_code ignored;
  require(std::filesystem::is_directory(folder, ignored), function, "a model folder at ", folder.string(), "; found ",
          std::filesystem::exists(folder, ignored) ? "a file" : "nothing");
  for (const char* const file : {"config.json", "model.safetensors"}) {
    require(std::filesystem::exists(folder / file, ignored), function, "a model folder at ", folder.string(),
            "; found no ", file, " there");
  }
}

std::unique_ptr<Model> load(const std::filesystem::path& folder) {
  require_model_folder(folder, "load");
  const auto config_file = folder / "config.json", weights_file = folder / "model.safetensors";
  const Config config = config_from_json(io::read_file(config_file, kConfigLimit), config_file.string());
  const io::SafetensorsFile weights = io::read_safetensors(weights_file);
  check_plausible(config, weights, weights_file.string());
  std::unique_ptr<Model> model = create(config);
  take_weights(*model, weights, weights_file.string());
  return model;
}

}  // namespace heed::models
