// What the three kinds of model share when their attention is recorded.
#pragma once

#include "heed/pipelines.h"

namespace heed::pipelines {

// Tells options.on_size how many weights there will be: of `source` tokens in the encoder and `target` in the decoder.
void announce_size(const models::Config& config, int64_t source, int64_t target, const RecordOptions& options);

// Runs `forward` and moves the attention it computes into the record.
template <class Forward>
void observe(inspect::Record& record, Forward&& forward) {
  const NoGradScope no_grad;
  inspect::Recorder recorder;
  {
    const nn::ObserverScope scope(recorder);
    forward();
  }
  recorder.move_into(record);
}

}  // namespace heed::pipelines
