// Weights: from the tensors of a file to the parameters of a model, with every check on the way.
#include "models/weights.h"

#include <cmath>
#include <set>

#include "heed/error.h"

namespace heed::models {
void check_finite(const Tensor& tensor, const std::string& where, const std::string& name) {
  const float* values = tensor.data<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    require(std::isfinite(values[i]), where, "finite weights; found ", values[i], " at element ", i, " of \"", name,
            "\"");
  }
}

Tensor find_weight(const io::Tensors& tensors, const std::string& where, const std::string& name) {
  const auto at = tensors.find(name);
  require(at != tensors.end(), where, "a tensor \"", name, "\"; found none of that name");
  const DType dtype = at->second.dtype();
  require(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16, where, "f32, f16 or bf16 in tensor \"",
          name, "\"; found ", dtype);
  return at->second.to(DType::f32);
}

void check_plausible(const Config& config, const io::Tensors& tensors, const std::string& where) {
  constexpr int64_t kSlack = int64_t{1} << 24;
  int64_t held = 0;
  for (const auto& [name, tensor] : tensors) held += tensor.numel();
  const int64_t expected = cost(config, 1, 1, 1).parameters;
  require(expected <= 2 * held + kSlack, where, expected, " parameters, as config.json describes; found ", held);
}

void take_weights(const Model& model, const io::SafetensorsFile& file, const std::string& where) {
  std::set<std::string> known;
  std::vector<std::pair<Value, Tensor>> taken;
  for (const auto& [path, parameter] : model.named_parameters()) {
    known.insert(path);
    const Tensor found = find_weight(file.tensors, where, path);
    taken.emplace_back(parameter, found);
    require(found.shape() == parameter.shape(), where, "shape ", parameter.shape(), " of tensor \"", path, "\"; found ",
            found.shape());
  }
  for (const auto& [name, tensor] : file.tensors) {
    require(known.contains(name), where, "only tensors of this configuration; found \"", name, "\"");
  }
  const auto written = file.metadata.find(kChecksumKey), format = file.metadata.find("format");
  if (written != file.metadata.end()) {
    const std::string computed = checksum(file.tensors);
    require(written->second == computed, where, "weights with the checksum ", written->second,
            " that was written with them; found ", computed, " (the file has changed since)");
  } else {
    require(format == file.metadata.end() || format->second != kFormat, where,
            "metadata with a checksum, as in every \"", kFormat, "\" file; found none");
  }
  for (const auto& [path, tensor] : file.tensors) check_finite(tensor.to(DType::f32), where, path);
  for (const auto& [parameter, tensor] : taken) parameter.set_data(tensor.clone());
}

void load_weights(Model& model, const std::filesystem::path& safetensors) {
  take_weights(model, io::read_safetensors(safetensors), safetensors.string());
}

void load_weights(Model& model, const std::filesystem::path& safetensors, const NameMapping& mapping) {
  const io::SafetensorsFile file = io::read_safetensors(safetensors);
  const std::string where = safetensors.string();
  std::map<std::string, int64_t> rows_taken;
  std::vector<std::pair<Value, Tensor>> taken;
  for (const auto& [path, parameter] : model.named_parameters()) {
    const NameMapping::Source source = mapping.find(path, model.config());
    const Tensor found = find_weight(file.tensors, where, source.name);
    const Shape& ours = parameter.shape();
    bool fits = found.rank() == ours.rank() && source.first_row >= 0 && source.first_row <= found.size(0) - ours[0];
    for (int axis = 1; fits && axis < ours.rank(); ++axis) fits = found.size(axis) == ours[axis];
    require(fits, where, "in tensor \"", source.name, "\" room for ", ours, " from row ", source.first_row, " (our \"",
            path, "\"); found ", found.shape());
    check_finite(found, where, source.name);
    rows_taken[source.name] += ours[0];
    taken.emplace_back(parameter, found.slice(0, source.first_row, source.first_row + ours[0]).clone());
  }
  for (const auto& [name, tensor] : file.tensors) {
    if (tensor.numel() == 1 && !rows_taken.contains(name)) continue;  // a setting stored as a number
    require(rows_taken.contains(name), where, "only tensors of this configuration; found \"", name, "\"");
    require(rows_taken[name] == tensor.size(0), where, "all rows of \"", name, "\" in use: ", rows_taken[name],
            "; found ", tensor.size(0));
  }
  for (const auto& [parameter, tensor] : taken) parameter.set_data(tensor);
}

}  // namespace heed::models
