// Weights: from the tensors of a file to the parameters of a model, with every check on the way.
#include "models/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "base/mapped_file.h"
#include "heed/error.h"
#include "heed/memory.h"

namespace heed::models {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;      // numbers of a file that are read before their pages are given back
constexpr int64_t kInSight = int64_t{1} << 16;    // numbers that are looked at in f32 at a time
constexpr int64_t kLargeRows = int64_t{1} << 20;  // bytes that are given back at once when they are packed

}  // namespace

void check_finite(const Tensor& tensor, const std::string& where, const std::string& name, int64_t first) {
  const float* values = tensor.data<float>();
  // An exponent of ones is that of infinity and NaN. All of them at once; the first is looked for where there is one.
  uint32_t all = 1;
#pragma omp simd reduction(& : all)
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    all &= static_cast<uint32_t>((std::bit_cast<uint32_t>(values[i]) & 0x7F800000u) != 0x7F800000u);
  }
  if (all != 0) return;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    require(std::isfinite(values[i]), kLoader, where, ": finite weights; found ", values[i], " at element ", first + i,
            " of \"", name, "\"");
  }
}

Tensor own_copy(const Tensor& stored) {
  const Tensor copy = Tensor::empty(stored.shape());
  const Tensor from = stored.contiguous().reshape({stored.numel()}), to = copy.reshape({stored.numel()});
  for (int64_t at = 0; at < stored.numel(); at += kPiece) {
    const int64_t end = std::min(at + kPiece, stored.numel());
    const Tensor piece = from.slice(0, at, end);
    to.slice(0, at, end).copy_from(piece);
    files::give_pages_back(piece.raw(), piece.nbytes());
  }
  return copy;
}

namespace {

// Calls use(piece) with all numbers in f32, piece by piece.
template <class F>
void for_pieces(const Tensor& stored, const F& use) {
  const Tensor from = stored.contiguous().reshape({stored.numel()});
  int64_t kept = 0;  // from here on
  for (int64_t at = 0; at < stored.numel(); at += kInSight) {
    const int64_t end = std::min(at + kInSight, stored.numel());
    use(from.slice(0, at, end).to(DType::f32), at);
    if (end - kept < kPiece && end < stored.numel()) continue;
    const Tensor seen = from.slice(0, kept, end);
    files::give_pages_back(seen.raw(), seen.nbytes());
    kept = end;
  }
}

// Each thread gives back what it has read through.
std::shared_ptr<const ops::PackedWeight> rounded_to_int8(const Tensor& stored) {
  const Tensor rows = stored.contiguous();
  const int64_t width = rows.size(1), together = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, width));
  auto packed = std::make_shared<const ops::PackedWeight>(rows.shape(), [&](int64_t number, float* out) {
    const Tensor row = rows.slice(0, number, number + 1).to(DType::f32);
    std::copy_n(row.data<float>(), width, out);
    if ((number + 1) % together != 0) return;
    const Tensor done = rows.slice(0, number + 1 - together, number + 1);
    files::give_pages_back(done.raw(), done.nbytes());
  });
  files::give_pages_back(rows.raw(), rows.nbytes());
  return packed;
}

// As f16 where that changes no value.
Tensor smallest(const Tensor& tensor) {
  const Tensor half = tensor.to(DType::f16), back = half.to(DType::f32);
  const auto count = static_cast<size_t>(tensor.nbytes());
  return count > 0 && std::memcmp(back.raw(), tensor.contiguous().raw(), count) == 0 ? half : tensor;
}

