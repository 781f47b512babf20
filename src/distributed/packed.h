// Numbers and texts as one run of bytes: what a message holds.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "heed/error.h"

namespace heed::distributed {

class Packer {
 public:
  Packer& add(int64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  Packer& add(std::string_view text) {
    add(static_cast<int64_t>(text.size()));
    bytes_ += text;
    return *this;
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Takes them out again in the same order. The bytes must outlive it.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] int64_t number() {
    int64_t number = 0;
    std::memcpy(&number, bytes(sizeof number).data(), sizeof number);
    return number;
  }
  [[nodiscard]] std::string_view text() { return bytes(static_cast<size_t>(number())); }

 private:
  std::string_view bytes(size_t count) {
    require(count <= bytes_.size(), "distributed", "a message with ", count, " bytes more; found ", bytes_.size());
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::string_view bytes_;
};

}  // namespace heed::distributed
