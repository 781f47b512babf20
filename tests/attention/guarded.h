// Tensors in memory that ends, or begins, where touching is fatal.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "heed/tensor.h"

namespace heed::testing {

// A dense copy between two pages that must not be touched.
class Guarded {
 public:
  explicit Guarded(const Tensor& source, bool at_end = true) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes = static_cast<size_t>(source.nbytes());
    size_ = (bytes + page - 1) / page * page + 2 * page;
    memory_ = static_cast<char*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + page, size_ - 2 * page, PROT_READ | PROT_WRITE);
    tensor = Tensor::wrap(at_end ? memory_ + size_ - page - bytes : memory_ + page, source.shape(), source.dtype());
    if (bytes > 0) tensor.copy_from(source);
  }
  ~Guarded() { munmap(memory_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  Tensor tensor;

 private:
  char* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace heed::testing