// A weight in int8, its scales and its balance.
std::shared_ptr<const ops::PackedWeight> find_int8(const io::Tensors& tensors, const std::string& where,
                                                   const std::string& name) {
  const Tensor& numbers = tensors.at(name);
  const auto scales = tensors.find(name + kScaleEnding);
  require(scales != tensors.end(), kLoader, where, ": a tensor \"", name, kScaleEnding, "\" beside \"", name,
          "\", which is in i8; found none");
  const bool fits =
      numbers.rank() == 2 && scales->second.dtype() == DType::f32 && scales->second.shape() == Shape{numbers.size(0)};
  require(fits, kLoader, where, ": scales in f32 for each row of \"", name, "\"; found ", scales->second.dtype(), " ",
          scales->second.shape(), " for ", numbers.shape());
  check_finite(scales->second, where, scales->first);
  ops::Int8Numbers found{numbers, scales->second};
  const auto balance = tensors.find(name + kBalanceEnding);
  if (balance != tensors.end()) {
    found.balance = balance->second;
    require(found.balance.dtype() == DType::f32 && found.balance.shape() == Shape{numbers.size(1)}, kLoader, where,
            ": a balance in f32 for each column of \"", name, "\"; found ", found.balance.dtype(), " ",
            found.balance.shape(), " for ", numbers.shape());
    check_finite(found.balance, where, balance->first);
  }
  auto packed = std::make_shared<const ops::PackedWeight>(found);
  files::give_pages_back(numbers.raw(), numbers.nbytes());
  return packed;
}

}  // namespace

Tensor find_weight(const io::Tensors& tensors, const std::string& where, const std::string& name) {
  const auto at = tensors.find(name);
  require(at != tensors.end(), kLoader, where, ": a tensor \"", name, "\"; found none of that name");
  const DType dtype = at->second.dtype();
  require(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16, kLoader, where,
          ": f32, f16 or bf16 in tensor \"", name, "\"; found ", dtype);
  return at->second;
}

void check_plausible(const Config& config, const io::Tensors& tensors, const std::string& where) {
  constexpr int64_t kSlack = int64_t{1} << 24;
  int64_t held = 0;
  for (const auto& [name, tensor] : tensors) held += tensor.numel();
  const int64_t expected = cost(config, 1, 1, 1).parameters;
  require(expected <= 2 * held + kSlack, kLoader, where, ": ", expected,
          " parameters, as config.json describes; found ", held);
}

io::Tensors tensors_of(const Model& model) {
  io::Tensors tensors;
  bool rounded = false;
  for (const auto& [path, value] : model.named_parameters()) {
    const auto packed = value.packed();
    if (packed == nullptr) {
      tensors[path] = value.data();
    } else if (packed->format() == WeightFormat::int8) {
      const ops::Int8Numbers int8 = packed->int8_numbers();
      tensors[path] = int8.numbers;
      tensors[path + kScaleEnding] = int8.scales;
      tensors[path + kBalanceEnding] = int8.balance;
      rounded = true;
    } else if (packed->format() == WeightFormat::bf16) {
      tensors[path] = packed->unpack().to(DType::bf16);
    } else {
      tensors[path] = packed->unpack();
    }
  }
  for (auto& [path, tensor] : tensors) {
    if (rounded && tensor.dtype() == DType::f32 && !path.ends_with(kScaleEnding) && !path.ends_with(kBalanceEnding))
      tensor = smallest(tensor);
  }
  return tensors;
}

Keep::Keep(const Model& model, const LoadOptions& options) : format_(options.weights) {
  if (options.packed) model.for_packed([this](const Value& weight) { packed_.push_back(weight); });
}

void Keep::operator()(const Value& parameter, const Tensor& stored, const std::string& where, const std::string& name,
                      int64_t first) const {
  const auto same = [&](const Value& weight) { return weight.same_leaf(parameter); };
  const bool packs = std::any_of(packed_.begin(), packed_.end(), same);
  if (packs && format_ == WeightFormat::int8) {
    for_pieces(stored, [&](const Tensor& piece, int64_t at) { check_finite(piece, where, name, first + at); });
    parameter.set_packed(rounded_to_int8(stored));
    return release_cached_memory();  // the block of the initial weights, before a piece of another weight lies in it
  }
  Tensor rows = own_copy(stored);
  check_finite(rows, where, name, first);
  const bool large = rows.nbytes() > kLargeRows;
  parameter.set_data(std::exchange(rows, {}));
  if (!packs) return;
  parameter.pack(format_);
  if (large) release_cached_memory();
}

