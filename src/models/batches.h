// The batches of an inference: sequences of similar lengths, computed side by side.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/side_by_side.h"

namespace heed::models {

// How many tokens go into a batch, padding included: `most`; of several threads at most a share of what is left, so
// that all end at about the same time, but not below `least`, where batches become slow.
struct BatchSizes {
  int64_t most = 0, least = 0;
};

class Batches {
 public:
  // The threads that compute batches side by side. It is one thread while the calling one has a probe, an observer, a
  // TrainingScope or a SequencePartScope: these do not hold in other threads.
  [[nodiscard]] static int most_threads();

  // lengths: the tokens of each sequence. The longest come first: a batch that does not fit in memory fails at once,
  // and the rest of the progress bar runs faster than it promised. Sequences of no tokens are in no batch.
  Batches(std::span<const int64_t> lengths, const BatchSizes& sizes, int threads = most_threads());

  // Calls work(sequences) for each batch, with the numbers of its sequences: on every thread without gradients, and
  // with the calling thread's precision of products. Calls look_up() on the calling thread, as SideBySide::run() does.
  // Stops early where end() was called.
  void run(const std::function<void(std::span<const int64_t> sequences)>& work, const std::function<void()>& look_up);
  void end() { side_by_side_.end(); }
  [[nodiscard]] bool ended() const { return side_by_side_.ended(); }
  [[nodiscard]] bool on_caller() const { return side_by_side_.on_caller(); }
  // Sequences of the batches that are done; where ended() is true, some of the last ones may not count.
  [[nodiscard]] int64_t done() const { return done_; }
  // A look_up() that calls `progress` (if any) with done() when it has grown.
  [[nodiscard]] std::function<void()> tells(std::function<void(int64_t done)> progress) const;

 private:
  std::vector<int64_t> order_, begins_;  // begins_: of each batch in order_, and the end of the last
  SideBySide side_by_side_;
  std::atomic<int64_t> done_{0};
};

}  // namespace heed::models
