// Sequences cut into parts, for ranks that share them.
#pragma once

#include "heed/distributed_attention.h"
#include "train/data.h"

namespace heed::train {

// How a batch of a language model is cut into `parts` parts: as many positions in each as the causal mask allows to be
// computed in about the same time. Every part has one at least: shorter batches are filled up with padding.
[[nodiscard]] distributed::SequenceLayout layout_of_parts(const Batch& batch, int parts);

// The columns of one part. `tokens` are those of the part.
[[nodiscard]] Batch part_of(const Batch& batch, const distributed::SequenceLayout& layout, int part);

}  // namespace heed::train
