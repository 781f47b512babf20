// The three data sets.
#include "train/data.h"

#include <algorithm>
#include <utility>

#include "base/philox.h"
#include "base/threads.h"
#include "heed/error.h"
#include "text/batch_order.h"

namespace heed::train {

namespace {

text::BatchOrder::Limits order_limits(const BatchLimits& limits) {
  return {.tokens = limits.tokens, .sentences = limits.sentences, .seed = limits.seed};
}

// The ids of one sentence with what stands around them.
Ids framed(const Frame& frame, const Sentences& sentences, int64_t row, int side) {
  Ids all = frame.before;
  sentences.append(row, side, all);
  all.insert(all.end(), frame.after.begin(), frame.after.end());
  return all;
}

class ParallelData : public DataSet {
 public:
  ParallelData(std::shared_ptr<const Sentences> pairs, Frame source, Frame target, const BatchLimits& limits,
               Resegmentation resegmentation)
      : best_(std::move(pairs)),
        current_(best_),
        source_(std::move(source)),
        target_(std::move(target)),
        resegmentation_(std::move(resegmentation)),
        seed_(limits.seed),
        order_(
            best_->count(), [this](int64_t first, std::span<int64_t> out) { lengths(first, out); },
            order_limits(limits)) {
    require(!resegmentation_.source || (static_cast<int64_t>(resegmentation_.source_lines.size()) == best_->count() &&
                                        static_cast<int64_t>(resegmentation_.target_lines.size()) == best_->count()),
            "train", "the text of each pair; found other numbers of lines and pairs");
  }

  int64_t batches(int64_t epoch) override {
    begin(epoch);
    return order_.batches(epoch);
  }

  Batch batch(int64_t epoch, int64_t index) override {
    begin(epoch);
    const std::vector<int64_t> rows = order_.batch(epoch, index);
    std::vector<Ids> source, input, output;
    Batch batch;
    for (const int64_t row : rows) {
      source.push_back(framed(source_, *current_, row, 0));
      output.push_back(framed(target_, *current_, row, 1));
      input.push_back({target_.begin});
      input.back().insert(input.back().end(), output.back().begin(), output.back().end() - 1);
      batch.tokens += static_cast<int64_t>(output.back().size());
    }
    text::Padded padded = text::pad(source, source_.padding);
    batch.source = padded.ids;
    batch.source_lengths = padded.lengths;
    batch.input = text::pad(input, target_.padding).ids;
    batch.output = text::pad(output, target_.padding).ids;
    batch.padding_id = target_.padding;
    batch.sentences = static_cast<int64_t>(rows.size());
    return batch;
  }

  uint32_t checksum() const override { return best_->checksum(); }

 private:
  void lengths(int64_t first, std::span<int64_t> out) const {
    current_->lengths(first, out);
    for (int64_t& length : out) length += std::max(source_.size(), target_.size());
  }

  void begin(int64_t epoch) {
    if (epoch == epoch_) return;
    if (draws(epoch)) {
      current_ = draw(epoch);
    } else {
      current_ = best_;
    }
    epoch_ = epoch;
  }

  // Whether this epoch reads segmentations that are drawn.
  bool draws(int64_t epoch) const {
    return resegmentation_.source && (resegmentation_.epochs == 0 || epoch < resegmentation_.epochs);
  }

  std::shared_ptr<const Sentences> draw(int64_t epoch) const {
    return sentences_in_memory({draw_side(*resegmentation_.source, resegmentation_.source_lines, epoch, 0),
                                draw_side(*resegmentation_.target, resegmentation_.target_lines, epoch, 1)});
  }

  // A line's segmentation depends on the seed, the epoch, the side and the line's number. Batches and threads do not
  // change it.
  std::vector<Ids> draw_side(const text::SubwordSampler& sampler, const std::vector<std::string>& lines, int64_t epoch,
                             int side) const {
    constexpr uint64_t kSubwords = 0x5355'4257'4F52'4453;  // so that dropout and the order of the data use other keys
    const auto words = philox(seed_ ^ kSubwords, static_cast<uint64_t>(epoch), static_cast<uint64_t>(side));
    const uint64_t key = (uint64_t{words[0]} << 32) | words[1];
    std::vector<Ids> drawn(lines.size());
    parallel_for(static_cast<int64_t>(lines.size()), 256, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        drawn[i] = sampler.encode(lines[i], key, i);
        if (static_cast<int64_t>(drawn[i].size()) <= resegmentation_.longest) continue;
        drawn[i].clear();
        best_->append(static_cast<int64_t>(i), side, drawn[i]);
      }
    });
    return drawn;
  }

