// Rows of gradients, the tree within a rank, and the messages between ranks.
#include "train/gradient_exchange.h"

#include <algorithm>

#include "heed/ops.h"

namespace heed::train {

GradientExchange::GradientExchange(distributed::Communicator& ranks, const FlatParameters& flat, int64_t shards)
    : ranks_(ranks),
      flat_(flat),
      shards_(shards),
      own_shards_(shards_of(ranks.rank(), ranks.size(), shards)),
      parts_(flat, ranks.size()),
      tree_(shards) {
  for (const auto& [name, parameter] : flat_.parameters()) leaves_.push_back(parameter);
  for (const Part& part : parts_.all()) {
    for (const auto& piece : FlatParameters::messages(part.begin, part.end)) {
      buckets_.push_back({.owner = part.owner,
                          .begin = piece.begin,
                          .end = piece.end,
                          .local = part.local + piece.begin - part.begin});
    }
  }
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
  for (const auto& entry : tree_.entries()) unused_.push_back(entry.value);
  tree_.clear();

  if (arrivals_.empty()) {
    for (int from = 0; from < ranks_.size(); ++from) {
      if (from == ranks_.rank()) continue;
      for (const SumNode& node : nodes_of(shards_of(from, ranks_.size(), shards_), shards_)) {
        arrivals_.push_back({from, node, Tensor::empty({parts_.size_of(ranks_.rank())}), {}});
      }
    }
  }
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
  row_ = new_row();
  for (size_t i = 0; i < leaves_.size(); ++i) leaves_[i].set_grad(flat_.view(row_, i));
  last_ = s + 1 == own_shards_.end;
  if (!last_) return;

  additions_ = tree_.additions({0, s});
  const size_t complete = tree_.entries().size() - static_cast<size_t>(additions_);
  for (size_t node = 0; node < complete; ++node) {
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      send(tree_.entries()[node].value, *bucket);
    }
  }
  whole_.assign(leaves_.size(), false);
  for (Bucket& bucket : buckets_) {
    bucket.missing = static_cast<int64_t>(flat_.slices(bucket.begin, bucket.end).size());
  }
  unsent_ = buckets_.size();
}

void GradientExchange::gradient_is_whole(size_t i) {
  if (whole_[i]) return;
  whole_[i] = true;
  // The additions of the tree, for this parameter alone.
  Tensor right = row_;
  for (int k = 0; k < additions_; ++k) {
    const Tensor& left = tree_.entries()[tree_.entries().size() - 1 - static_cast<size_t>(k)].value;
    ops::add_into(flat_.view(left, i), flat_.view(right, i));
    right = left;
  }
  for (Bucket& bucket : buckets_) {
    if (flat_.begin_of(i) < bucket.end && bucket.begin < flat_.end_of(i)) --bucket.missing;
  }
  send_ready_buckets();
}

// All ranks send their buckets in one order, from the last one on, as backward passes tend to finish them.
void GradientExchange::send_ready_buckets() {
  const size_t own = tree_.entries().size() - static_cast<size_t>(additions_);
  const Tensor& row = additions_ == 0 ? row_ : tree_.entries()[own].value;
  while (unsent_ > 0 && buckets_[unsent_ - 1].missing == 0) send(row, buckets_[--unsent_]);
  if (!sends_.empty()) (void)ranks_.done(*sends_.back());  // lets messages go on
}

void GradientExchange::send(const Tensor& row, const Bucket& bucket) {
  if (bucket.owner == ranks_.rank()) return;
  const Tensor numbers = row.slice(0, bucket.begin, bucket.end);
  sends_.push_back(
      ranks_.start_send(std::as_bytes(numbers_of(numbers)), bucket.owner, distributed::Channel::gradients));
}

void GradientExchange::finish_shard() {
  if (last_) {
    for (size_t i = 0; i < leaves_.size(); ++i) gradient_is_whole(i);  // those that the loss does not depend on
  }
  for (const Value& leaf : leaves_) leaf.set_grad({});
  tree_.push({0, shard_}, std::move(row_), [&](Tensor& left, Tensor& right) {
    if (!last_) ops::add_into(left, right);
    unused_.push_back(std::move(right));
  });
  row_ = {};
}

void GradientExchange::add_bucket(size_t number, const Bucket& bucket) {
  SumTree<Tensor> sums(shards_);
  const auto add = [](const Tensor& left, const Tensor& right) { ops::add_into(left, right); };
  const auto push_own = [&] {
    for (const auto& entry : tree_.entries())
      sums.push(entry.node, entry.value.slice(0, bucket.begin, bucket.end), add);
  };
  bool own_pushed = false;
  for (Arrival& arrival : arrivals_) {
    if (!own_pushed && arrival.from > ranks_.rank()) {
      push_own();
      own_pushed = true;
    }
    ranks_.wait(*arrival.transfers[number]);
    sums.push(arrival.node, arrival.numbers.slice(0, bucket.local, bucket.local + bucket.end - bucket.begin), add);
  }
  if (!own_pushed) push_own();
}

OwnNumbers GradientExchange::sum() {
  size_t number = 0;
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    if (bucket->owner == ranks_.rank()) add_bucket(number++, *bucket);
  }
  // What comes first in the tree has been added into: a sum of rank 0.
  if (ranks_.rank() == 0) return {tree_.entries().front().value, true};
  return {arrivals_.front().numbers, false};
}

}  // namespace heed::train
