// Blocks are aligned, reused, and counted.
#include "base/memory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "heed/error.h"
#include "heed/memory.h"
#include "heed/tensor.h"

namespace heed {
namespace {

TEST(Memory, BlocksAreAlignedAndWritable) {
  for (const int64_t bytes : {0, 1, 63, 64, 65, 255, 256, 257, 1000, 4097, 1 << 20}) {
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

TEST(Memory, AnImpossibleSizeIsAnError) {
  const MemoryStats before = memory_stats();
  EXPECT_THROW((void)acquire_memory(int64_t{1} << 60), Error);
  EXPECT_THROW((void)acquire_memory(-1), Error);
  EXPECT_EQ(memory_stats().bytes_in_use, before.bytes_in_use);
}

}  // namespace
}  // namespace heed
