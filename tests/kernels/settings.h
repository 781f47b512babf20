// Settings of the process that a test changes and puts back.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "heed/cpu.h"

namespace heed::testing {

class SettingsScope {
 public:
  SettingsScope() : isa_(active_isa()), threads_(num_threads()) {}
  ~SettingsScope() {
    set_isa(isa_);
    set_num_threads(threads_);
  }
  SettingsScope(const SettingsScope&) = delete;
  SettingsScope& operator=(const SettingsScope&) = delete;

 private:
  Isa isa_;
  int threads_;
};

// f() on every instruction set of this machine.
template <class F>
void on_every_isa(F&& f) {
  const SettingsScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    ASSERT_EQ(active_isa(), isa);
    SCOPED_TRACE(std::string(to_string(isa)));
    f();
  }
}

// compute() -> std::vector<float>: the same bits on every instruction set and for 1, 2, 3 and 7 threads.
template <class F>
void expect_same_bits_everywhere(F&& compute) {
  const SettingsScope scope;
  std::vector<float> expected;
  bool first = true;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const int threads : {1, 2, 3, 7}) {
      set_num_threads(threads);
      const std::vector<float> found = compute();
      if (first) expected = found;
      first = false;
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(std::memcmp(&found[i], &expected[i], sizeof(float)), 0)
            << "element " << i << " is " << found[i] << " on " << to_string(isa) << " with " << threads
            << " threads, was " << expected[i];
      }
    }
  }
}

inline std::vector<float> random_floats(size_t count, uint64_t seed, float scale = 1.0f) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

// `count` floats between two pages that must not be touched, against the one after (or before) them.
class Guarded {
 public:
  explicit Guarded(size_t count, bool at_end = true) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = count * sizeof(float);
    size_ = (bytes + page - 1) / page * page + 2 * page;
    memory_ = static_cast<char*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (size_ > 2 * page) mprotect(memory_ + page, size_ - 2 * page, PROT_READ | PROT_WRITE);
    char* const data = at_end ? memory_ + size_ - page - bytes : memory_ + page;
    data_ = reinterpret_cast<float*>(data);
  }
  Guarded(const std::vector<float>& values, bool at_end = true) : Guarded(values.size(), at_end) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~Guarded() { munmap(memory_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  [[nodiscard]] float* data() const { return data_; }

 private:
  char* memory_;
  size_t size_;
  float* data_;
};

}  // namespace heed::testing
