// Data sets: which tokens each batch holds, as a pure function of (seed, epoch, number of the batch).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heed/tensor.h"
#include "heed/text.h"
#include "models/pooling.h"
#include "train/scores.h"
#include "train/sentences.h"

namespace heed::train {

// How pairs of texts are compared: by the cosine of their pooled states, times a scale.
struct Contrast {
  std::vector<models::TokenPooling> poolings = {models::TokenPooling::mean};
  float scale = 20;
};

struct Batch {
  Tensor source;          // (B, S) i32; translation: ids </s>; masked: <s> ids </s> with some masked; or whole texts
  Tensor source_lengths;  // (B) i32; both undefined for language models
  Tensor types;           // (B, S) i32: those of the source's tokens; undefined: all 0
  Tensor input;           // (B, L) i32: what the decoder reads; undefined for encoder-only models
  Tensor output;          // (B, L) i32: what is to be predicted, padding_id where nothing is; or (B): classes of texts
  // Pairs: (B, L) i32 and (B) i32, the positives of the source's texts. Of pairs and scores `output` numbers the rows
  // from 0.
  Tensor positives, positive_lengths;
  std::shared_ptr<const Contrast> contrast;
  // (B) f32: what is to be predicted of each text, or of each pair, in place of a class; undefined: there are classes.
  Tensor scores;
  ScoreLoss score_loss = ScoreLoss::cross_entropy;
  int32_t padding_id = 0;
  int64_t tokens = 0;     // targets that count
  int64_t sentences = 0;  // rows
};

// What stands around the ids of a text.
struct Frame {
  Ids before, after;
  int32_t begin = -1;   // what a decoder reads before the text
  int32_t padding = 0;  // fills rows up
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(before.size() + after.size()); }
};
// Those of heed's own models: ids </s>, <s> | ids </s>, and <s> ids </s>.
[[nodiscard]] Frame source_frame(const text::SpecialIds& special);
[[nodiscard]] Frame target_frame(const text::SpecialIds& special);
[[nodiscard]] Frame masked_frame(const text::SpecialIds& special);

class DataSet {
 public:
  virtual ~DataSet() = default;
  [[nodiscard]] virtual int64_t batches(int64_t epoch) = 0;
  [[nodiscard]] virtual Batch batch(int64_t epoch, int64_t index) = 0;
  [[nodiscard]] virtual uint32_t checksum() const = 0;  // of the tokens, to notice changed data
};

struct BatchLimits {
  int64_t tokens = 4096;  // rows * longest row
  int64_t sentences = 0;  // rows; 0: no limit
  uint64_t seed = 1;
};

// The segmentations of each epoch are drawn anew (subword regularisation), at its start. Lines are those of the pairs.
// After `epochs` epochs (0: never) the ids are read as they are.
struct Resegmentation {
  std::shared_ptr<const text::SubwordSampler> source, target;  // none: the ids as they are
  std::vector<std::string> source_lines, target_lines;
  int64_t longest = 0;  // ids; a line whose draw is longer has its most probable segmentation
  int64_t epochs = 0;
};

// Pairs of ids without begin and end. With the frames of heed's own models, as fairseq arranges them: source = ids
// </s>, decoder input = <s> ids, output = ids </s>. The decoder's input is `begin` and all of the output but its end.
[[nodiscard]] std::unique_ptr<DataSet> parallel_data(std::vector<Ids> sources, std::vector<Ids> targets,
                                                     const Frame& source, const Frame& target,
                                                     const BatchLimits& limits, Resegmentation resegmentation = {});
[[nodiscard]] std::unique_ptr<DataSet> parallel_data(std::shared_ptr<const Sentences> pairs, const Frame& source,
                                                     const Frame& target, const BatchLimits& limits,
                                                     Resegmentation resegmentation = {});

// Windows of `context` tokens of one long stream, each predicting its next token: at random places, or one after the
// other so that each token but the first is predicted once.
enum class Windows { random, consecutive };
[[nodiscard]] std::unique_ptr<DataSet> stream_data(Ids stream, Windows windows, int64_t context, int32_t padding_id,
                                                   const BatchLimits& limits);
[[nodiscard]] std::unique_ptr<DataSet> stream_data(std::shared_ptr<const Stream> stream, Windows windows,
                                                   int64_t context, int32_t padding_id, const BatchLimits& limits);

// Devlin et al. 2019: 15 % of the tokens are to be predicted, of which 80 % are replaced by mask_id, 10 % by a random
// token and 10 % left alone. Drawn anew in each epoch; at least one a sentence.
struct MaskedOptions {
  int32_t mask_id = -1;
  int64_t vocabulary = 0;  // random replacements are below this
  int64_t first = 4;       // and not below this: the ids before are special
};
[[nodiscard]] std::unique_ptr<DataSet> masked_data(std::vector<Ids> sentences, const Frame& frame,
                                                   const MaskedOptions& options, const BatchLimits& limits);
[[nodiscard]] std::unique_ptr<DataSet> masked_data(std::shared_ptr<const Sentences> sentences, const Frame& frame,
                                                   const MaskedOptions& options, const BatchLimits& limits);

}  // namespace heed::train
