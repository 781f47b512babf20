// The table of names and tensors in the pickle of a file that torch.save() wrote.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/pickle.h"
#include "heed/tensor.h"

namespace heed::io {

inline constexpr const char* kReadPytorch = "read_pytorch";

// Numbers that lie outside of the pickle, one behind the other.
struct PytorchStorage {
  DType dtype = DType::f32;
  int64_t numbers = 0;
  int64_t begin = -1;  // of its bytes in the file; -1: not known yet
};

// Some of the numbers of a storage, which has room for all that the strides reach.
struct PytorchView {
  std::string storage;  // its key
  int64_t first = 0;
  int64_t reach = 0;  // how many numbers from the first to the last, those between them included
  std::vector<int64_t> extents = {}, strides = {};
};

struct PytorchTable {
  std::map<std::string, PytorchStorage> storages;
  std::map<std::string, PytorchView> tensors;
};

// `name` says in messages what is read.
[[nodiscard]] PytorchTable read_pytorch_table(const PickleValue& value, const std::string& name);

// What a value is, in words for a message.
[[nodiscard]] std::string words_for(const PickleValue& value);

}  // namespace heed::io
