// Zip archives with stored members, byte by byte.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "malformed/cases.h"

namespace heed::malformed {

// Where the parts of an archive are: the data of its first member, the directory, and its end.
struct Zip {
  std::string bytes = {};
  size_t data = 0, central = 0, end = 0;
  [[nodiscard]] std::string with(size_t at, std::string_view part) const { return patched(bytes, at, part); }
};

using ZipMembers = std::vector<std::pair<std::string, std::string>>;  // names and data

[[nodiscard]] inline Zip zip(const ZipMembers& members) {
  const std::string none = bytes_of(uint16_t{0});
  Zip made;
  std::string directory;
  for (const auto& [name, data] : members) {
    const auto crc = static_cast<uint32_t>(
        ::crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
    const auto size = bytes_of(static_cast<uint32_t>(data.size()));
    const std::string head = bytes_of(uint16_t{20}) + none + none + bytes_of(uint32_t{0x210000}) + bytes_of(crc) +
                             size + size + bytes_of(static_cast<uint16_t>(name.size())) + none;
    directory += "PK\1\2" + bytes_of(uint16_t{20}) + head + none + none + none + bytes_of(uint32_t{0}) +
                 bytes_of(static_cast<uint32_t>(made.bytes.size())) + name;
    made.bytes += "PK\3\4" + head + name;
    if (made.data == 0) made.data = made.bytes.size();
    made.bytes += data;
  }
  made.central = made.bytes.size();
  made.bytes += directory;
  made.end = made.bytes.size();
  const std::string count = bytes_of(static_cast<uint16_t>(members.size()));
  made.bytes += "PK\5\6" + none + none + count + count + bytes_of(static_cast<uint32_t>(directory.size())) +
                bytes_of(static_cast<uint32_t>(made.central)) + none;
  return made;
}

}  // namespace heed::malformed
