// What the three kinds of model share when their attention is recorded.
#pragma once

#include "heed/pipelines.h"

namespace heed::pipelines {

// How many groups of tokens a text has at most that is recorded in groups; 0 where it is recorded token by token.
[[nodiscard]] int64_t groups_of(const models::Config& config, int64_t source, int64_t target,
                                const RecordOptions& options);

// Tells options.on_pooled of groups, and options.on_size how many weights there will be: of `source` tokens in the
// encoder and `target` in the decoder.
void announce_size(const models::Config& config, int64_t source, int64_t target, const RecordOptions& options);

// Runs `forward` and moves the attention it computes into the record, which has the tokens already.
template <class Forward>
void observe(inspect::Record& record, const models::Config& config, const RecordOptions& options, Forward&& forward) {
  const NoGradScope no_grad;
  if (const int64_t groups =
          groups_of(config, std::ssize(record.source_tokens), std::ssize(record.target_tokens), options);
      groups > 0) {
    inspect::PooledRecorder recorder(groups);
    {
      const nn::ProbeScope scope(recorder);
      forward();
    }
    recorder.move_into(record);
    return;
  }
  inspect::Recorder recorder;
  {
    const nn::ObserverScope scope(recorder);
    forward();
  }
  recorder.move_into(record);
}

}  // namespace heed::pipelines
