// Which pairs of tokens become one, and in which order.
#pragma once

#include <cstdint>
#include <vector>

namespace heed::text::huggingface {

// An open hash table, at most half full.
class MergeTable {
 public:
  struct Found {
    int32_t rank = INT32_MAX;  // INT32_MAX: this pair stays two
    int32_t id = -1;
  };
  explicit MergeTable(size_t count) {
    size_t size = 16;
    while (size < 2 * count) size *= 2;
    slots_.resize(size);
  }
  void put(int32_t left, int32_t right, Found found) {
    Slot& slot = slots_[place(left, right)];
    slot = {left, right, found};
  }
  [[nodiscard]] Found find(int32_t left, int32_t right) const { return slots_[place(left, right)].found; }

 private:
  struct Slot {
    int32_t left = -1, right = -1;
    Found found;
  };
  [[nodiscard]] size_t place(int32_t left, int32_t right) const {
    const uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    size_t at = static_cast<size_t>((key * 0x9e3779b97f4a7c15u) >> 20) & (slots_.size() - 1);
    while (slots_[at].left >= 0 && (slots_[at].left != left || slots_[at].right != right)) {
      at = (at + 1) & (slots_.size() - 1);
    }
    return at;
  }
  std::vector<Slot> slots_;
};

}  // namespace heed::text::huggingface
