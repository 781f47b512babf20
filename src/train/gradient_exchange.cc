// Rows of gradients, the trees within a rank, and the messages between ranks.
#include "train/gradient_exchange.h"

#include <algorithm>

#include "heed/ops.h"

namespace heed::train {

GradientExchange::GradientExchange(distributed::Communicator& ranks, const FlatParameters& flat, const Grid& grid,
                                   const std::vector<NamedParameters>& parameters)
    : ranks_(ranks), flat_(flat), grid_(grid), own_shards_(grid.shards_of(ranks.rank())), parts_(flat, ranks.size()) {
  for (const Part& part : parts_.all()) {
    for (const auto& piece : FlatParameters::messages(part.begin, part.end)) {
      buckets_.push_back({.owner = part.owner,
                          .begin = piece.begin,
                          .end = piece.end,
                          .local = part.local + piece.begin - part.begin});
    }
  }
  const std::vector<ShardRange> own = grid_.leaves_of(ranks_.rank());
  for (size_t t = 0; t < own.size(); ++t) {
    Track track{.leaves = own[t], .parameters = {}, .tree = SumTree<Tensor>(grid_.leaves())};
    for (const auto& [name, parameter] : parameters[t]) track.parameters.push_back(parameter);
    tracks_.push_back(std::move(track));
  }
}

// What other ranks will send, and the order in which all is added up.
void GradientExchange::expect_others() {
  for (int from = 0; from < ranks_.size(); ++from) {
    if (from == ranks_.rank()) continue;
    for (const ShardRange& range : grid_.leaves_of(from)) {
      for (const SumNode& node : nodes_of(range, grid_.leaves())) {
        summands_.push_back({.first_leaf = range.begin, .arrival = arrivals_.size()});
        arrivals_.push_back({from, node, Tensor::empty({parts_.size_of(ranks_.rank())}), {}});
      }
    }
  }
  for (const Track& track : tracks_) summands_.push_back({.first_leaf = track.leaves.begin, .track = &track});
  // (Stable: the sums of one range stay in their order.)
  std::stable_sort(summands_.begin(), summands_.end(),
                   [](const Summand& a, const Summand& b) { return a.first_leaf < b.first_leaf; });
}

Tensor GradientExchange::new_row() {
  if (unused_.empty()) return Tensor::zeros({flat_.size()});
  const Tensor row = std::move(unused_.back());
  unused_.pop_back();
  row.zero();
  return row;
}

void GradientExchange::start() {
  // Rows that were sent are free now.
  for (const auto& each : sends_) ranks_.wait(*each);
  sends_.clear();
  for (Track& track : tracks_) {
    for (const auto& entry : track.tree.entries()) unused_.push_back(entry.value);
    track.tree.clear();
  }

  if (summands_.empty()) expect_others();
  for (Arrival& arrival : arrivals_) {
    arrival.transfers.clear();
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      if (bucket->owner != ranks_.rank()) continue;
      const Tensor place = arrival.numbers.slice(0, bucket->local, bucket->local + bucket->end - bucket->begin);
      arrival.transfers.push_back(ranks_.start_receive(std::as_writable_bytes(numbers_of(place)), arrival.from,
                                                       distributed::Channel::gradients));
    }
  }
}

void GradientExchange::start_shard(int64_t s) {
  shard_ = s;
  last_ = s + 1 == own_shards_.end;
  for (Track& track : tracks_) {
    track.row = new_row();
    for (size_t i = 0; i < track.parameters.size(); ++i) track.parameters[i].set_grad(flat_.view(track.row, i));
    if (!last_) continue;
    track.additions = track.tree.additions({0, track.leaves.end - 1});
    track.whole.assign(track.parameters.size(), false);
    track.missing.clear();
    for (const Bucket& bucket : buckets_) {
      track.missing.push_back(static_cast<int64_t>(flat_.slices(bucket.begin, bucket.end).size()));
    }
    track.unsent = buckets_.size();
  }
  if (last_ && tracks_.size() == 1) send_complete_sums(tracks_[0]);
}

