// The directory of a zip archive: where each member's bytes are, checked before anyone reads them.
//
// Only the central directory at the end of the file is believed, and only after it has been checked: members lie inside
// the file, do not overlap, and cannot be larger than deflate can make them. PKWARE APPNOTE 6.3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace heed::io {

inline constexpr uint32_t kZipLocalSignature = 0x04034b50, kZipCentralSignature = 0x02014b50,
                          kZipEndSignature = 0x06054b50;
// The largest number of a field. In the directory it says that the value stands in a zip64 field.
inline constexpr int64_t kZipMost32 = 0xffffffff, kZipMost16 = 0xffff;

struct ZipMember {
  std::string name;  // a key and nothing else: never a path
  bool deflated = false;
  uint32_t crc = 0;
  int64_t packed = 0;    // bytes in the file
  int64_t unpacked = 0;  // bytes of the member
  int64_t local = 0;     // where its local header is
  int64_t data = 0;      // where its bytes begin
};

// In the order in which they lie in the file. `what` says in messages what the file should be: "an .npz file".
[[nodiscard]] std::vector<ZipMember> read_zip_members(const files::InputFile& input, std::string_view what,
                                                      std::string_view function);

}  // namespace heed::io
