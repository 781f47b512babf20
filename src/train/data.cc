// The three data sets.
#include "train/data.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/philox.h"
#include "base/threads.h"
#include "heed/error.h"
#include "text/batches.h"

namespace heed::train {

namespace {

uint32_t checksum_of(const Ids& ids, uint32_t before) {
  return files::crc32({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)}, before);
}

// The batches of one epoch. They are made when the epoch is first asked for, and kept until another one is.
class Order {
 public:
  explicit Order(const BatchLimits& limits) : limits_(limits) {}

  // `lengths` is called once an epoch.
  template <class Lengths>
  const std::vector<std::vector<int64_t>>& of(int64_t epoch, const Lengths& lengths) {
    if (epoch != epoch_) {
      const std::vector<int64_t> all = lengths();
      int64_t tokens = limits_.tokens;
      for (const int64_t length : all) tokens = std::max(tokens, length);  // a long sentence is a batch of its own
      batches_ = text::batches_by_tokens(all, tokens, limits_.sentences, limits_.seed, epoch);
      epoch_ = epoch;
    }
    return batches_;
  }

 private:
  BatchLimits limits_;
  int64_t epoch_ = -1;
  std::vector<std::vector<int64_t>> batches_;
};

Ids with(std::initializer_list<int32_t> before, const Ids& ids, std::initializer_list<int32_t> after) {
  Ids all;
  all.reserve(before.size() + ids.size() + after.size());
  all.insert(all.end(), before);
  all.insert(all.end(), ids.begin(), ids.end());
  all.insert(all.end(), after);
  return all;
}

class ParallelData : public DataSet {
 public:
  ParallelData(std::vector<Ids> sources, std::vector<Ids> targets, text::SpecialIds source_special,
               text::SpecialIds target_special, const BatchLimits& limits, Resegmentation resegmentation)
      : sources_(std::move(sources)),
        targets_(std::move(targets)),
        source_special_(source_special),
        target_special_(target_special),
        resegmentation_(std::move(resegmentation)),
        seed_(limits.seed),
        order_(limits) {
    require(sources_.size() == targets_.size(), "train", "as many targets as sources; found ", sources_.size(), " and ",
            targets_.size());
    require(!resegmentation_.source || (resegmentation_.source_lines.size() == sources_.size() &&
                                        resegmentation_.target_lines.size() == sources_.size()),
            "train", "the text of each pair; found other numbers of lines and pairs");
  }

  int64_t batches(int64_t epoch) override { return static_cast<int64_t>(rows_of(epoch).size()); }

  Batch batch(int64_t epoch, int64_t index) override {
    const auto& rows = rows_of(epoch)[static_cast<size_t>(index)];
    const std::vector<Ids>& sources = draws(epoch) ? drawn_sources_ : sources_;
    const std::vector<Ids>& targets = draws(epoch) ? drawn_targets_ : targets_;
    std::vector<Ids> source, input, output;
    Batch batch;
    for (const int64_t row : rows) {
      const auto i = static_cast<size_t>(row);
      source.push_back(with({}, sources[i], {source_special_.end}));
      input.push_back(with({target_special_.begin}, targets[i], {}));
      output.push_back(with({}, targets[i], {target_special_.end}));
      batch.tokens += static_cast<int64_t>(output.back().size());
    }
    text::Padded padded = text::pad(source, source_special_.padding);
    batch.source = padded.ids;
    batch.source_lengths = padded.lengths;
    batch.input = text::pad(input, target_special_.padding).ids;
    batch.output = text::pad(output, target_special_.padding).ids;
    batch.padding_id = target_special_.padding;
    batch.sentences = static_cast<int64_t>(rows.size());
    return batch;
  }

  uint32_t checksum() const override { return train::checksum_of(targets_, train::checksum_of(sources_)); }

 private:
  const std::vector<std::vector<int64_t>>& rows_of(int64_t epoch) {
    return order_.of(epoch, [&] {
      if (!draws(epoch)) return lengths(sources_, targets_);
      draw(epoch);
      return lengths(drawn_sources_, drawn_targets_);
    });
  }

  // Whether this epoch reads segmentations that are drawn.
  bool draws(int64_t epoch) const {
    return resegmentation_.source && (resegmentation_.epochs == 0 || epoch < resegmentation_.epochs);
  }

  static std::vector<int64_t> lengths(const std::vector<Ids>& sources, const std::vector<Ids>& targets) {
    std::vector<int64_t> lengths(sources.size());
    for (size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = static_cast<int64_t>(std::max(sources[i].size(), targets[i].size())) + 1;
    }
    return lengths;
  }

