// The rule of batches_by_tokens(), applied to histograms of lengths: how many sentences a batch has depends on nothing
// else, because batches are cut from sentences that are sorted by length.
#include "text/batch_order.h"

#include <algorithm>

#include "heed/error.h"
#include "text/batches.h"

namespace heed::text {

namespace {

// So that runs, sentences of blocks and sentences of small texts are drawn by different keys.
constexpr uint64_t kRuns = 0x5255'4E53'2052'554E, kBlocks = 0x424C'4F43'4B53'2042;

}  // namespace

BatchOrder::BatchOrder(int64_t sentences, Lengths lengths, const Limits& limits)
    : sentences_(sentences), lengths_(std::move(lengths)), limits_(limits) {
  require(limits_.tokens >= 0 && limits_.sentences >= 0 && limits_.tokens + limits_.sentences > 0, "batches",
          "a limit of tokens or of sentences; found ", limits_.tokens, " and ", limits_.sentences);
  require(limits_.run >= 1 && limits_.run <= limits_.block && limits_.block <= INT32_MAX, "batches",
          "runs inside of blocks; found ", limits_.run, " and ", limits_.block);
  if (sentences_ <= limits_.block) return;
  const int64_t runs = (sentences_ + limits_.run - 1) / limits_.run;
  const int64_t most = limits_.block / limits_.run;
  blocks_ = (runs + most - 1) / most;
  runs_a_block_ = (runs + blocks_ - 1) / blocks_;
  blocks_ = (runs + runs_a_block_ - 1) / runs_a_block_;
}

template <class F>
void BatchOrder::for_runs(int64_t block, F&& f) {
  std::vector<int64_t> lengths(static_cast<size_t>(std::min(limits_.run, sentences_)));
  const int64_t all = (sentences_ + limits_.run - 1) / limits_.run;
  const int64_t begin = blocks_ == 1 ? 0 : block * runs_a_block_;
  const int64_t end = blocks_ == 1 ? all : std::min(all, begin + runs_a_block_);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t first = (blocks_ == 1 ? r : runs_[static_cast<size_t>(r)]) * limits_.run;
    const auto part = std::span(lengths).first(static_cast<size_t>(std::min(limits_.run, sentences_ - first)));
    lengths_(first, part);
    f(first, part);
  }
}

// The sentences of each batch, for sentences that are sorted by length. histogram[l] sentences have the length l.
std::vector<int64_t> BatchOrder::sizes(const std::vector<int64_t>& histogram) const {
  std::vector<int64_t> sizes;
  for (size_t length = 0; length < histogram.size(); ++length) {
    int64_t room = INT64_MAX;
    if (limits_.tokens > 0 && length > 0) room = tokens_ / static_cast<int64_t>(length);
    if (limits_.sentences > 0) room = std::min(room, limits_.sentences);
    for (int64_t left = histogram[length]; left > 0;) {
      if (sizes.empty() || sizes.back() >= room) sizes.push_back(0);
      const int64_t taken = std::min(left, room - sizes.back());
      sizes.back() += taken;
      left -= taken;
    }
  }
  return sizes;
}

