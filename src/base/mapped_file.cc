#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/fork.h"
#include "heed/error.h"

namespace heed::files {
namespace {

// Linux cuts a larger request to what the disk takes at once, often to 128 KB, and forgets the rest.
constexpr int64_t kRequest = int64_t{1} << 17;

// Where files are mapped for MapFor::memory, and their sizes.
struct MemoryMappings {
  ForkSafeMutex mutex;
  std::map<const char*, int64_t> sizes;
};

MemoryMappings& memory_mappings() {
  static auto* const all = new MemoryMappings;  // tensors may outlive what static variables own
  return *all;
}
const MadeBeforeFork kMemoryMappings([] { (void)memory_mappings(); });

}  // namespace

MappedFile::MappedFile(std::filesystem::path file, std::string_view function, MapFor use)
    : path_(std::move(file)), function_(function) {
  const InputFile refuses_what_is_no_file(path_, function);
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat info {};
  void* mapped = MAP_FAILED;
  if (descriptor_ >= 0 && ::fstat(descriptor_, &info) == 0) {
    size_ = info.st_size;
    if (size_ == 0) return;
    mapped = use == MapFor::lookups
                 ? ::mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_SHARED, descriptor_, 0)
                 : ::mmap(nullptr, static_cast<size_t>(size_), PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor_, 0);
  }
  if (mapped == MAP_FAILED) {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    fail("a file that can be mapped into memory; " + std::generic_category().message(error));
  }
  data_ = static_cast<char*>(mapped);
  if (use == MapFor::memory) {
    const std::scoped_lock lock(memory_mappings().mutex);
    memory_mappings().sizes[data_] = size_;
    ::close(std::exchange(descriptor_, -1));  // a model of many files must not use up what a process may have open
    return;
  }
  // Sentences are read here and there: reading ahead would fetch what nobody asks for. Before bytes are read in order,
  // will_read() fetches them.
  (void)::madvise(mapped, static_cast<size_t>(size_), MADV_RANDOM);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    const std::scoped_lock lock(memory_mappings().mutex);
    memory_mappings().sizes.erase(data_);
    ::munmap(data_, static_cast<size_t>(size_));
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MappedFile::check() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0 || info.st_size != size_) {
    fail("a file that keeps its size, " + std::to_string(size_) + " bytes, while it is read; found " +
         std::to_string(info.st_size));
  }
}

void MappedFile::will_read(int64_t begin, int64_t bytes) const {
  const int64_t end = std::min(begin + bytes, size_);
  if (begin >= end) return;
  for (int64_t at = begin / kRequest * kRequest; at < end; at += kRequest) {  // from the beginning of a page
    (void)::madvise(data_ + at, static_cast<size_t>(std::min(kRequest, end - at)), MADV_WILLNEED);
  }
}

void MappedFile::release() const {
  if (data_ != nullptr) (void)::madvise(data_, static_cast<size_t>(size_), MADV_DONTNEED);
}

void give_pages_back(const void* data, int64_t bytes) {
  if (bytes <= 0) return;
  const char* const begin = static_cast<const char*>(data);
  MemoryMappings& all = memory_mappings();
  const std::scoped_lock lock(all.mutex);
  auto mapping = all.sizes.upper_bound(begin);
  if (mapping == all.sizes.begin()) return;
  --mapping;
  const int64_t page = ::sysconf(_SC_PAGESIZE), first = begin - mapping->first;
  if (first + bytes > mapping->second) return;
  const int64_t from = first / page * page;  // pages that lie partly outside come back as they were, too
  (void)::madvise(const_cast<char*>(mapping->first) + from, static_cast<size_t>(first + bytes - from), MADV_DONTNEED);
}

void MappedFile::fail(std::string_view what) const { heed::fail(function_, quoted(path_), ": ", what); }

}  // namespace heed::files
