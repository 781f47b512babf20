// What libFuzzer calls: random bytes become the file of the one target that is linked in.
//
// A finding is whatever is not "read" or a heed::Error that names the file: another exception, a crash, a report of a
// sanitizer, a message without the file.
#include <fcntl.h>
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

// The file that the target reads. It stays open: that takes half of the time that a new one takes.
class Input {
 public:
  explicit Input(const Path& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) throw std::runtime_error("cannot write " + path.string());
  }
  ~Input() { ::close(descriptor_); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  void set(std::string_view contents) {
    const auto size = static_cast<ssize_t>(contents.size());
    if (::pwrite(descriptor_, contents.data(), contents.size(), 0) != size ||
        (size < size_ && ::ftruncate(descriptor_, size) != 0))
      throw std::runtime_error("cannot write " + path_.string());
    size_ = size;
  }
  [[nodiscard]] const Path& path() const { return path_; }

 private:
  Path path_;
  int descriptor_;
  ssize_t size_ = 0;
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
  input.set(target.seal != nullptr ? target.seal(bytes) : bytes);
  try {
    target.read(input.path());
  } catch (const heed::Error& error) {
    if (heed::fuzz::names_the_file(target, error.what())) return 0;
    std::fprintf(stderr, "a message without its file, or of several lines: %s\n", error.what());
    std::abort();
  }
  return 0;
}
