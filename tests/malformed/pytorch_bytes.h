// Files as torch.save() writes them, byte by byte, in both of its formats.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "malformed/cases.h"
#include "malformed/zip.h"

namespace heed::malformed::pytorch {

// The instructions of a pickle that make a value.
[[nodiscard]] inline std::string text(std::string_view value) {
  return "X" + bytes_of(static_cast<uint32_t>(value.size())).append(value);
}
[[nodiscard]] inline std::string whole(int64_t number) {
  if (number >= INT32_MIN && number <= INT32_MAX) return "J" + bytes_of(static_cast<int32_t>(number));
  return "\x8a\x08" + bytes_of(number);
}
[[nodiscard]] inline std::string tuple(const std::vector<int64_t>& numbers) {
  std::string bytes = "(";
  for (const int64_t number : numbers) bytes += whole(number);
  return bytes + "t";
}
[[nodiscard]] inline std::string name(std::string_view module, std::string_view of) {
  return std::string("c").append(module).append("\n").append(of).append("\n");
}

struct Storage {
  std::string type = "FloatStorage";
  std::string key = "0";
  int64_t numbers = 0;
};
// `end` is what older files have behind the size.
[[nodiscard]] inline std::string reference(const Storage& storage, std::string_view end = "") {
  return "(" + text("storage") + name("torch", storage.type) + text(storage.key) + text("cpu") +
         whole(storage.numbers).append(end) + "tQ";
}
[[nodiscard]] inline std::string tensor(const std::string& storage, const std::vector<int64_t>& extents,
                                        const std::vector<int64_t>& strides, int64_t first = 0,
                                        std::string_view function = "_rebuild_tensor_v2") {
  const std::string numbers = storage + whole(first) + tuple(extents) + tuple(strides);
  const bool older = function == "_rebuild_tensor";
  const std::string more = older ? "" : "\x89" + name("collections", "OrderedDict") + ")R";
  return name("torch._utils", function) + "(" + numbers + more + "tR";
}
[[nodiscard]] inline std::string table(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string bytes = name("collections", "OrderedDict") + ")R(";
  for (const auto& [key, value] : entries) bytes += text(key) + value;
  return bytes + "u";
}
[[nodiscard]] inline std::string pickle(std::string_view instructions) {
  return std::string("\x80\2").append(instructions) + ".";
}

// An older file: `storages` are keys and bytes, of four-byte numbers.
inline const std::string kMagic("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20j\xa8\x50\x19.", 15);
[[nodiscard]] inline std::string old_head(std::string_view little = "\x88", int64_t version = 1001) {
  return kMagic + pickle(whole(version)) + pickle("}(" + text("little_endian").append(little) + "u");
}
[[nodiscard]] inline std::string old_file(std::string_view instructions,
                                          const std::vector<std::pair<std::string, std::string>>& storages) {
  std::string keys = "](", data;
  for (const auto& [key, bytes] : storages) {
    keys += text(key);
    data += bytes_of(static_cast<int64_t>(bytes.size() / 4)) + bytes;
  }
  return old_head() + pickle(instructions) + pickle(keys + "e") + data;
}

// A newer file.
[[nodiscard]] inline Zip zip_file(std::string_view instructions,
                                  const std::vector<std::pair<std::string, std::string>>& storages,
                                  std::string_view order = "little") {
  ZipMembers members = {{"archive/data.pkl", pickle(instructions)}, {"archive/byteorder", std::string(order)}};
  for (const auto& [key, bytes] : storages) members.emplace_back("archive/data/" + key, bytes);
  return zip(members);
}

}  // namespace heed::malformed::pytorch
