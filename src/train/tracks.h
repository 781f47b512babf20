// The tracks of a rank: one for each part of the sequences that it computes, with parameters whose gradients are that
// part's.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "heed/distributed.h"
#include "heed/models.h"
#include "train/flat_parameters.h"
#include "train/grid.h"

namespace heed::train {

class Tracks {
 public:
  // `flat` has the parameters of `model`. Where there are several tracks, each after the first gets a model of its own,
  // with the same weights in the same memory.
  Tracks(const models::Model& model, const Recipe& recipe, const FlatParameters& flat, distributed::Communicator& ranks,
         const Grid& grid);

  [[nodiscard]] size_t count() const { return parameters_.size(); }
  [[nodiscard]] const std::vector<NamedParameters>& parameters() const { return parameters_; }

  // Calls f for every track, with its model and the ranks that share its sequences (null: sequences are whole).
  // Several tracks run at the same time, each on a thread with its share of the cores: attention needs all of them.
  using Run = std::function<void(size_t track, const models::Model& model, distributed::Communicator* row)>;
  void run(const Run& f);

 private:
  const models::Model& model_;
  std::vector<std::unique_ptr<models::Model>> replicas_;
  std::vector<NamedParameters> parameters_;
  std::unique_ptr<distributed::Communicator> row_;  // of other ranks
};

}  // namespace heed::train
