// What libFuzzer calls: random bytes become the file of the one target that is linked in.
//
// A finding is whatever is not "read" or a heed::Error that names the file: another exception, a crash, a report of a
// sanitizer, a message without the file.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "fuzz/memory_file.h"
#include "fuzz/target.h"
#include "heed/error.h"

namespace {

using heed::fuzz::Path;

// In memory, and gone when the fuzzer is.
class Folder {
 public:
  Folder() {
    std::string name =
        (Path(::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp") / "heed-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const Path& path() const { return path_; }

 private:
  Path path_;
};

// The file that the target reads: it exists in the folder, and its bytes lie in memory.
class Input {
 public:
  explicit Input(const Path& path) : path_(path) {
    if (!std::ofstream(path)) throw std::runtime_error("cannot write " + path.string());
  }
  void set(std::string contents) {
    contents_ = std::move(contents);
    heed::fuzz::serve_from_memory(path_, contents_);
  }
  [[nodiscard]] const Path& path() const { return path_; }

 private:
  Path path_;
  std::string contents_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const heed::fuzz::Target target = heed::fuzz::targets().at(0);
  static const Folder folder;
  static Input input = [] {
    if (target.prepare != nullptr) target.prepare(folder.path());
    return Input(folder.path() / target.file);
  }();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  input.set(target.seal != nullptr ? target.seal(bytes) : std::string(bytes));
  try {
    target.read(input.path());
  } catch (const heed::Error& error) {
    if (!heed::fuzz::names_the_file(target, error.what())) {
      std::fprintf(stderr, "a message without its file, or of several lines: %s\n", error.what());
      std::abort();
    }
  }
  heed::fuzz::require_all_returned();
  return 0;
}