  std::shared_ptr<const Sentences> best_;     // with the most probable segmentations
  std::shared_ptr<const Sentences> current_;  // of this epoch
  Frame source_, target_;
  Resegmentation resegmentation_;
  uint64_t seed_;
  int64_t epoch_ = -1;
  text::BatchOrder order_;
};

class StreamData : public DataSet {
 public:
  StreamData(std::shared_ptr<const Stream> stream, Windows windows, int64_t context, int32_t padding_id,
             const BatchLimits& limits)
      : stream_(std::move(stream)), windows_(windows), context_(context), padding_id_(padding_id), seed_(limits.seed) {
    predicted_ = stream_->size() - 1;
    require(predicted_ >= 1, "train", "a text of two tokens or more; found ", stream_->size());
    require(windows == Windows::consecutive || predicted_ >= context, "train", "a text of more than ", context,
            " tokens (one window); found ", stream_->size());
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
    Ids window(static_cast<size_t>(length + 1));
    for (int64_t row = 0; row < rows; ++row) {
      stream_->read(starts[static_cast<size_t>(row)], window);
      std::copy_n(window.begin(), length, batch.input.data<int32_t>() + row * length);
      std::copy_n(window.begin() + 1, length, batch.output.data<int32_t>() + row * length);
    }
    batch.padding_id = padding_id_;
    batch.tokens = rows * length;
    batch.sentences = rows;
    return batch;
  }

  uint32_t checksum() const override { return stream_->checksum(); }

 private:
  std::shared_ptr<const Stream> stream_;
  Windows windows_;
  int64_t context_;
  int32_t padding_id_;
  uint64_t seed_;
  int64_t predicted_ = 0;
  int64_t rows_ = 1;
};

class MaskedData : public DataSet {
 public:
  MaskedData(std::shared_ptr<const Sentences> sentences, Frame frame, const MaskedOptions& options,
             const BatchLimits& limits)
      : sentences_(std::move(sentences)),
        frame_(std::move(frame)),
        options_(options),
        seed_(limits.seed),
        order_(
            sentences_->count(), [this](int64_t first, std::span<int64_t> out) { lengths(first, out); },
            order_limits(limits)) {}

  int64_t batches(int64_t epoch) override { return order_.batches(epoch); }

  Batch batch(int64_t epoch, int64_t index) override {
    const std::vector<int64_t> rows = order_.batch(epoch, index);
    std::vector<Ids> inputs, outputs;
    Batch batch;
    for (const int64_t row : rows) {
      Ids input = framed(frame_, *sentences_, row, 0);
      Ids output(input.size(), frame_.padding);
      batch.tokens += mask(epoch, row, input, output);
      inputs.push_back(std::move(input));
      outputs.push_back(std::move(output));
    }
    text::Padded padded = text::pad(inputs, frame_.padding);
    batch.source = padded.ids;
    batch.source_lengths = padded.lengths;
    batch.output = text::pad(outputs, frame_.padding).ids;
    batch.padding_id = frame_.padding;
    batch.sentences = static_cast<int64_t>(rows.size());
    return batch;
  }

  uint32_t checksum() const override { return sentences_->checksum(); }

 private:
  void lengths(int64_t first, std::span<int64_t> out) const {
    sentences_->lengths(first, out);
    for (size_t i = 0; i < out.size(); ++i) {
      require(out[i] > 0, "train", "sentences that are not empty; sentence ", first + static_cast<int64_t>(i), " is");
      out[i] += frame_.size();
    }
  }

