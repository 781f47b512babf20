// From the gradients of shards, wherever they are computed, to the sum of all of them, in parts that ranks own.
//
// Each rank computes the gradients of its shards one after the other and adds what the tree of sums allows. What is
// left are sums of whole subtrees. Each goes, in buckets, to the ranks that own the parts of it; the owner of a part
// adds in the order of the tree. During the backward pass of a rank's last shard buckets leave as soon as their
// gradients are whole, so that messages travel while the rest is computed.
//
// A rank that computes all parts of its shards' sequences has a range of leaves for each part, and a row of gradients
// for each: a track. Its buckets leave when the backward passes of all tracks have ended.
#pragma once

#include <memory>
#include <vector>

#include "heed/distributed.h"
#include "train/grid.h"
#include "train/parts.h"
#include "train/shards.h"

namespace heed::train {

class GradientExchange {
 public:
  // `parameters`: of each of the rank's tracks, those whose gradients its backward passes add to.
  GradientExchange(distributed::Communicator& ranks, const FlatParameters& flat, const Grid& grid,
                   const std::vector<NamedParameters>& parameters);

  [[nodiscard]] const Parts& parts() const { return parts_; }

  // One update: start(), then for each own shard in order start_shard(), backward passes, finish_shard(); then sum().
  void start();
  // From here on backward() adds into rows of zeros, one a track.
  void start_shard(int64_t s);
  // `run` is the last backward pass of the shard, on this thread. Where the shard is this rank's last one, and there is
  // one track, what becomes whole is sent.
  template <class F>
  void last_backward(const F& run) {
    if (!last_ || tracks_.size() > 1) return run();
    const distributed::Communicator::ProgressScope progress(ranks_);
    const LeafGradientScope scope(tracks_[0].parameters, [this](size_t i) { gradient_is_whole(tracks_[0], i); });
    run();
  }
  void finish_shard();
  // The sum over all shards, of the own parts. Valid until start().
  [[nodiscard]] OwnNumbers sum();

 private:
  struct Bucket {
    int owner = 0;
    int64_t begin = 0, end = 0;
    int64_t local = 0;  // among the owner's numbers
  };
  struct Track {
    ShardRange leaves;
    std::vector<Value> parameters;
    SumTree<Tensor> tree;
    Tensor row = {};                    // of the shard that is being computed
    int additions = 0;                  // that the last shard's gradients will take part in
    std::vector<bool> whole = {};       // parameters of the last shard
    std::vector<int64_t> missing = {};  // of each bucket, parameters that are not whole
    size_t unsent = 0;                  // buckets of the last sum that are still to be sent: [0, unsent)
  };
  // Sums that another rank sends.
  struct Arrival {
    int from = 0;
    SumNode node;
    Tensor numbers;                                   // of the own parts
    std::vector<distributed::TransferPtr> transfers;  // one an own bucket, the last bucket first
  };
  // What is added up, in the order of the leaves: the sums of an own track, or one arrival.
  struct Summand {
    int64_t first_leaf = 0;
    const Track* track = nullptr;
    size_t arrival = 0;
  };
  void expect_others();
  [[nodiscard]] Tensor new_row();
  void send_complete_sums(Track& track);
  void gradient_is_whole(Track& track, size_t i);
  void send_ready_buckets(Track& track);
  void send(const Tensor& row, const Bucket& bucket);
  void add_bucket(size_t number, const Bucket& bucket);

  distributed::Communicator& ranks_;
  const FlatParameters& flat_;
  const Grid& grid_;
  ShardRange own_shards_;
  Parts parts_;
  std::vector<Bucket> buckets_;  // in the order of the row; sent from the last to the first
  std::vector<Track> tracks_;
  std::vector<Arrival> arrivals_;  // of each rank as it sends them
  std::vector<Summand> summands_;

  std::vector<Tensor> unused_;  // rows
  int64_t shard_ = 0;
  bool last_ = false;
  std::vector<distributed::TransferPtr> sends_;
};

}  // namespace heed::train
