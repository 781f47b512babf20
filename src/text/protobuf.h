// Fields of a protocol buffer, as far as SentencePiece's models need them.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/files.h"

namespace heed::text {

struct ProtobufField {
  uint64_t number = 0;
  int wire = 0;
  uint64_t value = 0;      // wire types 0, 1, 5
  std::string_view bytes;  // wire type 2
};

// Throws Error, in the words of `reader`, where none is whole.
[[nodiscard]] ProtobufField next_field(files::Reader& reader);

}  // namespace heed::text
