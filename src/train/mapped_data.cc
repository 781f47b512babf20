#include "train/mapped_data.h"

#include <algorithm>
#include <utility>

#include "base/files.h"

namespace heed::train {

namespace {

// The system maps up to 16 pages around one that is touched.
constexpr int64_t kAround = int64_t{16} * 4096, kMostTouched = int64_t{64} << 20;

class MappedSentences : public Sentences {
 public:
  MappedSentences(std::shared_ptr<const TokenParts> parts, int sides) : parts_(std::move(parts)), sides_(sides) {}
  int64_t count() const override { return parts_->counts().sentences; }

  void lengths(int64_t first, std::span<int64_t> lengths) const override {
    while (!lengths.empty()) {
      const auto [p, begin] = parts_->of_sentence(first);
      const TokenFile& part = parts_->part(p);
      const int64_t left = begin + part.counts().sentences - first;
      const auto taken = static_cast<size_t>(std::min(left, static_cast<int64_t>(lengths.size())));
      part.lengths(first - begin, lengths.first(taken));
      parts_->touched(static_cast<int64_t>(taken * sizeof(uint32_t)) * sides_);
      first += static_cast<int64_t>(taken);
      lengths = lengths.subspan(taken);
    }
  }

  void append(int64_t sentence, int side, Ids& to) const override {
    const auto [p, begin] = parts_->of_sentence(sentence);
    const size_t before = to.size();
    parts_->part(p).append(sentence - begin, side, to);
    parts_->touched(static_cast<int64_t>((to.size() - before) * sizeof(int32_t)) + kAround);  // the index, far away
  }

  uint32_t checksum() const override {
    uint32_t sum = 0;
    for (int s = 0; s < sides_; ++s) {
      for (size_t p = 0; p < parts_->size(); ++p) {
        const TokenCounts& counts = parts_->part(p).counts();
        const TokenCounts::Side& side = counts.side[s];
        const int64_t numbers = counts.sentences + side.tokens;  // each length before its ids
        sum = files::crc32_of_both(sum, side.checksum, numbers * static_cast<int64_t>(sizeof(int32_t)));
      }
    }
    return sum;
  }

 private:
  std::shared_ptr<const TokenParts> parts_;
  int sides_;
};

class MappedStream : public Stream {
 public:
  MappedStream(std::shared_ptr<const TokenParts> parts, int64_t first, int64_t last)
      : parts_(std::move(parts)), first_(first), last_(last) {}
  int64_t size() const override { return last_ - first_; }

  void read(int64_t first, std::span<int32_t> to) const override {
    first += first_;
    while (!to.empty()) {
      const auto [p, begin] = parts_->of_token(first);
      const TokenFile& part = parts_->part(p);
      const int64_t left = begin + part.counts().tokens - first;
      const auto taken = static_cast<size_t>(std::min(left, static_cast<int64_t>(to.size())));
      part.read(first - begin, to.first(taken));
      parts_->touched(static_cast<int64_t>(taken * sizeof(int32_t)));
      first += static_cast<int64_t>(taken);
      to = to.subspan(taken);
    }
  }

  // Whole parts have theirs written down; of a part that is cut, the ids are read.
  uint32_t checksum() const override {
    uint32_t sum = 0;
    Ids ids;
    for (int64_t at = first_; at < last_;) {
      const auto [p, begin] = parts_->of_token(at);
      const TokenCounts& counts = parts_->part(p).counts();
      if (at == begin && begin + counts.tokens <= last_) {
        sum = files::crc32_of_both(sum, counts.side[0].checksum, counts.tokens * static_cast<int64_t>(sizeof(int32_t)));
        at += counts.tokens;
        continue;
      }
      ids.resize(static_cast<size_t>(std::min({begin + counts.tokens - at, last_ - at, int64_t{1} << 18})));
      read(at - first_, ids);
      sum = checksum_of_stream(ids, sum);
      at += static_cast<int64_t>(ids.size());
    }
    return sum;
  }

 private:
  std::shared_ptr<const TokenParts> parts_;
  int64_t first_, last_;
};

}  // namespace

TokenParts::TokenParts(const std::vector<std::filesystem::path>& files, TokenFileKind kind) {
  for (size_t p = 0; p < files.size(); ++p) {
    kind.part = static_cast<int64_t>(p);
    parts_.push_back(std::make_unique<TokenFile>(files[p], kind));
    const TokenCounts& counts = parts_.back()->counts();
    first_sentences_.push_back(counts_.sentences);
    first_tokens_.push_back(counts_.tokens);
    counts_.lines += counts.lines;
    counts_.left_out += counts.left_out;
    counts_.sentences += counts.sentences;
    counts_.tokens += counts.tokens;
    counts_.longest = std::max(counts_.longest, counts.longest);
    counts_.longer_sides += counts.longer_sides;
  }
}

// The last part that begins at or before `number`: parts without sentences are passed over.
TokenParts::Place TokenParts::place(const std::vector<int64_t>& firsts, int64_t number) {
  const auto after = std::upper_bound(firsts.begin(), firsts.end(), number);
  const auto part = static_cast<size_t>(after - firsts.begin()) - 1;
  return {part, firsts[part]};
}

void TokenParts::touched(int64_t bytes) const {
  touched_ += bytes + kAround;
  if (touched_ < kMostTouched) return;
  for (const auto& part : parts_) part->release();
  touched_ = 0;
}

std::shared_ptr<const Sentences> mapped_sentences(std::shared_ptr<const TokenParts> parts, int sides) {
  return std::make_shared<MappedSentences>(std::move(parts), sides);
}

std::shared_ptr<const Stream> mapped_stream(std::shared_ptr<const TokenParts> parts, int64_t first, int64_t last) {
  return std::make_shared<MappedStream>(std::move(parts), first, last);
}

}  // namespace heed::train
