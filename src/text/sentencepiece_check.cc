// Reads the protocol buffer, two fixed levels without recursion, down to the two parts that need a check:
//
//   ModelProto:      1 pieces { 1 piece: string, 2 score: float, 3 type }, 3 normalizer_spec, 5 denormalizer_spec
//   NormalizerSpec:  2 precompiled_charsmap: u32 size of a double-array trie, the trie, strings ended by NUL
//
// A trie unit is 32 bits (Darts-clone): bits 0-7 and 31 label, bit 8 "has a leaf", bits 10-30 offset, bit 9 "offset
// times 256". From unit i the next ones are at (i ^ offset) ^ label for any label: all of them must exist.
#include "text/sentencepiece_check.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/files.h"
#include "heed/error.h"
#include "text/protobuf.h"

namespace heed::text {
namespace {

constexpr std::string_view kLoad = "load_sentencepiece";

void check_character_map(std::string_view map, const std::string& name) {
  if (map.empty()) return;
  files::Reader reader(map, name + ", character map", kLoad);
  const int64_t trie_bytes = reader.u32();
  reader.require(trie_bytes % 4 == 0 && trie_bytes >= 1024 && trie_bytes < reader.remaining(),
                 "a trie inside of the map, and strings behind it");
  std::vector<uint32_t> units(static_cast<size_t>(trie_bytes / 4));
  for (uint32_t& unit : units) unit = reader.u32();
  const std::string_view strings = reader.bytes(reader.remaining());
  reader.require(strings.back() == '\0', "strings that end");
  for (size_t i = 0; i < units.size(); ++i) {
    const uint32_t unit = units[i];
    if ((unit >> 31) != 0) continue;  // a leaf, never followed
    const uint32_t offset = (unit >> 10) << ((unit & (1u << 9)) >> 6);
    const size_t next = i ^ offset;
    reader.require((next | 0xff) < units.size(), "a trie whose links stay inside");
    if ((unit & (1u << 8)) != 0) {
      reader.require((units[next] & 0x7fffffffu) < strings.size(), "a trie whose values lie in the strings");
    }
  }
}

}  // namespace

bool check_sentencepiece(std::string_view model, const std::string& name) {
  constexpr uint64_t kUserDefined = 4, kMostType = 6;  // of ModelProto.SentencePiece.Type
  files::Reader reader(model, name, kLoad);
  int64_t pieces = 0;
  bool user_defined = false;
  while (reader.remaining() > 0) {
    const ProtobufField field = next_field(reader);
    if (field.wire != 2) continue;
    files::Reader inner(field.bytes, name, kLoad);
    if (field.number == 1) {
      ++pieces;
      while (inner.remaining() > 0) {
        const ProtobufField part = next_field(inner);
        if (part.number == 3 && part.wire == 0) {
          reader.require(part.value >= 1 && part.value <= kMostType,
                         "pieces of type 1 to 6; piece " + std::to_string(pieces - 1) + " has another");
        }
        user_defined = user_defined || (part.number == 3 && part.wire == 0 && part.value == kUserDefined);
        if (part.number == 2 && part.wire == 5) {
          reader.require(std::isfinite(std::bit_cast<float>(static_cast<uint32_t>(part.value))),
                         "finite scores; piece " + std::to_string(pieces - 1) + " has another");
        }
      }
    } else if (field.number == 3 || field.number == 5) {
      while (inner.remaining() > 0) {
        const ProtobufField part = next_field(inner);
        if (part.number == 2 && part.wire == 2) check_character_map(part.bytes, name);
      }
    }
  }
  reader.require(pieces > 0, "a SentencePiece model with pieces; found none");
  return user_defined;
}

}  // namespace heed::text
