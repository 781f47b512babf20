// The cache of freed blocks behind every tensor and buffer.
#include "base/memory.h"

#include <bit>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "heed/error.h"
#include "heed/tensor.h"

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

struct Pool {
  std::mutex mutex;
  std::unordered_map<int64_t, std::vector<void*>> free_blocks;
  MemoryStats stats;
};

// Never destroyed: tensors with static storage may outlive any pool.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

}  // namespace

void* acquire_memory(int64_t bytes) {
  require(bytes >= 0 && bytes <= std::numeric_limits<int64_t>::max() / 4, "memory",
          "a size that fits the machine; found ", bytes, " bytes");
  const int64_t rounded = size_class(bytes);
  Pool& p = pool();
  {
    const std::scoped_lock lock(p.mutex);
    p.stats.bytes_in_use += rounded;
    if (p.stats.bytes_in_use > p.stats.peak_bytes) p.stats.peak_bytes = p.stats.bytes_in_use;
    auto& blocks = p.free_blocks[rounded];
    if (!blocks.empty()) {
      void* const block = blocks.back();
      blocks.pop_back();
      p.stats.bytes_cached -= rounded;
      return block;
    }
    ++p.stats.system_allocations;
  }
  void* memory = nullptr;
  const size_t total = static_cast<size_t>(rounded) + sizeof(Header);
  if (posix_memalign(&memory, kAlignment, total) != 0) {
    release_cached_memory();  // what lies unused may be just what is missing
    if (posix_memalign(&memory, kAlignment, total) != 0) {
      const std::scoped_lock lock(p.mutex);
      p.stats.bytes_in_use -= rounded;
      fail("memory", "room for ", bytes, " bytes; the system has none left");
    }
  }
  static_cast<Header*>(memory)->bytes = rounded;
  return static_cast<char*>(memory) + sizeof(Header);
}

void release_memory(void* block) noexcept {
  if (block == nullptr) return;
  const int64_t bytes = reinterpret_cast<Header*>(static_cast<char*>(block) - sizeof(Header))->bytes;
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
    for (void* block : blocks) std::free(static_cast<char*>(block) - sizeof(Header));
    p.stats.bytes_cached -= bytes * static_cast<int64_t>(blocks.size());
    blocks.clear();
  }
}

}  // namespace heed
