// CTranslate2's model.bin, little-endian:
//
//   file      u32 version (2 to 6); text spec; u32 revision; u32 count, variables;
//             from version 3 on u32 count, aliases
//   variable  text name; u8 rank; rank u32 extents; type; elements
//   type      version 2 and 3: u8 bytes of an element, u32 elements; later: u8 type, u32 bytes
//   alias     text name; text of the variable that it is
//   text      u16 bytes; bytes, the last of them 0
//
// Weights of 8 bits have a variable NAME_scale, one f32 a row: the weight is the number times 1 / scale, as CTranslate2
// computes it. The order is that in which CTranslate2's module specs.model_spec writes it.
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "base/files.h"
#include "base/mapped_file.h"
#include "formats/extents.h"
#include "heed/error.h"
#include "heed/io.h"

namespace heed::io {
namespace {

constexpr const char* kReadCtranslate2 = "read_ctranslate2";
constexpr int64_t kLeastVariable = 2 + 1 + 1 + 1 + 4, kLeastAlias = 2 + 1 + 2 + 1;  // bytes

enum class StoredType : uint8_t { f32, i8, i16, i32, f16, bf16 };  // the numbers from version 4 on
constexpr int64_t kElementBytes[] = {4, 1, 2, 4, 2, 2};
constexpr uint8_t kStoredTypes = 6;

class Ctranslate2Reader {
 public:
  explicit Ctranslate2Reader(const files::MappedFile& file)
      : reader_(file.bytes(), files::quoted(file.path()), kReadCtranslate2) {}

  SafetensorsFile read() {
    version_ = reader_.u32();
    reader_.require(version_ >= 2 && version_ <= 6,
                    "CTranslate2's model.bin of version 2 to 6; found version " + std::to_string(version_));
    result_.metadata["spec"] = text("the name of the model's kind");
    result_.metadata["revision"] = std::to_string(reader_.u32());
    for (int64_t left = count(kLeastVariable, "variables"); left > 0; --left) read_variable();
    if (version_ >= 3) {
      for (int64_t left = count(kLeastAlias, "aliases"); left > 0; --left) read_alias();
    }
    reader_.require(reader_.remaining() == 0,
                    "the end of the file; found " + std::to_string(reader_.remaining()) + " more bytes");
    dequantise();
    return std::move(result_);
  }

 private:
  int64_t count(int64_t least_bytes, const std::string& what) {
    const int64_t found = reader_.u32();
    reader_.require(found <= reader_.remaining() / least_bytes,
                    "as many " + what + " as fit the file; found a count of " + std::to_string(found));
    return found;
  }

  std::string text(const std::string& what) {
    const int64_t size = reader_.u16();
    reader_.require(size > 0, what + ", ended by a byte 0; found no bytes");
    const std::string_view bytes = reader_.bytes(size);
    reader_.require(bytes.find('\0') == bytes.size() - 1, what + ", ended by its only byte 0; found another text");
    return std::string(bytes.substr(0, bytes.size() - 1));
  }

  StoredType type(const std::string& variable) {
    const uint8_t number = reader_.u8();
    if (version_ >= 4) {
      reader_.require(number < kStoredTypes, variable + " of type 0 to 5; found type " + std::to_string(number));
      return static_cast<StoredType>(number);
    }
    reader_.require(number == 1 || number == 2 || number == 4,
                    variable + " with elements of 1, 2 or 4 bytes; found " + std::to_string(number));
    return number == 1 ? StoredType::i8 : number == 2 ? StoredType::i16 : StoredType::f32;
  }

  void read_variable() {
    const std::string name = text("the name of a variable");
    const std::string variable = "variable " + files::quoted(name.substr(0, 100));
    const size_t rank = reader_.u8();
    reader_.require(rank <= Shape::kMaxRank, variable + " with at most 8 axes; found " + std::to_string(rank));
    std::vector<int64_t> extents(rank);
    for (int64_t& extent : extents) extent = reader_.u32();
    const StoredType stored = type(variable);
    const int64_t element = kElementBytes[static_cast<size_t>(stored)];
    const int64_t bytes = checked_bytes(extents, element);
    reader_.require(bytes >= 0, variable + " of fewer than 2^63 bytes; its extents are larger");
    const int64_t stated = version_ >= 4 ? int64_t{reader_.u32()} : int64_t{reader_.u32()} * element;
    reader_.require(stated == bytes, variable + " with " + std::to_string(bytes) +
                                         " bytes, as its extents say; found " + std::to_string(stated));
    const std::string_view data = reader_.bytes(bytes);
    reader_.require(result_.tensors.emplace(name, tensor(stored, Shape(extents), data, variable)).second,
                    "every variable once; " + variable + " comes twice");
  }

