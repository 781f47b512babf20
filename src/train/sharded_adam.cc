// The own part of the optimizer, and the exchange of weights.
#include "train/sharded_adam.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "heed/ops.h"
#include "train/adam_step.h"
#include "train/moments.h"

namespace heed::train {

namespace {

int64_t blocks_of(int64_t count) { return (count + ops::norm_block() - 1) / ops::norm_block(); }

}  // namespace

ShardedAdam::ShardedAdam(distributed::Communicator& ranks, const FlatParameters& flat, const Parts& parts,
                         const AdamOptions& options)
    : ranks_(ranks), flat_(flat), parts_(parts), own_(parts.of(ranks.rank())), options_(options) {
  first_.numbers = Tensor::zeros({parts_.size_of(ranks_.rank())});
  second_.numbers = Tensor::zeros({parts_.size_of(ranks_.rank())});
  std::vector<size_t> squares(static_cast<size_t>(ranks_.size()));
  for (const Part& part : parts_.all()) {
    squares[static_cast<size_t>(part.owner)] += static_cast<size_t>(squares_of(part));
  }
  most_squares_ = *std::max_element(squares.begin(), squares.end());
}

int64_t ShardedAdam::squares_of(const Part& part) const {
  int64_t count = 0;
  for (const auto& slice : flat_.slices(part.begin, part.end)) count += blocks_of(slice.end - slice.begin);
  return count;
}

std::vector<double> ShardedAdam::own_squares(const OwnNumbers& gradient) const {
  std::vector<double> squares;
  squares.reserve(most_squares_);
  for (const Part& part : own_) {
    for (const auto& slice : flat_.slices(part.begin, part.end)) {
      const auto some = ops::block_squares(gradient.at(part, slice.begin, slice.end));
      squares.insert(squares.end(), some.begin(), some.end());
    }
  }
  return squares;
}

double ShardedAdam::norm(const std::vector<double>& squares) const {
  // All blocks in the order of the row.
  std::vector<double> blocks;
  std::vector<size_t> next(static_cast<size_t>(ranks_.size()));
  for (size_t rank = 0; rank < next.size(); ++rank) next[rank] = rank * most_squares_;
  for (const Part& part : parts_.all()) {
    size_t& at = next[static_cast<size_t>(part.owner)];
    for (int64_t b = squares_of(part); b > 0; --b) blocks.push_back(squares[at++]);
  }
  double total = 0;
  size_t block = 0;
  for (size_t i = 0; i < flat_.parameters().size(); ++i) {
    double sum = 0;
    for (int64_t b = blocks_of(flat_.end_of(i) - flat_.begin_of(i)); b > 0; --b) sum += blocks[block++];
    total += sum;
  }
  return std::sqrt(total);
}

void ShardedAdam::step(const OwnNumbers& gradient, float learning_rate, float gradient_scale) {
  ++steps_;
  std::vector<distributed::TransferPtr> transfers;
  for (const Part& part : parts_.all()) {
    if (part.owner == ranks_.rank()) continue;
    for (const auto& piece : FlatParameters::messages(part.begin, part.end)) {
      transfers.push_back(
          ranks_.start_receive(std::as_writable_bytes(numbers_of(flat_.weights().slice(0, piece.begin, piece.end))),
                               part.owner, distributed::Channel::weights));
    }
  }
  // What is updated leaves at once, while the rest is updated. Each rank begins with its neighbour, so that not all
  // send to one.
  for (const Part& part : own_) {
    for (const auto& piece : FlatParameters::messages(part.begin, part.end)) {
      update(gradient, part, piece.begin, piece.end, learning_rate, gradient_scale);
      const Tensor weights = flat_.weights().slice(0, piece.begin, piece.end);
      for (int k = 1; k < ranks_.size(); ++k) {
        const int to = (ranks_.rank() + k) % ranks_.size();
        transfers.push_back(ranks_.start_send(std::as_bytes(numbers_of(weights)), to, distributed::Channel::weights));
      }
    }
  }
  for (const auto& each : transfers) ranks_.wait(*each);
}

void ShardedAdam::update(const OwnNumbers& gradient, const Part& part, int64_t from, int64_t to, float learning_rate,
                         float gradient_scale) {
  const ops::AdamStepOptions step{
      .learning_rate = learning_rate, .gradient_scale = gradient_scale, .step = steps_, .zero_gradient = false};
  for (const auto& slice : flat_.slices(from, to)) {
    const Shape& whole = flat_.parameters()[slice.parameter].second.shape();
    ops::adam_step(flat_.weights().slice(0, slice.begin, slice.end), gradient.at(part, slice.begin, slice.end),
                   first_.at(part, slice.begin, slice.end), second_.at(part, slice.begin, slice.end),
                   with_settings(options_, whole, step));
  }
}

std::vector<std::pair<std::string, Tensor>> ShardedAdam::gather_state() const {
  std::vector<std::pair<std::string, Tensor>> state;
  const std::pair<const char*, const OwnNumbers*> moments[] = {{"first.", &first_}, {"second.", &second_}};
  for (const auto& [prefix, own] : moments) {
    if (ranks_.rank() != 0) {
      ranks_.send(std::as_bytes(numbers_of(own->numbers)), 0, distributed::Channel::weights);
      continue;
    }
    const Tensor row = Tensor::zeros({flat_.size()});
    for (int from = 0; from < ranks_.size(); ++from) {
      OwnNumbers theirs = *own;
      if (from != 0) {
        theirs.numbers = Tensor::empty({parts_.size_of(from)});
        ranks_.receive(std::as_writable_bytes(numbers_of(theirs.numbers)), from, distributed::Channel::weights);
      }
      for (const Part& part : parts_.of(from)) {
        row.slice(0, part.begin, part.end).copy_from(theirs.at(part, part.begin, part.end));
      }
    }
    for (size_t i = 0; i < flat_.parameters().size(); ++i) {
      state.emplace_back(prefix + flat_.parameters()[i].first, flat_.view(row, i));
    }
  }
  return state;
}

void ShardedAdam::restore(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps) {
  const Moments found(state, steps);
  for (const Part& part : own_) {
    for (const auto& slice : flat_.slices(part.begin, part.end)) {
      const std::string& name = flat_.parameters()[slice.parameter].first;
      const Shape& shape = flat_.parameters()[slice.parameter].second.shape();
      const int64_t before = flat_.begin_of(slice.parameter);
      const auto take = [&](const OwnNumbers& moments, const char* prefix) {
        const Tensor whole = found.at(prefix + name, shape).contiguous();
        moments.at(part, slice.begin, slice.end)
            .copy_from(whole.reshape({whole.numel()}).slice(0, slice.begin - before, slice.end - before));
      };
      take(first_, "first.");
      take(second_, "second.");
    }
  }
  steps_ = steps;
}

}  // namespace heed::train
