// Adam whose moments are kept by the owners of parts of the parameters (ZeRO stage 1: Rajbhandari et al. 2020).
//
// The arithmetic is that of Adam, number by number. What ranks exchange are sums of squares for the norm, in double,
// one a block, and the new weights.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/distributed.h"
#include "heed/train.h"
#include "train/parts.h"

namespace heed::train {

class ShardedAdam {
 public:
  ShardedAdam(distributed::Communicator& ranks, const FlatParameters& flat, const Parts& parts,
              const AdamOptions& options);

  // Sums of squares of the own parts of the gradient, one a block.
  [[nodiscard]] std::vector<double> own_squares(const OwnNumbers& gradient) const;
  // How many of them each rank has at most.
  [[nodiscard]] size_t most_squares() const { return most_squares_; }
  // The norm of the whole gradient, from the sums of all ranks, most_squares() a rank. As ops::norm() adds them.
  [[nodiscard]] double norm(const std::vector<double>& squares) const;

  // Updates the own parts of the weights, and sends and receives weights until every rank has all.
  void step(const OwnNumbers& gradient, float learning_rate, float gradient_scale);
  [[nodiscard]] int64_t steps() const { return steps_; }

  // The moments of all ranks as Adam::state() names them, on rank 0; nothing elsewhere.
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> gather_state() const;
  // Takes the own parts of the moments of a whole state.
  void restore(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps);

 private:
  [[nodiscard]] int64_t squares_of(const Part& part) const;
  // Updates [from, to) of the row, which lies in an own part.
  void update(const OwnNumbers& gradient, const Part& part, int64_t from, int64_t to, float learning_rate,
              float gradient_scale);

  distributed::Communicator& ranks_;
  const FlatParameters& flat_;
  const Parts& parts_;
  std::vector<Part> own_;
  AdamOptions options_;
  OwnNumbers first_, second_;
  int64_t steps_ = 0;
  size_t most_squares_ = 0;
};

}  // namespace heed::train
