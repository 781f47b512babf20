// The linker replaces the parsers' calls of open() and its kin by these (--wrap, in CMakeLists.txt).
#include "fuzz/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string>

namespace {

// No descriptor of the system is as large.
constexpr int kFirstDescriptor = 1 << 30;

std::string name;
std::string_view bytes;
int opened = 0;  // since the bytes were given
std::set<int> descriptors;
std::map<char*, size_t> mappings;

void require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "the file in memory: %s\n", what);
  std::abort();
}

// Whether `descriptor` is of the file in memory.
bool is_own(int descriptor) {
  if (descriptor < kFirstDescriptor) return false;
  require(descriptors.contains(descriptor), "used after it was closed");
  return true;
}

}  // namespace

namespace heed::fuzz {

void serve_from_memory(const Path& file, std::string_view contents) {
  name = file.string();
  bytes = contents;
  opened = 0;
}

void require_all_returned() {
  require(opened > 0, "not opened");
  require(descriptors.empty(), "not closed");
  require(mappings.empty(), "not unmapped");
}

}  // namespace heed::fuzz

extern "C" {

int __real_open(const char* path, int flags, ...);
int __real_close(int descriptor);
int __real_fstat(int descriptor, struct stat* info);
ssize_t __real_pread(int descriptor, void* to, size_t count, off_t offset);
void* __real_mmap(void* address, size_t size, int protection, int flags, int descriptor, off_t offset);
int __real_munmap(void* address, size_t size);
int __real_madvise(void* address, size_t size, int advice);

int __wrap_open(const char* path, int flags, ...) {
  if (!name.empty() && name == path) {
    const int descriptor = kFirstDescriptor + opened++;
    descriptors.insert(descriptor);
    return descriptor;
  }
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return __real_open(path, flags, mode);
}

int __wrap_close(int descriptor) {
  if (!is_own(descriptor)) return __real_close(descriptor);
  descriptors.erase(descriptor);
  return 0;
}

int __wrap_fstat(int descriptor, struct stat* info) {
  if (!is_own(descriptor)) return __real_fstat(descriptor, info);
  *info = {};
  info->st_mode = S_IFREG | 0666;
  info->st_size = static_cast<off_t>(bytes.size());
  return 0;
}

ssize_t __wrap_pread(int descriptor, void* to, size_t count, off_t offset) {
  if (!is_own(descriptor)) return __real_pread(descriptor, to, count, offset);
  if (offset < 0 || static_cast<size_t>(offset) >= bytes.size()) return 0;
  const std::string_view found = bytes.substr(static_cast<size_t>(offset), count);
  std::memcpy(to, found.data(), found.size());
  return static_cast<ssize_t>(found.size());
}

// A copy, which may be written as a private mapping may, aligned as tensors need it and not to a whole page.
void* __wrap_mmap(void* address, size_t size, int protection, int flags, int descriptor, off_t offset) {
  if (!is_own(descriptor)) return __real_mmap(address, size, protection, flags, descriptor, offset);
  require(offset == 0 && size == bytes.size(), "mapped in part");
  void* copy = nullptr;
  if (const int error = ::posix_memalign(&copy, 64, size); error != 0) {
    errno = error;
    return MAP_FAILED;
  }
  std::memcpy(copy, bytes.data(), size);
  mappings[static_cast<char*>(copy)] = size;
  return copy;
}

int __wrap_munmap(void* address, size_t size) {
  const auto found = mappings.find(static_cast<char*>(address));
  if (found == mappings.end()) return __real_munmap(address, size);
  require(found->second == size, "unmapped in part");
  mappings.erase(found);
  std::free(address);
  return 0;
}

// Of a part of a mapping, too: giving its pages back would clear bytes of the heap.
int __wrap_madvise(void* address, size_t size, int advice) {
  const auto after = mappings.upper_bound(static_cast<char*>(address));
  if (after != mappings.begin()) {
    const auto [begin, mapped] = *std::prev(after);
    if (static_cast<char*>(address) < begin + mapped) return 0;
  }
  return __real_madvise(address, size, advice);
}

}  // extern "C"
