// Blocks are aligned, reused, and counted.
#include "base/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "heed/error.h"
#include "heed/memory.h"
#include "heed/tensor.h"

namespace heed {
namespace {

TEST(Memory, BlocksAreAlignedAndWritable) {
  for (const int64_t bytes : {0, 1, 63, 64, 65, 255, 256, 257, 1000, 4097, (1 << 18) - 1, 1 << 18, 1 << 20,
                              (1 << 22) - 1, 1 << 22, 9'000'001}) {
    void* const block = acquire_memory(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kAlignment, 0u);
    std::memset(block, 0xAB, static_cast<size_t>(bytes));
    release_memory(block);
  }
}

TEST(Memory, AFreedBlockIsUsedAgain) {
  release_memory(acquire_memory(100000));
  const int64_t before = memory_stats().system_allocations;
  for (int i = 0; i < 100; ++i) Buffer<float> buffer(25000 - i);  // the same size class
  EXPECT_EQ(memory_stats().system_allocations, before);
  release_cached_memory();
  EXPECT_EQ(memory_stats().bytes_cached, 0);
  Buffer<float> again(25000);
  EXPECT_EQ(memory_stats().system_allocations, before + 1);
}

// The batches of a translation all have other sizes.
TEST(Memory, ALargerBlockServesUpToTwiceItsSize) {
  release_cached_memory();
  release_memory(acquire_memory(1'000'000));
  const int64_t before = memory_stats().system_allocations;
  {
    const Buffer<char> half(600'000);
    EXPECT_EQ(memory_stats().system_allocations, before);
    const Buffer<char> tenth(100'000);  // there is none for it
    EXPECT_EQ(memory_stats().system_allocations, before + 1);
  }
  const int64_t in_use = memory_stats().bytes_in_use;
  const Buffer<char> whole(1'000'000);
  EXPECT_EQ(memory_stats().system_allocations, before + 1);
  EXPECT_GE(memory_stats().bytes_in_use, in_use + 1'000'000);
}

// Without a limit, each of these would stay.
TEST(Memory, FreeBlocksTakeLittleBesideTheMostThatWasInUse) {
  release_cached_memory();
  int64_t largest = 0;
  for (double size = 8e6; size < 2e8; size *= 1.7) {
    largest = static_cast<int64_t>(size);
    release_memory(acquire_memory(largest));
  }
  const MemoryStats stats = memory_stats();
  EXPECT_LE(stats.bytes_in_use + stats.bytes_cached, largest * 5 / 4 * 5 / 4);  // a class is up to a quarter larger
  EXPECT_GE(stats.bytes_cached, largest);
  release_cached_memory();
}

// The weights of a model take no part in how much is kept.
TEST(Memory, WhatStaysInUseKeepsNoBlocksFree) {
  release_cached_memory();
  const Buffer<char> weights(int64_t{1} << 30);
  release_cached_memory();
  const int64_t resident = memory_stats().bytes_in_use;
  int64_t largest = 0;
  for (double size = 8e6; size < 2e8; size *= 1.7) {
    largest = static_cast<int64_t>(size);
    release_memory(acquire_memory(largest));
  }
  const MemoryStats stats = memory_stats();
  EXPECT_LE(stats.bytes_in_use + stats.bytes_cached, resident + largest * 5 / 4 * 5 / 4);
  EXPECT_GE(stats.bytes_cached, largest);
  release_cached_memory();
}

#if !defined(__SANITIZE_ADDRESS__)
int64_t resident_pages() {
  std::ifstream statm("/proc/self/statm");
  int64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident;
}

TEST(Memory, WhatIsGivenBackLeavesTheProcess) {
  release_cached_memory();
  constexpr int64_t kSize = 3 << 20;
  std::vector<void*> blocks;
  std::vector<std::unique_ptr<int[]>> between;  // that malloc keeps
  for (int i = 0; i < 12; ++i) {
    blocks.push_back(acquire_memory(kSize));
    std::memset(blocks.back(), 1, kSize);
    between.push_back(std::make_unique<int[]>(1000));
  }
  const int64_t before = resident_pages();
  for (void* const block : blocks) release_memory(block);
  release_cached_memory();
  EXPECT_LT(resident_pages() * ::sysconf(_SC_PAGESIZE), before * ::sysconf(_SC_PAGESIZE) - 11 * kSize);
}
#endif

TEST(Memory, AnImpossibleSizeIsAnError) {
  const MemoryStats before = memory_stats();
  EXPECT_THROW((void)acquire_memory(int64_t{1} << 60), Error);
  EXPECT_THROW((void)acquire_memory(-1), Error);
  EXPECT_EQ(memory_stats().bytes_in_use, before.bytes_in_use);
  EXPECT_EQ(memory_stats().peak_bytes, before.peak_bytes);
}

}  // namespace
}  // namespace heed
