// Tensors as PyTorch's pickles describe them: as calls of functions of torch._utils.
#include "formats/pytorch_table.h"

#include <algorithm>
#include <array>

#include "formats/extents.h"
#include "formats/names.h"
#include "heed/error.h"

namespace heed::io {
namespace {

struct StorageType {
  std::string_view name;  // of a class
  DType dtype;
};
constexpr std::array kStorageTypes = {
    StorageType{"torch.FloatStorage", DType::f32},    StorageType{"torch.DoubleStorage", DType::f64},
    StorageType{"torch.HalfStorage", DType::f16},     StorageType{"torch.BFloat16Storage", DType::bf16},
    StorageType{"torch.LongStorage", DType::i64},     StorageType{"torch.IntStorage", DType::i32},
    StorageType{"torch.CharStorage", DType::i8},      StorageType{"torch.ByteStorage", DType::u8},
    StorageType{"torch.BoolStorage", DType::boolean},
};

// Of a function of torch._utils.
bool is_call(const PickleValue& value, std::string_view function) {
  return value.is(PickleKind::call) && value.parts[0]->is_function("torch._utils", function);
}

// One entry of the table.
class EntryReader {
 public:
  EntryReader(PytorchTable& table, const std::string& name, std::string_view tensor)
      : table_(table), what_(name + ": tensor " + shown(tensor)) {}

  void require(bool ok, std::string_view expected) const {
    if (!ok) fail(kReadPytorch, what_, ": ", expected);
  }

  // A call that makes a tensor, itself or as a parameter of a module.
  PytorchView read(const PickleValue& value) const {
    const PickleValue* tensor = &value;
    if (is_call(value, "_rebuild_parameter") && value.parts[1]->parts.size() == 3) tensor = value.parts[1]->parts[0];
    const bool newer = is_call(*tensor, "_rebuild_tensor_v2");
    require(newer || is_call(*tensor, "_rebuild_tensor"), "a dense tensor; found " + words_for(*tensor));
    const auto& parts = tensor->parts[1]->parts;
    // A seventh argument may say that the numbers are to be changed: that they have the other sign, for example.
    require(parts.size() == (newer ? 6 : 4),
            "a tensor as it lies in its storage; found one of " + std::to_string(parts.size()) + " arguments");
    require(parts[0]->is(PickleKind::reference) && parts[1]->is(PickleKind::whole),
            "a storage, the place of the first number, extents and strides; found something else");
    PytorchView view{.storage = storage(*parts[0]->parts[0]),
                     .first = parts[1]->whole,
                     .extents = numbers(*parts[2]),
                     .strides = numbers(*parts[3])};
    measure(view);
    return view;
  }

 private:
  std::vector<int64_t> numbers(const PickleValue& tuple) const {
    require(tuple.is(PickleKind::tuple), "a tuple of extents or strides; found " + words_for(tuple));
    std::vector<int64_t> result;
    for (const PickleValue* number : tuple.parts) {
      require(number->is(PickleKind::whole) && number->whole >= 0, "extents and strides from 0 on; found others");
      result.push_back(number->whole);
    }
    return result;
  }

  // ("storage", its class, its key, a device, how many numbers): the key.
  std::string storage(const PickleValue& names) const {
    const auto& parts = names.parts;
    constexpr size_t kLongestKey = 200;  // bytes: each tensor keeps one
    const bool known = names.is(PickleKind::tuple) && (parts.size() == 5 || parts.size() == 6) &&
                       parts[0]->is(PickleKind::text) && parts[0]->text == "storage" &&
                       parts[1]->is(PickleKind::function) && parts[2]->is(PickleKind::text) &&
                       parts[2]->text.size() < kLongestKey && parts[4]->is(PickleKind::whole);
    require(known, "a reference to a storage; found another");
    require(parts.size() < 6 || parts[5]->is(PickleKind::none), "a whole storage; found a part of another one");
    const std::string type = parts[1]->name();
    const auto at = std::ranges::find(kStorageTypes, type, &StorageType::name);
    require(at != kStorageTypes.end(),
            "numbers in f64, f32, f16, bf16, i64, i32, i8, u8 or bool; found " + shown(type));
    const PytorchStorage storage{.dtype = at->dtype, .numbers = parts[4]->whole};
    require(checked_bytes({&storage.numbers, 1}, size_of(storage.dtype)) >= 0,
            "a storage of 0 to 2^63 bytes; found " + std::to_string(storage.numbers) + " numbers");
    std::string key(parts[2]->text);
    const auto [before, added] = table_.storages.emplace(key, storage);
    require(added || (before->second.dtype == storage.dtype && before->second.numbers == storage.numbers),
            "the type and size that storage " + shown(key) + " had before; found others");
    return key;
  }

  void measure(PytorchView& view) const {
    const PytorchStorage& storage = table_.storages.at(view.storage);
    require(view.extents.size() == view.strides.size(), "a stride for each extent; found more or fewer");
    const int64_t element = size_of(storage.dtype);
    const int64_t bytes = checked_bytes(view.extents, element);
    require(bytes >= 0, "at most 8 axes and fewer than 2^63 bytes; its shape is larger");
    bool fits = view.first >= 0 && view.first <= storage.numbers;
    view.reach = bytes == 0 ? 0 : 1;
    for (size_t axis = 0; bytes > 0 && axis < view.extents.size(); ++axis) {
      int64_t steps = 0;
      fits = fits && !__builtin_mul_overflow(view.extents[axis] - 1, view.strides[axis], &steps) &&
             !__builtin_add_overflow(view.reach, steps, &view.reach);
    }
    // A stride of 0 could make a terabyte of one number.
    fits = fits && view.reach <= storage.numbers - view.first && bytes / element <= view.reach;
    require(fits, "no more numbers than places, in a storage of " + std::to_string(storage.numbers) + "; found others");
  }

  PytorchTable& table_;
  std::string what_;
};

}  // namespace

std::string words_for(const PickleValue& value) {
  if (value.is(PickleKind::call)) return "an object of " + shown(value.parts[0]->name());
  if (value.is(PickleKind::function)) return shown(value.name());
  return std::string(words_for(value.kind));
}

PytorchTable read_pytorch_table(const PickleValue& value, const std::string& name) {
  require(value.is(PickleKind::table), kReadPytorch, name, ": a table of names and tensors; found ", words_for(value));
  PytorchTable table;
  for (size_t i = 0; i < value.parts.size(); i += 2) {
    const PickleValue& key = *value.parts[i];
    require(key.is(PickleKind::text), kReadPytorch, name, ": texts as the names of tensors; found ", words_for(key));
    const EntryReader entry(table, name, key.text);
    const bool added = table.tensors.emplace(key.text, entry.read(*value.parts[i + 1])).second;
    entry.require(added, "every name once; it comes twice");
  }
  return table;
}

}  // namespace heed::io