void BatchOrder::begin(int64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = -1;  // until all is there: lengths_ may throw
  block_ = -1;
  if (blocks_ > 1) {
    const int64_t runs = (sentences_ + limits_.run - 1) / limits_.run;
    runs_ = permutation(runs, limits_.seed ^ kRuns, static_cast<uint64_t>(epoch));
    // The last run of the text may be short. It is the last one of its block, so that batch() can divide by the run.
    const auto at = std::find(runs_.begin(), runs_.end(), runs - 1) - runs_.begin();
    const int64_t last = std::min(runs, (at / runs_a_block_ + 1) * runs_a_block_) - 1;
    std::swap(runs_[static_cast<size_t>(at)], runs_[static_cast<size_t>(last)]);
  }
  tokens_ = limits_.tokens;
  std::vector<std::vector<int64_t>> histograms(static_cast<size_t>(blocks_));
  for (int64_t block = 0; block < blocks_; ++block) {
    auto& histogram = histograms[static_cast<size_t>(block)];
    for_runs(block, [&](int64_t first, std::span<const int64_t> lengths) {
      for (size_t i = 0; i < lengths.size(); ++i) {
        require(lengths[i] >= 0, "batches", "lengths of 0 or more; sentence ", first + static_cast<int64_t>(i), " has ",
                lengths[i]);
        const auto length = static_cast<size_t>(lengths[i]);
        if (length >= histogram.size()) histogram.resize(length + 1);
        ++histogram[length];
      }
    });
    // A limit that is 0 is none.
    if (tokens_ > 0) tokens_ = std::max(tokens_, static_cast<int64_t>(histogram.size()) - 1);
  }
  first_batch_.assign(1, 0);
  for (const auto& histogram : histograms) {
    first_batch_.push_back(first_batch_.back() + static_cast<int64_t>(sizes(histogram).size()));
  }
  epoch_ = epoch;
}

void BatchOrder::fill(int64_t block) {
  if (block == block_) return;
  block_ = -1;
  std::vector<uint32_t> lengths;
  std::vector<int64_t> histogram;
  for_runs(block, [&](int64_t, std::span<const int64_t> run) {
    for (const int64_t length : run) {
      lengths.push_back(static_cast<uint32_t>(length));
      if (static_cast<size_t>(length) >= histogram.size()) histogram.resize(static_cast<size_t>(length) + 1);
      ++histogram[static_cast<size_t>(length)];
    }
  });
  const auto count = static_cast<int64_t>(lengths.size());
  const bool whole = blocks_ == 1;
  const uint64_t seed = whole ? limits_.seed : limits_.seed ^ kBlocks;
  // Two streams a block: one for the sentences, one for the batches.
  const auto stream = 2 * static_cast<uint64_t>(whole ? epoch_ : epoch_ * blocks_ + block);
  std::vector<uint32_t> mixed(static_cast<size_t>(count));
  permutation(std::span(mixed), seed, stream);
  std::vector<int64_t> places(histogram.size() + 1, 0);  // where each length begins
  for (size_t length = 0; length < histogram.size(); ++length) places[length + 1] = places[length] + histogram[length];
  order_.resize(static_cast<size_t>(count));
  for (const uint32_t index : mixed) order_[static_cast<size_t>(places[lengths[index]]++)] = index;

  begins_.assign(1, 0);
  for (const int64_t size : sizes(histogram)) begins_.push_back(begins_.back() + size);
  shuffled_ = permutation(static_cast<int64_t>(begins_.size()) - 1, seed, stream + 1);
  block_ = block;
}

int64_t BatchOrder::batches(int64_t epoch) {
  begin(epoch);
  return first_batch_.back();
}

std::vector<int64_t> BatchOrder::batch(int64_t epoch, int64_t index) {
  begin(epoch);
  require(index >= 0 && index < first_batch_.back(), "batches", "a batch from 0 to ", first_batch_.back() - 1,
          "; found ", index);
  const auto after = std::upper_bound(first_batch_.begin(), first_batch_.end(), index);
  const auto block = static_cast<int64_t>(after - first_batch_.begin()) - 1;
  fill(block);
  const auto place = static_cast<size_t>(index - first_batch_[static_cast<size_t>(block)]);
  const auto number = static_cast<size_t>(shuffled_[place]);
  std::vector<int64_t> sentences;
  for (int64_t i = begins_[number]; i < begins_[number + 1]; ++i) {
    const auto within = static_cast<int64_t>(order_[static_cast<size_t>(i)]);
    const int64_t run = within / limits_.run;
    const int64_t first = blocks_ == 1 ? run : runs_[static_cast<size_t>(block * runs_a_block_ + run)];
    sentences.push_back(first * limits_.run + within % limits_.run);
  }
  return sentences;
}

}  // namespace heed::text
