// What libFuzzer calls: random bytes become the file of the one target that is linked in.
//
// A finding is whatever is not "read" or a heed::Error that names the file: another exception, a crash, a report of a
// sanitizer, a message without the file.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const heed::fuzz::Target target = heed::fuzz::targets().at(0);
  static const Folder folder;
  static const bool prepared = [] {
    if (target.prepare != nullptr) target.prepare(folder.path());
    return true;
  }();
  (void)prepared;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  heed::fuzz::write_input(target, folder.path(), target.seal != nullptr ? target.seal(bytes) : std::string(bytes));
  try {
    target.read(folder.path() / target.file);
  } catch (const heed::Error& error) {
    if (heed::fuzz::names_the_file(target, error.what())) return 0;
    std::fprintf(stderr, "a message without its file, or of several lines: %s\n", error.what());
    std::abort();
  }
  return 0;
}