// Those that the last shard does not take part in.
void GradientExchange::send_complete_sums(Track& track) {
  const size_t complete = track.tree.entries().size() - static_cast<size_t>(track.additions);
  for (size_t node = 0; node < complete; ++node) {
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      send(track.tree.entries()[node].value, *bucket);
    }
  }
}

void GradientExchange::gradient_is_whole(Track& track, size_t i) {
  if (track.whole[i]) return;
  track.whole[i] = true;
  // The additions of the tree, for this parameter alone.
  Tensor right = track.row;
  for (int k = 0; k < track.additions; ++k) {
    const Tensor& left = track.tree.entries()[track.tree.entries().size() - 1 - static_cast<size_t>(k)].value;
    ops::add_into(flat_.view(left, i), flat_.view(right, i));
    right = left;
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    if (flat_.begin_of(i) < buckets_[b].end && buckets_[b].begin < flat_.end_of(i)) --track.missing[b];
  }
  send_ready_buckets(track);
}

// All ranks send their buckets in one order, from the last one on, as backward passes tend to finish them.
void GradientExchange::send_ready_buckets(Track& track) {
  const size_t own = track.tree.entries().size() - static_cast<size_t>(track.additions);
  const Tensor& row = track.additions == 0 ? track.row : track.tree.entries()[own].value;
  while (track.unsent > 0 && track.missing[track.unsent - 1] == 0) send(row, buckets_[--track.unsent]);
  if (!sends_.empty()) (void)ranks_.done(*sends_.back());  // lets messages go on
}

void GradientExchange::send(const Tensor& row, const Bucket& bucket) {
  if (bucket.owner == ranks_.rank()) return;
  const Tensor numbers = row.slice(0, bucket.begin, bucket.end);
  sends_.push_back(
      ranks_.start_send(std::as_bytes(numbers_of(numbers)), bucket.owner, distributed::Channel::gradients));
}

void GradientExchange::finish_shard() {
  for (Track& track : tracks_) {
    if (last_) {
      if (tracks_.size() > 1) send_complete_sums(track);
      // Those that the loss does not depend on; with several tracks, all.
      for (size_t i = 0; i < track.parameters.size(); ++i) gradient_is_whole(track, i);
    }
    for (const Value& parameter : track.parameters) parameter.set_grad({});
    track.tree.push({0, track.leaves.begin + shard_ - own_shards_.begin}, std::move(track.row),
                    [&](Tensor& left, Tensor& right) {
                      if (!last_) ops::add_into(left, right);
                      unused_.push_back(std::move(right));
                    });
    track.row = {};
  }
}

void GradientExchange::add_bucket(size_t number, const Bucket& bucket) {
  SumTree<Tensor> sums(grid_.leaves());
  const auto add = [](const Tensor& left, const Tensor& right) { ops::add_into(left, right); };
  for (const Summand& summand : summands_) {
    if (summand.track != nullptr) {
      for (const auto& entry : summand.track->tree.entries()) {
        sums.push(entry.node, entry.value.slice(0, bucket.begin, bucket.end), add);
      }
      continue;
    }
    const Arrival& arrival = arrivals_[summand.arrival];
    ranks_.wait(*arrival.transfers[number]);
    sums.push(arrival.node, arrival.numbers.slice(0, bucket.local, bucket.local + bucket.end - bucket.begin), add);
  }
}

OwnNumbers GradientExchange::sum() {
  size_t number = 0;
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    if (bucket->owner == ranks_.rank()) add_bucket(number++, *bucket);
  }
  // What comes first in the tree has been added into: a sum of rank 0, which has the first leaf.
  const Summand& first = summands_.front();
  if (first.track != nullptr) return {first.track->tree.entries().front().value, true};
  return {arrivals_[first.arrival].numbers, false};
}

}  // namespace heed::train