  Tensor tensor(StoredType stored, const Shape& shape, std::string_view data, const std::string& variable) const {
    if (stored == StoredType::i16) {
      reader_.require(shape.rank() == 0, variable +
                                             " in f32, f16, bf16 or 8 bits; found quantised weights of 16 bits. "
                                             "Convert the model again, with another quantization");
      int16_t value;
      std::memcpy(&value, data.data(), sizeof value);
      const int32_t wide = value;
      return Tensor::from(std::span(&wide, 1), {});
    }
    constexpr DType kTypes[] = {DType::f32, DType::i8, DType::i32, DType::i32, DType::f16, DType::bf16};
    const Tensor copy = Tensor::empty(shape, kTypes[static_cast<size_t>(stored)]);  // in the file, nothing is aligned
    if (!data.empty()) std::memcpy(copy.raw(), data.data(), data.size());
    return copy;
  }

  void read_alias() {
    const std::string name = text("the name of an alias"), target = text("the variable that an alias is");
    const auto found = result_.tensors.find(target);
    reader_.require(found != result_.tensors.end(),
                    "an alias of a variable; found one of " + files::quoted(target.substr(0, 100)));
    const std::string scale = target + "_scale";
    reader_.require(result_.tensors.emplace(name, found->second).second,
                    "every name once; " + files::quoted(name.substr(0, 100)) + " comes twice");
    if (const auto at = result_.tensors.find(scale); at != result_.tensors.end()) {
      result_.tensors.emplace(name + "_scale", at->second);
    }
  }

  void dequantise() {
    std::map<const void*, Tensor> done;  // aliases stay one tensor
    std::vector<std::string> scales;
    for (auto& [name, tensor] : result_.tensors) {
      if (tensor.dtype() != DType::i8 || tensor.rank() == 0) continue;
      const std::string variable = "variable " + files::quoted(name.substr(0, 100));
      const auto scale = result_.tensors.find(name + "_scale");
      if (scale == result_.tensors.end()) {  // text, as far as it is not a weight
        reader_.require(!name.ends_with("weight"), variable + ", of 8 bits, with scales beside it; found none");
        continue;
      }
      scales.push_back(scale->first);
      Tensor& wide = done[tensor.raw()];
      if (!wide.defined()) wide = times_scales(tensor, scale->second, variable);
      tensor = wide;
    }
    for (const std::string& name : scales) result_.tensors.erase(name);
  }

  Tensor times_scales(const Tensor& weight, const Tensor& scale, const std::string& variable) const {
    reader_.require(scale.dtype() == DType::f32 && scale.rank() == 1 && scale.numel() == weight.size(0),
                    variable + " with one scale in f32 for each of its rows; found other ones");
    const Tensor wide = Tensor::empty(weight.shape(), DType::f32);
    const int64_t rows = weight.size(0), columns = rows > 0 ? weight.numel() / rows : 0;
    for (int64_t row = 0; row < rows; ++row) {
      const float factor = 1.0f / scale.data<float>()[row];
      reader_.require(std::isfinite(factor) && factor > 0,
                      variable + " with scales above 0; row " + std::to_string(row) + " has another");
      for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
        wide.data<float>()[i] = static_cast<float>(weight.data<int8_t>()[i]) * factor;
      }
    }
    return wide;
  }

  files::Reader reader_;
  uint32_t version_ = 0;
  SafetensorsFile result_;
};

}  // namespace

SafetensorsFile read_ctranslate2(const std::filesystem::path& file) {
  const files::MappedFile mapped(file, kReadCtranslate2, files::MapFor::memory);
  return Ctranslate2Reader(mapped).read();
}

}  // namespace heed::io