  // Whether a token is masked depends on its place in the text and on the epoch. Batches do not change it.
  int64_t mask(int64_t epoch, int64_t row, Ids& input, Ids& output) const {
    const size_t begin = frame_.before.size(), n = input.size() - static_cast<size_t>(frame_.size());
    int64_t masked = 0;
    const auto hide = [&](size_t i, const std::array<uint32_t, 4>& words) {
      output[i] = input[i];
      ++masked;
      const float fate = uniform_float(words[1]);
      if (fate < 0.8f) {
        input[i] = options_.mask_id;
      } else if (fate < 0.9f) {
        const auto first = static_cast<uint64_t>(options_.first);
        const auto choices = static_cast<uint64_t>(std::max<int64_t>(1, options_.vocabulary - options_.first));
        input[i] = static_cast<int32_t>(first + ((words[2] * choices) >> 32));
      }
    };
    const auto draw = [&](size_t i) {
      return philox(seed_, static_cast<uint64_t>(epoch), (static_cast<uint64_t>(row) << 24) | i);
    };
    for (size_t i = begin; i < begin + n; ++i) {
      const auto words = draw(i);
      if (uniform_float(words[0]) < 0.15f) hide(i, words);
    }
    if (masked == 0) {
      const size_t i = begin + draw(0)[3] % n;
      hide(i, draw(i));
    }
    return masked;
  }

  std::shared_ptr<const Sentences> sentences_;
  Frame frame_;
  MaskedOptions options_;
  uint64_t seed_;
  text::BatchOrder order_;
};

}  // namespace

Frame source_frame(const text::SpecialIds& special) {
  return {.before = {}, .after = {special.end}, .padding = special.padding};
}

Frame target_frame(const text::SpecialIds& special) {
  return {.before = {}, .after = {special.end}, .begin = special.begin, .padding = special.padding};
}

Frame masked_frame(const text::SpecialIds& special) {
  return {.before = {special.begin}, .after = {special.end}, .padding = special.padding};
}

std::unique_ptr<DataSet> parallel_data(std::shared_ptr<const Sentences> pairs, const Frame& source, const Frame& target,
                                       const BatchLimits& limits, Resegmentation resegmentation) {
  require(!target.after.empty(), "train", "an end behind each target; found none");
  return std::make_unique<ParallelData>(std::move(pairs), source, target, limits, std::move(resegmentation));
}

std::unique_ptr<DataSet> parallel_data(std::vector<Ids> sources, std::vector<Ids> targets, const Frame& source,
                                       const Frame& target, const BatchLimits& limits, Resegmentation resegmentation) {
  std::vector<std::vector<Ids>> sides;
  sides.push_back(std::move(sources));
  sides.push_back(std::move(targets));
  return parallel_data(sentences_in_memory(std::move(sides)), source, target, limits, std::move(resegmentation));
}

std::unique_ptr<DataSet> stream_data(std::shared_ptr<const Stream> stream, Windows windows, int64_t context,
                                     int32_t padding_id, const BatchLimits& limits) {
  return std::make_unique<StreamData>(std::move(stream), windows, context, padding_id, limits);
}

std::unique_ptr<DataSet> stream_data(Ids stream, Windows windows, int64_t context, int32_t padding_id,
                                     const BatchLimits& limits) {
  return stream_data(stream_in_memory(std::move(stream)), windows, context, padding_id, limits);
}

std::unique_ptr<DataSet> masked_data(std::shared_ptr<const Sentences> sentences, const Frame& frame,
                                     const MaskedOptions& options, const BatchLimits& limits) {
  require(options.mask_id >= 0 && options.vocabulary > options.first, "train",
          "a mask id and a vocabulary for masked language models; found ", options.mask_id, " and ",
          options.vocabulary);
  return std::make_unique<MaskedData>(std::move(sentences), frame, options, limits);
}

std::unique_ptr<DataSet> masked_data(std::vector<Ids> sentences, const Frame& frame, const MaskedOptions& options,
                                     const BatchLimits& limits) {
  std::vector<std::vector<Ids>> sides;
  sides.push_back(std::move(sentences));
  return masked_data(sentences_in_memory(std::move(sides)), frame, options, limits);
}

}  // namespace heed::train
