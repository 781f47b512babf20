// Aligned memory that is kept for reuse: after the first steps of a training nothing is asked of the system any more.
//
// Thread-safe. Blocks are rounded up to a size class; a freed block goes to the list of its class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace heed {

inline constexpr size_t kAlignment = 64;  // a cache line, and an AVX-512 vector

// At least `bytes` bytes aligned to kAlignment, contents arbitrary. Throws Error when there is no memory.
[[nodiscard]] void* acquire_memory(int64_t bytes);
void release_memory(void* block) noexcept;

// Gives the free pages of the heap, which the standard library's containers use, back to the system. After a vocabulary
// of 250,000 tokens was read, that was 90 MB. It takes a few milliseconds.
void give_heap_back();

// Scratch of `count` elements, contents arbitrary.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t count)
      : data_(static_cast<T*>(acquire_memory(count * static_cast<int64_t>(sizeof(T))))), size_(count) {}
  ~Buffer() { release_memory(data_); }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] int64_t size() const { return size_; }
  [[nodiscard]] T& operator[](int64_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace heed
