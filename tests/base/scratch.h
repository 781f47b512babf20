// What tests of files share: a folder that vanishes, and "this throws saying that".
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "heed/error.h"

namespace heed::test {

// A new empty folder, removed with everything in it.
class Scratch {
 public:
  // In memory where there is such a place: ext4 waits for the disk whenever a file is written over (2 ms each).
  Scratch() : Scratch(::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path()) {}
  [[nodiscard]] static Scratch on_disk() { return Scratch(std::filesystem::temp_directory_path()); }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  // Writes a file and returns its path.
  std::filesystem::path file(std::string_view name, std::string_view contents) const {
    std::ofstream(path_ / name, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
    return path_ / name;
  }
  [[nodiscard]] int64_t count() const {
    int64_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++files;
    return files;
  }

 private:
  explicit Scratch(const std::filesystem::path& parent) {
    std::string name = (parent / "heed-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder");
    path_ = name;
  }

  std::filesystem::path path_;
};

inline std::string contents_of(const std::filesystem::path& file) {
  std::ostringstream out;
  out << std::ifstream(file, std::ios::binary).rdbuf();
  return out.str();
}

inline std::string from_hex(std::string_view hex) {
  std::string bytes;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return bytes;
}

template <class F>
void expect_error(F&& f, std::string_view part) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown; expected an Error with: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what() << "\nlacks: " << part;
    EXPECT_EQ(error.what()[0], '[') << error.what();
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
  }
}

}  // namespace heed::test