void take_weights(const Model& model, const io::SafetensorsFile& file, const std::string& where, const Keep& keep) {
  std::set<std::string> known;
  struct Taken {
    Value parameter;
    std::string path;
    Tensor tensor;
    std::shared_ptr<const ops::PackedWeight> packed;
  };
  std::vector<Taken> taken;
  for (const auto& [path, parameter] : model.named_parameters()) {
    known.insert(path);
    const auto stored = file.tensors.find(path);
    const bool int8 = stored != file.tensors.end() && stored->second.dtype() == DType::i8;
    if (int8) known.insert({path + kScaleEnding, path + kBalanceEnding});
    const Tensor found = int8 ? stored->second : find_weight(file.tensors, where, path);
    taken.push_back({parameter, path, found, nullptr});
    require(found.shape() == parameter.shape(), kLoader, where, ": shape ", parameter.shape(), " of tensor \"", path,
            "\"; found ", found.shape());
  }
  for (const auto& [name, tensor] : file.tensors) {
    require(known.contains(name), kLoader, where, ": only tensors of this configuration; found \"", name, "\"");
  }
  const auto written = file.metadata.find(kChecksumKey), format = file.metadata.find("format");
  if (written != file.metadata.end()) {
    const std::string computed = checksum(file.tensors);
    require(written->second == computed, kLoader, where, ": weights with the checksum ", written->second,
            " that was written with them; found ", computed, " (the file has changed since)");
  } else {
    require(format == file.metadata.end() || format->second != kFormat, kLoader, where,
            ": metadata with a checksum, as in every \"", kFormat, "\" file; found none");
  }
  for (Taken& t : taken) {
    if (t.tensor.dtype() == DType::i8) {
      t.packed = find_int8(file.tensors, where, t.path);
      continue;
    }
    if (keep.packs()) {
      keep(t.parameter, std::exchange(t.tensor, {}), where, t.path);
      continue;
    }
    // Each set of weights owns its memory: `file` may be used again.
    t.tensor = own_copy(t.tensor);
    check_finite(t.tensor, where, t.path);
  }
  for (Taken& t : taken) {
    if (t.packed != nullptr) {
      t.parameter.set_packed(t.packed);
    } else if (t.tensor.defined()) {
      t.parameter.set_data(std::exchange(t.tensor, {}));
    }
  }
}

void load_weights(Model& model, const std::filesystem::path& safetensors) {
  take_weights(model, io::read_safetensors(safetensors), safetensors.string());
}

void load_weights(Model& model, const std::filesystem::path& safetensors, const NameMapping& mapping) {
  take_weights(model, io::read_safetensors(safetensors), safetensors.string(), mapping);
}

void take_weights(const Model& model, const io::SafetensorsFile& file, const std::string& where,
                  const NameMapping& mapping) {
  std::map<std::string, int64_t> rows_taken;
  std::vector<std::pair<Value, Tensor>> taken;
  for (const auto& [path, parameter] : model.named_parameters()) {
    const NameMapping::Source source = mapping.find(path, model.config());
    const Tensor found = find_weight(file.tensors, where, source.name);
    const Shape& ours = parameter.shape();
    bool fits = found.rank() == ours.rank() && source.first_row >= 0 && source.first_row <= found.size(0) - ours[0];
    for (int axis = 1; fits && axis < ours.rank(); ++axis) fits = found.size(axis) == ours[axis];
    require(fits, kLoader, where, ": in tensor \"", source.name, "\" room for ", ours, " from row ", source.first_row,
            " (our \"", path, "\"); found ", found.shape());
    const Tensor own = own_copy(found.slice(0, source.first_row, source.first_row + ours[0]));
    check_finite(own, where, source.name, ours[0] == 0 ? 0 : source.first_row * (own.numel() / ours[0]));
    rows_taken[source.name] += ours[0];
    taken.emplace_back(parameter, own);
  }
  for (const auto& [name, tensor] : file.tensors) {
    if (tensor.numel() == 1 && !rows_taken.contains(name)) continue;  // a setting stored as a number
    require(rows_taken.contains(name), kLoader, where, ": only tensors of this configuration; found \"", name, "\"");
    require(rows_taken[name] == tensor.size(0), kLoader, where, ": all rows of \"", name,
            "\" in use: ", rows_taken[name], "; found ", tensor.size(0));
  }
  for (const auto& [parameter, tensor] : taken) parameter.set_data(tensor);
}

}  // namespace heed::models
