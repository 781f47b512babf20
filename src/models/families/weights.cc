#include "models/families/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "formats/json.h"
#include "heed/error.h"
#include "models/weights.h"

namespace heed::models {
namespace {

// The path with "{}" in place of its number, and that number.
struct Numbered {
  std::string path, number;
};

Numbered numbered(const std::string& path) {
  Numbered result;
  for (size_t i = 0; i < path.size();) {
    const size_t end = std::min(path.find('.', i), path.size());
    const std::string component = path.substr(i, end - i);
    const bool digits = !component.empty() && component.find_first_not_of("0123456789") == std::string::npos;
    if (digits && result.number.empty()) result.number = component;
    result.path += digits ? "{}" : component;
    if (end < path.size()) result.path += '.';
    i = end + 1;
  }
  return result;
}

std::string with_number(std::string_view pattern, const std::string& number) {
  std::string text(pattern);
  if (const size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, number);
  return text;
}

bool matches(const std::string& name, const std::string& pattern) {
  const bool open = pattern.ends_with('*');
  const std::string_view head(pattern.data(), pattern.size() - (open ? 1 : 0));
  if (open ? name.starts_with(head) : name == head) return true;
  const std::string plain = numbered(name).path;
  return open ? plain.starts_with(head) : plain == head;
}

// Ours may be (V) where theirs is (1, V).
bool same_but_for_ones(const Shape& a, const Shape& b) {
  const auto without_ones = [](const Shape& shape) {
    std::vector<int64_t> extents;
    for (const int64_t extent : shape) {
      if (extent != 1) extents.push_back(extent);
    }
    return extents;
  };
  return without_ones(a) == without_ones(b);
}

}  // namespace

Place place_of(const Design& design, const std::string& path) {
  const Numbered ours = numbered(path);
  const size_t dot = ours.path.rfind('.');
  const std::string module = ours.path.substr(0, dot), own = ours.path.substr(dot + 1);
  for (const Body& body : design.names) {
    for (const Rename& rename : body.names) {
      std::string name = std::string(body.prefix) + with_number(rename.theirs, ours.number);
      if (rename.ours == ours.path) return {.name = name, .part = rename.part};
      if (rename.ours == module) return {.name = name + (own == "bias" ? ".bias" : ".weight"), .part = rename.part};
    }
  }
  fail("load", "a parameter of this family; found \"", path, "\"");
}

namespace {

// Calls take(path, parameter, stored, place) for every parameter of `model`: what the file has for it, and where.
template <class Take>
void for_weights(const Model& model, const Design& design, const Weights& weights, const std::string& where,
                 const Take& take) {
  std::map<std::string, int64_t> parts;  // of each tensor in use, how many
  const auto parameters = model.named_parameters();
  for (const auto& [path, value] : parameters) ++parts[place_of(design, path).name];
  for (const auto& [path, value] : parameters) {
    const Place place = place_of(design, path);
    const Tensor found = find_weight(weights, where, place.name);
    const Shape& ours = value.shape();
    Shape whole = ours;
    whole[0] *= parts[place.name];
    require(found.shape() == whole || (parts[place.name] == 1 && same_but_for_ones(found.shape(), ours)), kLoader,
            where, ": shape ", whole, " of tensor \"", place.name, "\"; found ", found.shape());
    const Tensor part =
        found.shape() == whole ? found.slice(0, place.part * ours[0], (place.part + 1) * ours[0]) : found;
    take(path, value, part.reshape(ours), place);
  }
  for (const auto& [name, tensor] : weights) {
    const auto is_unused = [&name = name](const std::string& pattern) { return matches(name, pattern); };
    require(parts.contains(name) || std::any_of(design.unused.begin(), design.unused.end(), is_unused), kLoader, where,
            ": only tensors of this model; found \"", name, "\" too, of shape ", tensor.shape());
  }
}

}  // namespace

void take_weights(const Model& model, const Design& design, const Weights& weights, const std::string& where,
                  const Keep& keep) {
  for_weights(model, design, weights, where,
              [&](const std::string& /*path*/, const Value& value, const Tensor& stored, const Place& place) {
                keep(value, stored, where, place.name, place.part * stored.numel());
              });
}

io::Tensors own_weights(const Model& model, const Design& design, const Weights& weights, const std::string& where) {
  io::Tensors result;
  for_weights(model, design, weights, where,
              [&](const std::string& path, const Value& /*value*/, const Tensor& stored, const Place& place) {
                const Tensor own = own_copy(stored);
                check_finite(own, where, place.name, place.part * own.numel());
                result.emplace(path, own);
              });
  return result;
}

std::shared_ptr<const Origin> with_f32_files(const Origin& origin) {
  auto result = std::make_shared<Origin>(origin);
  for (auto& [name, form] : result->forms) form.dtype = DType::f32;
  io::Json config = io::parse_json(origin.config_json).value;
  bool says_another = false;
  for (const char* const key : {"dtype", "torch_dtype"}) {  // transformers 5 rounds the weights to what it reads there
    if (!config.contains(key) || config[key] == "float32") continue;
    config[key] = "float32";
    says_another = true;
  }
  if (says_another) result->config_json = io::json_text(config, 2) + "\n";
  return result;
}

std::shared_ptr<const Origin> with_first_token(const Origin& origin, int64_t id) {
  auto result = std::make_shared<Origin>(origin);
  io::Json config = io::parse_json(origin.config_json).value;
  config["decoder_start_token_id"] = result->design.config.begin_id = id;
  result->config_json = io::json_text(config, 2) + "\n";
  return result;
}

io::Tensors weights_of(const Model& model, const Origin& origin) {
  std::map<std::string, std::map<int64_t, Tensor>> parts;
  for (const auto& [path, value] : model.named_parameters()) {
    const Place place = place_of(origin.design, path);
    parts[place.name][place.part] = value.packed() == nullptr ? value.data().contiguous() : value.packed()->unpack();
  }
  io::Tensors result;
  for (const auto& [name, pieces] : parts) {
    Shape shape = pieces.begin()->second.shape();
    shape[0] *= static_cast<int64_t>(pieces.size());
    const Tensor whole = Tensor::empty(shape);
    float* out = whole.data<float>();
    for (const auto& [part, piece] : pieces) {
      std::memcpy(out, piece.data<float>(), static_cast<size_t>(piece.nbytes()));
      out += piece.numel();
    }
    const auto form = origin.forms.find(name);
    result[name] = form == origin.forms.end() ? whole : whole.reshape(form->second.shape).to(form->second.dtype);
  }
  return result;
}

}  // namespace heed::models
