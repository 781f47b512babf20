// A parser and the file that it reads. A file of tests/fuzz/ names one; nothing else lists them:
//
//   HEED_FUZZ_TARGET(npy, .file = "array.npy", .read = [](const Path& file) { (void)heed::io::read_npy(file); })
//
// The same line serves two programs. libFuzzer's (built by `make fuzz`, one for each file) gives the parser random
// bytes; tests/malformed/ gives it the files that it must refuse, each for its reason.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace heed::fuzz {

using Path = std::filesystem::path;

struct Target {
  const char* name;
  const char* file;                                          // its name, which decides for some what it is
  void (*read)(const Path& file);                            // throws heed::Error, or does nothing
  void (*prepare)(const Path& folder) = nullptr;             // what has to lie beside the file
  std::string (*seal)(std::string_view contents) = nullptr;  // gives it right checksums, which no random bytes have
  const char* named = nullptr;                               // what messages name, where it is not `file`
};

// Every target that is linked into this program.
[[nodiscard]] std::vector<Target>& targets();

struct Registered {
  explicit Registered(const Target& target) { targets().push_back(target); }
};

// In the way of a fuzzer's input, or of a test: writes `contents` into `folder`, and reads it.
void write_input(const Target& target, const Path& folder, std::string_view contents);

// Whether `message`, of an Error, says what every message about a file must: which function, which file, in one line.
[[nodiscard]] bool names_the_file(const Target& target, std::string_view message);

}  // namespace heed::fuzz

#define HEED_FUZZ_TARGET(id, ...)                                                             \
  namespace {                                                                                 \
  using heed::fuzz::Path;                                                                     \
  const heed::fuzz::Registered registered_##id(heed::fuzz::Target{.name = #id, __VA_ARGS__}); \
  }
