// The cache of freed blocks behind every tensor and buffer.
#include "base/memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <mutex>

#include "base/fork.h"
#include "heed/error.h"
#include "heed/memory.h"

namespace heed {
namespace {

// In front of every block, one alignment unit wide so that the block itself stays aligned.
struct alignas(kAlignment) Header {
  int64_t bytes;  // of the size class
  void* mapped;   // the mapping that the block lies in, or null
  size_t mapped_bytes;
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

constexpr int64_t kAlwaysKept = int64_t{64} << 20;  // bytes of all blocks up to which none is given back unasked

// Blocks from 256 KB on are mapped one by one: what is given back leaves the process then, wherever it lies. malloc
// keeps such blocks in a heap that only shrinks from its end. (AddressSanitizer watches what malloc gives.)
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kMapped = std::numeric_limits<size_t>::max();
#else
constexpr size_t kMapped = size_t{1} << 18;
#endif
#if defined(__x86_64__)
constexpr size_t kPage = 4096;
#else
constexpr size_t kPage = 65536;  // the largest that systems use
#endif
// From twice this on blocks lie in huge pages, where the system gives them to those that ask: a training step with a
// vocabulary of 8,000 takes 0.28 s then on Zen 4 in a virtual machine, with pages of 4 kB 0.34.
constexpr size_t kHugePage = size_t{1} << 21;
// Blocks begin at different lines of their first page. If all began at the same, their numbers would share cache sets.
constexpr size_t kOffsets = 61;

Header& header_of(void* block) { return *reinterpret_cast<Header*>(static_cast<char*>(block) - sizeof(Header)); }

// Null where the system has none. The header and the first numbers have a page in front: a header in the first huge
// page would take 2 MB for a block that nobody ever uses, such as the weights of a model into which others are loaded.
void* map_block(size_t bytes) {
  static std::atomic<size_t> blocks{0};
  const bool huge = bytes >= 2 * kHugePage;
  const size_t size = (bytes + kPage - 1) / kPage * kPage, alignment = huge ? kHugePage : kPage;
  void* const mapped =
      ::mmap(nullptr, kPage + size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  // The page in front, aligned pages, and what the alignment leaves over before and behind, which goes back.
  char* const begin = static_cast<char*>(mapped);
  const size_t past = (reinterpret_cast<uintptr_t>(begin) + kPage) % alignment;
  const size_t before = past == 0 ? 0 : alignment - past, behind = alignment - before;
  char* const front = begin + before;
  if (before > 0) (void)::munmap(begin, before);
  if (behind > 0) (void)::munmap(front + kPage + size, behind);
#ifdef MADV_HUGEPAGE
  if (huge) (void)::madvise(front + kPage, size / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish
#endif
  const size_t offset = blocks.fetch_add(1, std::memory_order_relaxed) % kOffsets * kAlignment;
  void* const block = front + sizeof(Header) + offset;
  header_of(block) = {0, front, kPage + size};
  return block;
}

// Null where the system has none.
void* allocate(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  if (size >= kMapped) {
    void* const block = map_block(size);
    if (block != nullptr) header_of(block).bytes = bytes;
    return block;
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, sizeof(Header) + size) != 0) return nullptr;
  void* const block = static_cast<char*>(memory) + sizeof(Header);
  header_of(block) = {bytes, nullptr, 0};
  return block;
}

void give_back(void* block) {
  const Header header = header_of(block);
  if (header.mapped == nullptr) {
    std::free(&header_of(block));
  } else {
    (void)::munmap(header.mapped, header.mapped_bytes);
  }
}

struct FreeBlock {
  void* block;
  uint64_t freed;  // number of its release
};

struct Pool {
  ForkSafeMutex mutex;
  std::map<int64_t, std::deque<FreeBlock>> free_blocks;  // the last one freed is taken first
  uint64_t releases = 0;
  int64_t most_in_use = 0;                // since all that was free was given back
  std::map<int64_t, int64_t> given_back;  // by trim(), of each class, and not asked for since
  int64_t resident = 0;                   // in use when all that was free was given back: the weights of models
  int64_t allowance = 0;                  // what was asked for again
  MemoryStats stats;

  void count(int64_t bytes) {
    stats.bytes_in_use += bytes;
    if (stats.bytes_in_use > stats.peak_bytes) stats.peak_bytes = stats.bytes_in_use;
    if (stats.bytes_in_use > most_in_use) most_in_use = stats.bytes_in_use;
  }

  // Before a block of a class is asked of the system. Gives back what has been free for the longest time, until all
  // blocks, those in use included, take no more than the most that was in use since loading, plus a quarter of the part
  // of it that is not weights. Otherwise batches of many sizes would leave a pool of blocks that few requests fit: 73
  // MB beside the 58 that a translation uses at most. What is asked for again after it was given back, as by every step
  // of a training, is allowed from then on.
  void trim(int64_t bytes) {
    if (const auto again = given_back.find(bytes); again != given_back.end() && again->second > 0) {
      --again->second;
      allowance += bytes;
    }
    const int64_t most = std::max(most_in_use, stats.bytes_in_use + bytes);
    const int64_t limit = std::max(kAlwaysKept, most + (most - std::min(most, resident)) / 4 + allowance) - bytes;
    while (stats.bytes_cached > 0 && stats.bytes_in_use + stats.bytes_cached > limit) {
      auto oldest = free_blocks.end();
      for (auto blocks = free_blocks.begin(); blocks != free_blocks.end(); ++blocks) {
        if (blocks->second.empty()) continue;
        if (oldest == free_blocks.end() || blocks->second.front().freed < oldest->second.front().freed) oldest = blocks;
      }
      ++given_back[oldest->first];
      give_back(oldest->second.front().block);
      stats.bytes_cached -= oldest->first;
      oldest->second.pop_front();
    }
  }
};

// Never destroyed: tensors with static storage may outlive any pool.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}
const MadeBeforeFork kPool([] { (void)pool(); });

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
      void* const block = blocks->second.back().block;
      blocks->second.pop_back();
      p.stats.bytes_cached -= size;
      p.count(size);
      return block;
    }
    p.trim(rounded);
  }
  void* block = allocate(rounded);
  if (block == nullptr) {
    release_cached_memory();  // what lies unused may be just what is missing
    block = allocate(rounded);
  }
  require(block != nullptr, "memory", "room for ", bytes, " bytes; the system has none left");
  const std::scoped_lock lock(p.mutex);
  p.count(rounded);
  ++p.stats.system_allocations;
  return block;
}

void release_memory(void* block) noexcept {
  if (block == nullptr) return;
  const int64_t bytes = header_of(block).bytes;
  Pool& p = pool();
  const std::scoped_lock lock(p.mutex);
  p.stats.bytes_in_use -= bytes;
  p.stats.bytes_cached += bytes;
  p.free_blocks[bytes].push_back({block, ++p.releases});
}

void give_heap_back() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
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
    for (const FreeBlock& each : blocks) give_back(each.block);
    p.stats.bytes_cached -= bytes * static_cast<int64_t>(blocks.size());
    blocks.clear();
  }
  p.resident = p.most_in_use = p.stats.bytes_in_use;
  p.given_back.clear();
  p.allowance = 0;
}

}  // namespace heed
