// The order of the data of an epoch, for any number of sentences, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace heed::text {

// The batches of one epoch after the other. A pure function of (lengths, limits, seed, epoch), wherever the sentences
// lie.
//
// Up to `block` sentences, batches are those of batches_by_tokens(). More are cut into runs of neighbours; each epoch
// shuffles the runs, fills blocks with them, and makes the batches of one block after the other by the same rule. Only
// the block that is being read is in memory: 4 bytes a sentence, 12 while it is made.
class BatchOrder {
 public:
  // Fills in the lengths of the sentences from `first` on.
  using Lengths = std::function<void(int64_t first, std::span<int64_t> lengths)>;
  struct Limits {
    int64_t tokens = 0;  // of a batch; raised, for all batches of the epoch, to the longest sentence
    int64_t sentences = 0;
    uint64_t seed = 0;
    int64_t block = int64_t{1} << 23;
    int64_t run = 1024;
  };
  // `lengths` is called when an epoch begins, and when a block does.
  BatchOrder(int64_t sentences, Lengths lengths, const Limits& limits);

  [[nodiscard]] int64_t batches(int64_t epoch);
  [[nodiscard]] std::vector<int64_t> batch(int64_t epoch, int64_t index);  // sentences

 private:
  void begin(int64_t epoch);
  void fill(int64_t block);
  // Calls f(first, lengths) for the sentences of a block of the epoch, a run at a time.
  template <class F>
  void for_runs(int64_t block, F&& f);
  [[nodiscard]] std::vector<int64_t> sizes(const std::vector<int64_t>& histogram) const;

  int64_t sentences_;
  Lengths lengths_;
  Limits limits_;
  int64_t blocks_ = 1, runs_a_block_ = 1;
  int64_t epoch_ = -1;
  int64_t tokens_ = 0;                // the limit of this epoch
  std::vector<int64_t> runs_;         // of this epoch, in its order; empty: one block, all in order
  std::vector<int64_t> first_batch_;  // of each block, and the number of all
  int64_t block_ = -1;
  std::vector<uint32_t> order_;    // the block's sentences sorted by length, as indices into its runs
  std::vector<int64_t> begins_;    // of the block's batches in order_, and its end
  std::vector<int64_t> shuffled_;  // the block's batches in the order they are read
};

}  // namespace heed::text
