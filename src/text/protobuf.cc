#include "text/protobuf.h"

namespace heed::text {
namespace {

uint64_t varint(files::Reader& reader) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const uint8_t byte = reader.u8();
    if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  reader.fail("numbers of at most ten bytes");
}

}  // namespace

ProtobufField next_field(files::Reader& reader) {
  const uint64_t tag = varint(reader);
  ProtobufField field;
  field.number = tag >> 3;
  field.wire = static_cast<int>(tag & 7);
  switch (field.wire) {
    case 0: field.value = varint(reader); break;
    case 1: field.value = reader.u64(); break;
    case 2: {
      const uint64_t size = varint(reader);
      reader.require(size <= static_cast<uint64_t>(reader.remaining()), "a SentencePiece model; a field is cut off");
      field.bytes = reader.bytes(static_cast<int64_t>(size));
      break;
    }
    case 5: field.value = reader.u32(); break;
    default: reader.fail("a SentencePiece model; found a field of unknown form");
  }
  return field;
}

}  // namespace heed::text
