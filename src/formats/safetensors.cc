// safetensors: an 8-byte little-endian header length, a JSON header, the data.
//
//   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {"key": "value"}}
//
// Offsets count from the end of the header. The arrays must tile the data exactly: no hole, no overlap, no byte before,
// between or after them, so that one file cannot be two things. The format is described in the safetensors repository.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/files.h"
#include "base/mapped_file.h"
#include "formats/extents.h"
#include "formats/json.h"
#include "formats/names.h"
#include "formats/safetensors_header.h"
#include "heed/error.h"
#include "heed/io.h"

namespace heed::io {
namespace {

constexpr int64_t kMaxHeader = 100'000'000;  // as the reference implementation

struct SafetensorsType {
  std::string_view name;
  DType dtype;
};
constexpr SafetensorsType kSafetensorsTypes[] = {{"F32", DType::f32},   {"F64", DType::f64}, {"F16", DType::f16},
                                                 {"BF16", DType::bf16}, {"I64", DType::i64}, {"I32", DType::i32},
                                                 {"I8", DType::i8},     {"U8", DType::u8},   {"BOOL", DType::boolean}};

std::optional<DType> parse_dtype(std::string_view name) {
  for (const SafetensorsType& type : kSafetensorsTypes) {
    if (type.name == name) return type.dtype;
  }
  return std::nullopt;
}

std::string_view dtype_name(DType dtype) {
  for (const SafetensorsType& type : kSafetensorsTypes) {
    if (type.dtype == dtype) return type.name;
  }
  fail("write_safetensors", "a dtype that the format has; found ", dtype);
}

std::string json_string(std::string_view text) {
  try {
    return json_text(Json(text));
  } catch (const Error&) {
    fail("write_safetensors", "names and metadata in UTF-8; found other bytes");
  }
}

// Floats are matrices of a model and large; numbers that are not aligned, and booleans, which must keep the values that
// were checked, are copied.
Tensor tensor_at(const std::shared_ptr<files::MappedFile>& file, int64_t begin, const SafetensorsEntry& entry) {
  const DType dtype = *parse_dtype(entry.dtype);
  char* const data = file->writable() + begin;
  const bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(dtype)) == 0;
  if (aligned && dtype != DType::boolean) return Tensor::wrap(file, data, Shape(entry.shape), dtype);
  const Tensor copy = Tensor::empty(Shape(entry.shape), dtype);
  if (entry.end > entry.begin) std::memcpy(copy.raw(), data, static_cast<size_t>(entry.end - entry.begin));
  return copy;
}

}  // namespace

SafetensorsFile read_safetensors(const std::filesystem::path& file) {
  const auto mapped = std::make_shared<files::MappedFile>(file, "read_safetensors", files::MapFor::memory);
  const files::MappedFile& input = *mapped;
  input.require(input.size() >= 8, "a safetensors file: at least 8 bytes; found " + std::to_string(input.size()));
  input.require(!input.bytes().starts_with("version https://git-lfs"),
                "weights; found a pointer of Git LFS: the file itself was not downloaded (\"git lfs pull\" gets it)");
  const uint64_t claimed = files::Reader(input.bytes().substr(0, 8), files::quoted(file), "read_safetensors").u64();
  input.require(claimed <= static_cast<uint64_t>(std::min(kMaxHeader, input.size() - 8)),
                "a safetensors header no longer than " + std::to_string(kMaxHeader) + " bytes and than the file (" +
                    std::to_string(input.size()) + " bytes); the first 8 bytes say " + std::to_string(claimed));
  const int64_t header_size = static_cast<int64_t>(claimed);
  SafetensorsHeader header = parse_safetensors_header(input.bytes().substr(8, claimed), input);
  std::sort(header.entries.begin(), header.entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });

  const int64_t data_size = input.size() - 8 - header_size;
  int64_t covered = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    const std::string name = "tensor " + shown(entry.name);
    const std::optional<DType> dtype = parse_dtype(entry.dtype);
    input.require(dtype.has_value(),
                  name + " of dtype F32, F64, F16, BF16, I64, I32, U8 or BOOL; found " + shown(entry.dtype));
    const int64_t bytes = checked_bytes(entry.shape, size_of(*dtype));
    input.require(bytes >= 0, name + " with at most 8 axes and fewer than 2^63 bytes; its shape is larger");
    input.require(entry.begin > entry.end || entry.end <= data_size,
                  name + " to end within the " + std::to_string(data_size) +
                      " bytes after the header; it ends at byte " + std::to_string(entry.end) +
                      " (is the file cut short?)");
    input.require(entry.begin == covered && entry.end >= entry.begin,
                  name + " to begin at byte " + std::to_string(covered) + " of " + std::to_string(data_size) +
                      ", where the one before ends; its data_offsets are " + std::to_string(entry.begin) + " to " +
                      std::to_string(entry.end));
    input.require(entry.end - entry.begin == bytes, name + " to have " + std::to_string(bytes) +
                                                        " bytes, as its shape and dtype say; its data_offsets give " +
                                                        std::to_string(entry.end - entry.begin));
    covered = entry.end;
  }
  input.require(covered == data_size, "arrays that cover all " + std::to_string(data_size) +
                                          " bytes after the header; they cover " + std::to_string(covered));

  SafetensorsFile result;
  result.metadata = std::move(header.metadata);
  for (const SafetensorsEntry& entry : header.entries) {
    const Tensor tensor = tensor_at(mapped, 8 + header_size + entry.begin, entry);
    input.require(booleans_are_valid(tensor),
                  "tensor " + shown(entry.name) + " of BOOL with bytes 0 and 1; found others");
    input.require(result.tensors.emplace(entry.name, tensor).second,
                  "every name once; tensor " + shown(entry.name) + " comes twice");
  }
  return result;
}

void write_safetensors(const std::filesystem::path& file, const Tensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Larger elements first, then by name, as the reference implementation: every array is aligned to its element.
  std::vector<std::pair<std::string, Tensor>> ordered;
  for (const auto& [name, tensor] : tensors) {
    require(tensor.defined(), "write_safetensors", "defined tensors; ", shown(name), " is not");
    require(name != "__metadata__", "write_safetensors", "another name than __metadata__, which the format reserves");
    ordered.emplace_back(name, tensor);
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return size_of(a.second.dtype()) > size_of(b.second.dtype()); });

  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (header.back() != '{') header += ',';
      header += json_string(key) + ":" + json_string(value);
    }
    header += '}';
  }
  int64_t offset = 0;
  for (const auto& [name, tensor] : ordered) {
    if (header.size() > 1) header += ',';
    header += json_string(name) + ":{\"dtype\":\"" + std::string(dtype_name(tensor.dtype())) + "\",\"shape\":[";
    for (int axis = 0; axis < tensor.rank(); ++axis) {
      if (axis > 0) header += ',';
      header += std::to_string(tensor.size(axis));
    }
    header += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + tensor.nbytes()) + "]}";
    offset += tensor.nbytes();
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the data starts at a multiple of 8
  require(static_cast<int64_t>(header.size()) <= kMaxHeader, "write_safetensors", files::quoted(file),
          ": a header of at most ", kMaxHeader, " bytes; found ", header.size());

  files::AtomicFile out(file, "write_safetensors");
  std::array<char, 8> length{};
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  out.write({length.data(), length.size()});
  out.write(header);
  for (const auto& [name, tensor] : ordered) {
    const Tensor flat = tensor.contiguous();
    out.write(flat.raw(), flat.nbytes());
  }
  out.commit();
}

}  // namespace heed::io