  void draw(int64_t epoch) {
    drawn_sources_.resize(sources_.size());
    drawn_targets_.resize(targets_.size());
    draw_side(*resegmentation_.source, resegmentation_.source_lines, sources_, epoch, 0, drawn_sources_);
    draw_side(*resegmentation_.target, resegmentation_.target_lines, targets_, epoch, 1, drawn_targets_);
  }

  // A line's segmentation depends on the seed, the epoch, the side and the line's number. Batches and threads do not
  // change it.
  void draw_side(const text::SubwordSampler& sampler, const std::vector<std::string>& lines,
                 const std::vector<Ids>& best, int64_t epoch, uint64_t side, std::vector<Ids>& drawn) const {
    constexpr uint64_t kSubwords = 0x5355'4257'4F52'4453;  // so that dropout and the order of the data use other keys
    const auto words = philox(seed_ ^ kSubwords, static_cast<uint64_t>(epoch), side);
    const uint64_t key = (uint64_t{words[0]} << 32) | words[1];
    parallel_for(static_cast<int64_t>(lines.size()), 256, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        drawn[i] = sampler.encode(lines[i], key, i);
        if (static_cast<int64_t>(drawn[i].size()) > resegmentation_.longest) drawn[i] = best[i];
      }
    });
  }

  std::vector<Ids> sources_, targets_;
  text::SpecialIds source_special_, target_special_;
  Resegmentation resegmentation_;
  uint64_t seed_;
  std::vector<Ids> drawn_sources_, drawn_targets_;  // of the same epoch as order_
  Order order_;
};

class StreamData : public DataSet {
 public:
  StreamData(Ids stream, Windows windows, int64_t context, int32_t padding_id, const BatchLimits& limits)
      : stream_(std::move(stream)), windows_(windows), context_(context), padding_id_(padding_id), seed_(limits.seed) {
    predicted_ = static_cast<int64_t>(stream_.size()) - 1;
    require(predicted_ >= 1, "train", "a text of two tokens or more; found ", stream_.size());
    require(windows == Windows::consecutive || predicted_ >= context, "train", "a text of more than ", context,
            " tokens (one window); found ", stream_.size());
    rows_ = limits.sentences > 0 ? limits.sentences : std::max<int64_t>(1, limits.tokens / context);
  }

  int64_t batches(int64_t /*epoch*/) override {
    if (windows_ == Windows::random) return std::max<int64_t>(1, predicted_ / (rows_ * context_));
    const int64_t whole = predicted_ / context_;
    return (whole + rows_ - 1) / rows_ + (predicted_ % context_ != 0 ? 1 : 0);
  }

  Batch batch(int64_t epoch, int64_t index) override {
    std::vector<int64_t> starts;
    int64_t length = context_;
    if (windows_ == Windows::random) {
      const auto number = static_cast<uint64_t>(epoch * batches(epoch) + index);
      for (int64_t row = 0; row < rows_; ++row) {
        const auto words = philox(seed_, number, static_cast<uint64_t>(row));
        const double u = uniform_double(words[0], words[1]);
        starts.push_back(static_cast<int64_t>(u * static_cast<double>(predicted_ - context_ + 1)));
      }
    } else {
      const int64_t whole = predicted_ / context_;
      for (int64_t w = index * rows_; w < std::min(whole, (index + 1) * rows_); ++w) starts.push_back(w * context_);
      if (starts.empty()) {  // the shorter window at the end
        starts.push_back(whole * context_);
        length = predicted_ - whole * context_;
      }
    }
    const auto rows = static_cast<int64_t>(starts.size());
    Batch batch;
    batch.input = Tensor::empty({rows, length}, DType::i32);
    batch.output = Tensor::empty({rows, length}, DType::i32);
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t* first = stream_.data() + starts[static_cast<size_t>(row)];
      std::copy_n(first, length, batch.input.data<int32_t>() + row * length);
      std::copy_n(first + 1, length, batch.output.data<int32_t>() + row * length);
    }
    batch.padding_id = padding_id_;
    batch.tokens = rows * length;
    batch.sentences = rows;
    return batch;
  }

  uint32_t checksum() const override { return checksum_of(stream_, 0); }

 private:
  Ids stream_;
  Windows windows_;
  int64_t context_;
  int32_t padding_id_;
  uint64_t seed_;
  int64_t predicted_ = 0;
  int64_t rows_ = 1;
};

