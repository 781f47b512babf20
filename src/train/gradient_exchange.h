// From the gradients of shards, wherever they are computed, to the sum of all of them, in parts that ranks own.
//
// Each rank computes the gradients of its shards one after the other and adds what the tree of sums allows. What is
// left are sums of whole subtrees. Each goes, in buckets, to the ranks that own the parts of it; the owner of a part
// adds in the order of the tree. During the backward pass of a rank's last shard buckets leave as soon as their
// gradients are whole, so that messages travel while the rest is computed.
#pragma once

#include <memory>
#include <vector>

#include "heed/distributed.h"
#include "train/parts.h"
#include "train/shards.h"

namespace heed::train {

class GradientExchange {
 public:
  GradientExchange(distributed::Communicator& ranks, const FlatParameters& flat, int64_t shards);

  [[nodiscard]] ShardRange own_shards() const { return own_shards_; }
  [[nodiscard]] const Parts& parts() const { return parts_; }

  // One update: start(), then for each own shard in order start_shard(), backward passes, finish_shard(); then sum().
  void start();
  // From here on backward() adds into a row of zeros.
  void start_shard(int64_t s);
  // `run` is the last backward pass of the shard. Where the shard is this rank's last one, what becomes whole is sent.
  template <class F>
  void last_backward(const F& run) {
    if (!last_) return run();
    const distributed::Communicator::ProgressScope progress(ranks_);
    const LeafGradientScope scope(leaves_, [this](size_t i) { gradient_is_whole(i); });
    run();
  }
  void finish_shard();
  // The sum over all shards, of the own parts. Valid until start().
  [[nodiscard]] OwnNumbers sum();

 private:
  struct Bucket {
    int owner = 0;
    int64_t begin = 0, end = 0;
    int64_t local = 0;    // among the owner's numbers
    int64_t missing = 0;  // parameters of it whose gradients are not whole
  };
  struct Arrival {
    int from = 0;
    SumNode node;
    Tensor numbers;                                   // of the own parts
    std::vector<distributed::TransferPtr> transfers;  // one an own bucket, the last bucket first
  };
  [[nodiscard]] Tensor new_row();
  void gradient_is_whole(size_t i);
  void send_ready_buckets();
  void send(const Tensor& row, const Bucket& bucket);
  void add_bucket(size_t number, const Bucket& bucket);

  distributed::Communicator& ranks_;
  const FlatParameters& flat_;
  int64_t shards_;
  ShardRange own_shards_;
  Parts parts_;
  std::vector<Value> leaves_;
  std::vector<Bucket> buckets_;  // in the order of the row; sent from the last to the first

  SumTree<Tensor> tree_;
  std::vector<Tensor> unused_;  // rows
  Tensor row_;                  // of the shard that is being computed
  int64_t shard_ = 0;
  bool last_ = false;
  int additions_ = 0;        // that the last shard's gradients will take part in
  std::vector<bool> whole_;  // parameters of the last shard
  size_t unsent_ = 0;        // buckets of the last sum that are still to be sent: [0, unsent_)
  std::vector<distributed::TransferPtr> sends_;
  std::vector<Arrival> arrivals_;
};

}  // namespace heed::train
