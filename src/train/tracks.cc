#include "train/tracks.h"

#include "base/threads.h"

namespace heed::train {

Tracks::Tracks(const models::Model& model, const Recipe& recipe, const FlatParameters& flat,
               distributed::Communicator& ranks, const Grid& grid)
    : model_(model), parameters_{flat.parameters()} {
  if (grid.shares_sequences()) row_ = distributed::group(ranks, grid.row_of(ranks.rank()));
  const size_t count = grid.parts_of(ranks.rank()).size();
  while (parameters_.size() < count) {
    replicas_.push_back(models::create(model.config(), recipe.seed));
    NamedParameters replica = replicas_.back()->named_parameters();
    for (size_t i = 0; i < replica.size(); ++i) replica[i].second.set_data(flat.view(flat.weights(), i));
    parameters_.push_back(std::move(replica));
  }
}

void Tracks::run(const Run& f) {
  if (count() == 1) return f(0, model_, row_.get());
  const auto tracks = static_cast<int>(count());
  distributed::run_in_process(tracks, [&](distributed::Communicator& row) {
    const ThreadShare share(tracks);
    const auto track = static_cast<size_t>(row.rank());
    f(track, track == 0 ? model_ : *replicas_[track - 1], &row);
  });
}

}  // namespace heed::train