class MaskedData : public DataSet {
 public:
  MaskedData(std::vector<Ids> sentences, text::SpecialIds special, const MaskedOptions& options,
             const BatchLimits& limits)
      : sentences_(std::move(sentences)), special_(special), options_(options), seed_(limits.seed), order_(limits) {
    for (const Ids& ids : sentences_) require(!ids.empty(), "train", "sentences that are not empty; found one");
  }

  int64_t batches(int64_t epoch) override { return static_cast<int64_t>(rows_of(epoch).size()); }

  Batch batch(int64_t epoch, int64_t index) override {
    const auto& rows = rows_of(epoch)[static_cast<size_t>(index)];
    std::vector<Ids> inputs, outputs;
    Batch batch;
    for (const int64_t row : rows) {
      Ids input = with({special_.begin}, sentences_[static_cast<size_t>(row)], {special_.end});
      Ids output(input.size(), special_.padding);
      batch.tokens += mask(epoch, row, input, output);
      inputs.push_back(std::move(input));
      outputs.push_back(std::move(output));
    }
    text::Padded padded = text::pad(inputs, special_.padding);
    batch.source = padded.ids;
    batch.source_lengths = padded.lengths;
    batch.output = text::pad(outputs, special_.padding).ids;
    batch.padding_id = special_.padding;
    batch.sentences = static_cast<int64_t>(rows.size());
    return batch;
  }

  uint32_t checksum() const override { return train::checksum_of(sentences_); }

 private:
  const std::vector<std::vector<int64_t>>& rows_of(int64_t epoch) {
    return order_.of(epoch, [&] {
      std::vector<int64_t> lengths(sentences_.size());
      for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<int64_t>(sentences_[i].size()) + 2;
      return lengths;
    });
  }

  // Whether a token is masked depends on its place in the text and on the epoch. Batches do not change it.
  int64_t mask(int64_t epoch, int64_t row, Ids& input, Ids& output) const {
    const size_t n = input.size() - 2;
    int64_t masked = 0;
    const auto hide = [&](size_t i, const std::array<uint32_t, 4>& words) {
      output[i] = input[i];
      ++masked;
      const float fate = uniform_float(words[1]);
      if (fate < 0.8f) {
        input[i] = options_.mask_id;
      } else if (fate < 0.9f) {
        const uint64_t first = 4;  // behind the special ids
        const auto choices = static_cast<uint64_t>(std::max<int64_t>(1, options_.vocabulary - 4));
        input[i] = static_cast<int32_t>(first + ((words[2] * choices) >> 32));
      }
    };
    const auto draw = [&](size_t i) {
      return philox(seed_, static_cast<uint64_t>(epoch), (static_cast<uint64_t>(row) << 24) | i);
    };
    for (size_t i = 1; i <= n; ++i) {
      const auto words = draw(i);
      if (uniform_float(words[0]) < 0.15f) hide(i, words);
    }
    if (masked == 0) {
      const size_t i = 1 + draw(0)[3] % n;
      hide(i, draw(i));
    }
    return masked;
  }

  std::vector<Ids> sentences_;
  text::SpecialIds special_;
  MaskedOptions options_;
  uint64_t seed_;
  Order order_;
};

}  // namespace

uint32_t checksum_of(const std::vector<Ids>& sequences, uint32_t start) {
  uint32_t sum = start;
  for (const Ids& ids : sequences) {
    const auto size = static_cast<int32_t>(ids.size());  // so that moving a boundary is noticed
    sum = checksum_of(ids, files::crc32({reinterpret_cast<const char*>(&size), sizeof size}, sum));
  }
  return sum;
}

std::unique_ptr<DataSet> parallel_data(std::vector<Ids> sources, std::vector<Ids> targets,
                                       text::SpecialIds source_special, text::SpecialIds target_special,
                                       const BatchLimits& limits, Resegmentation resegmentation) {
  return std::make_unique<ParallelData>(std::move(sources), std::move(targets), source_special, target_special, limits,
                                        std::move(resegmentation));
}

std::unique_ptr<DataSet> stream_data(Ids stream, Windows windows, int64_t context, int32_t padding_id,
                                     const BatchLimits& limits) {
  return std::make_unique<StreamData>(std::move(stream), windows, context, padding_id, limits);
}

std::unique_ptr<DataSet> masked_data(std::vector<Ids> sentences, text::SpecialIds special, const MaskedOptions& options,
                                     const BatchLimits& limits) {
  require(options.mask_id >= 0 && options.vocabulary > 4, "train",
          "a mask id and a vocabulary for masked language models; found ", options.mask_id, " and ",
          options.vocabulary);
  return std::make_unique<MaskedData>(std::move(sentences), special, options, limits);
}

}  // namespace heed::train
