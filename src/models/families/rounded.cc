#include "models/families/rounded.h"

#include <algorithm>

#include "heed/error.h"
#include "models/families/weights.h"
#include "models/weights.h"

namespace heed::models {
namespace {

constexpr const char* kKey = "quantization_config";
constexpr const char* kMadeBy = "made_by";
constexpr const char* kConfigKey = "heed.config";     // metadata: heed's configuration
constexpr const char* kSourceKey = "heed.config_of";  // metadata: digest() of config.json

// Of what the file says, however it is spaced.
std::string digest(const io::Json& object) {
  const std::string text = io::json_text(object, 0);
  const Tensor bytes = Tensor::empty({static_cast<int64_t>(text.size())}, DType::u8);
  std::copy(text.begin(), text.end(), static_cast<char*>(bytes.raw()));
  return checksum({{"config.json", bytes}});
}

std::filesystem::path weights_of_folder(const std::filesystem::path& folder) { return folder / "model.safetensors"; }

Config config_in(const io::SafetensorsFile& file, const std::filesystem::path& folder, const io::Json& object) {
  const std::string where = weights_of_folder(folder).string();
  const auto config = file.metadata.find(kConfigKey), source = file.metadata.find(kSourceKey);
  require(config != file.metadata.end() && source != file.metadata.end(), kLoader, where, ": metadata with \"",
          kConfigKey, "\" and \"", kSourceKey,
          "\", because config.json says that heed has rounded these weights; found none");
  require(source->second == digest(object), kLoader, (folder / "config.json").string(),
          ": what heed wrote beside the weights in int8; found another file (change the folder that they were made "
          "from, and convert it again)");
  return config_from_json(config->second, where + ", \"" + kConfigKey + "\"");
}

}  // namespace

bool is_rounded(const io::Json& object) {
  const auto found = object.find(kKey);
  return found != object.end() && found->is_object() && found->value(kMadeBy, io::Json()) == kFormat;
}

Config read_rounded_config(const std::filesystem::path& folder, const io::Json& object) {
  require_file(folder, "model.safetensors", kLoader);
  return config_in(io::read_safetensors(weights_of_folder(folder)), folder, object);
}

std::unique_ptr<Model> load_rounded(const std::filesystem::path& folder, const io::Json& object,
                                    const std::string& config_json, const LoadOptions& options) {
  require_file(folder, "model.safetensors", kLoader);
  const std::string where = weights_of_folder(folder).string();
  const io::SafetensorsFile file = io::read_safetensors(weights_of_folder(folder));
  auto origin = std::make_shared<Origin>();
  origin->config_json = config_json;
  origin->design.config = config_in(file, folder, object);
  check_plausible(origin->design.config, file.tensors, where);
  std::unique_ptr<Model> model = create(origin->design.config);
  take_weights(*model, file, where, Keep(*model, options));
  model->set_origin(std::move(origin));
  return model;
}

void save_rounded(const Model& model, const std::filesystem::path& folder) {
  io::Json object = io::parse_json(model.origin()->config_json).value;
  object[kKey] = {{kMadeBy, kFormat}, {"bits", 8}};  // no "quant_method": see the header
  const io::Tensors tensors = tensors_of(model);
  io::write_safetensors(folder / "model.safetensors", tensors,
                        {{"format", kFormat},
                         {kChecksumKey, checksum(tensors)},
                         {kConfigKey, to_json(model.config())},
                         {kSourceKey, digest(object)}});
  io::write_file_atomically(folder / "config.json", io::json_text(object, 2) + "\n");
}

bool was_rounded(const Model& model) { return model.origin() != nullptr && model.origin()->design.names.empty(); }

}  // namespace heed::models
