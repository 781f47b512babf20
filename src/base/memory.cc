// The cache of freed blocks behind every tensor and buffer.
#include "base/memory.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "heed/error.h"
#include "heed/memory.h"

namespace heed {
namespace {

// In front of every block, one alignment unit wide so that the block itself stays aligned.
struct alignas(kAlignment) Header {
  int64_t bytes;  // of the size class
};
static_assert(sizeof(Header) == kAlignment);

// Four classes between powers of two: at most a quarter of a block is unused.
int64_t size_class(int64_t bytes) {
  constexpr int64_t kSmallest = 256;
  if (bytes <= kSmallest) return kSmallest;
  const int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes - 1))) / 4;
  return (bytes + step - 1) / step * step;
}

// A free block of one of so many classes is taken, the own class first: one up to twice as large as asked for. The
// batches of a translation all have other sizes; with the own class alone nearly every batch asked the system for new
// pages, whose clearing took 4 to 8 % of its time on Zen 4.
constexpr int kClassesTried = 4;

struct Pool {
  std::mutex mutex;
  std::unordered_map<int64_t, std::vector<void*>> free_blocks;
  MemoryStats stats;

  void count(int64_t bytes) {
    stats.bytes_in_use += bytes;
    if (stats.bytes_in_use > stats.peak_bytes) stats.peak_bytes = stats.bytes_in_use;
  }
};

// Never destroyed: tensors with static storage may outlive any pool.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

// Blocks from 4 MB on lie in huge pages, where the system gives them to those that ask: a training step with a
// vocabulary of 8,000 takes 0.28 s then on Zen 4 in a virtual machine, with pages of 4 kB 0.34. The header has a small
// page before them: in the first huge page it would take 2 MB for a block that nobody ever uses, such as the weights of
// a model into which others are loaded.
constexpr size_t kHugePage = size_t{1} << 21;
bool is_huge(int64_t bytes) { return static_cast<size_t>(bytes) >= 2 * kHugePage; }

// Where the memory begins that was allocated for a block.
void* memory_of(void* block, int64_t bytes) {
  return static_cast<char*>(block) - (is_huge(bytes) ? kHugePage : sizeof(Header));
}

Header& header_of(void* block) { return *reinterpret_cast<Header*>(static_cast<char*>(block) - sizeof(Header)); }

// Null where the system has none.
void* allocate(int64_t bytes) {
  const size_t before = is_huge(bytes) ? kHugePage : sizeof(Header), size = static_cast<size_t>(bytes);
  void* memory = nullptr;
  if (posix_memalign(&memory, is_huge(bytes) ? kHugePage : kAlignment, before + size) != 0) return nullptr;
  void* const block = static_cast<char*>(memory) + before;
#ifdef MADV_HUGEPAGE
  if (is_huge(bytes)) (void)madvise(block, size / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish
#endif
  header_of(block).bytes = bytes;
  return block;
}

}  // namespace

void* acquire_memory(int64_t bytes) {
  require(bytes >= 0 && bytes <= std::numeric_limits<int64_t>::max() / 4, "memory",
          "a size that fits the machine; found ", bytes, " bytes");
  const int64_t rounded = size_class(bytes);
  Pool& p = pool();
  {
    const std::scoped_lock lock(p.mutex);
    int64_t size = rounded;
    for (int tries = 0; tries < kClassesTried; ++tries, size = size_class(size + 1)) {
      const auto blocks = p.free_blocks.find(size);
      if (blocks == p.free_blocks.end() || blocks->second.empty()) continue;
      void* const block = blocks->second.back();
      blocks->second.pop_back();
      p.stats.bytes_cached -= size;
      p.count(size);
      return block;
    }
    p.count(rounded);
    ++p.stats.system_allocations;
  }
  void* block = allocate(rounded);
  if (block == nullptr) {
    release_cached_memory();  // what lies unused may be just what is missing
    block = allocate(rounded);
    if (block == nullptr) {
      const std::scoped_lock lock(p.mutex);
      p.stats.bytes_in_use -= rounded;
      fail("memory", "room for ", bytes, " bytes; the system has none left");
    }
  }
  return block;
}

void release_memory(void* block) noexcept {
  if (block == nullptr) return;
  const int64_t bytes = header_of(block).bytes;
  Pool& p = pool();
  const std::scoped_lock lock(p.mutex);
  p.stats.bytes_in_use -= bytes;
  p.stats.bytes_cached += bytes;
  p.free_blocks[bytes].push_back(block);
}

MemoryStats memory_stats() {
  Pool& p = pool();
  const std::scoped_lock lock(p.mutex);
  return p.stats;
}

void reset_peak_memory() {
  Pool& p = pool();
  const std::scoped_lock lock(p.mutex);
  p.stats.peak_bytes = p.stats.bytes_in_use;
}

void release_cached_memory() {
  Pool& p = pool();
  const std::scoped_lock lock(p.mutex);
  for (auto& [bytes, blocks] : p.free_blocks) {
    for (void* block : blocks) std::free(memory_of(block, bytes));
    p.stats.bytes_cached -= bytes * static_cast<int64_t>(blocks.size());
    blocks.clear();
  }
}

}  // namespace heed
