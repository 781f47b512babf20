// Tokens in memory.
#include "train/sentences.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "heed/error.h"

namespace heed::train {

namespace {

class SentencesInMemory : public Sentences {
 public:
  explicit SentencesInMemory(std::vector<std::vector<Ids>> sides) : sides_(std::move(sides)) {
    for (const auto& side : sides_) {
      require(side.size() == sides_[0].size(), "train", "as many targets as sources; found ", sides_[0].size(), " and ",
              side.size());
    }
  }
  int64_t count() const override { return static_cast<int64_t>(sides_[0].size()); }
  void lengths(int64_t first, std::span<int64_t> lengths) const override {
    for (size_t i = 0; i < lengths.size(); ++i) {
      size_t longest = 0;
      for (const auto& side : sides_) longest = std::max(longest, side[static_cast<size_t>(first) + i].size());
      lengths[i] = static_cast<int64_t>(longest);
    }
  }
  void append(int64_t sentence, int side, Ids& to) const override {
    const Ids& ids = sides_[static_cast<size_t>(side)][static_cast<size_t>(sentence)];
    to.insert(to.end(), ids.begin(), ids.end());
  }
  uint32_t checksum() const override {
    uint32_t sum = 0;
    for (const auto& side : sides_) sum = checksum_of(side, sum);
    return sum;
  }

 private:
  std::vector<std::vector<Ids>> sides_;
};

class StreamInMemory : public Stream {
 public:
  explicit StreamInMemory(Ids stream) : stream_(std::move(stream)) {}
  int64_t size() const override { return static_cast<int64_t>(stream_.size()); }
  void read(int64_t first, std::span<int32_t> to) const override {
    std::copy_n(stream_.begin() + first, to.size(), to.begin());
  }
  uint32_t checksum() const override { return checksum_of_stream(stream_); }

 private:
  Ids stream_;
};

}  // namespace

std::shared_ptr<const Sentences> sentences_in_memory(std::vector<std::vector<Ids>> sides) {
  return std::make_shared<SentencesInMemory>(std::move(sides));
}

std::shared_ptr<const Stream> stream_in_memory(Ids stream) {
  return std::make_shared<StreamInMemory>(std::move(stream));
}

uint32_t checksum_of_stream(std::span<const int32_t> ids, uint32_t start) {
  return files::crc32({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)}, start);
}

uint32_t checksum_of(const std::vector<Ids>& sequences, uint32_t start) {
  uint32_t sum = start;
  for (const Ids& ids : sequences) {
    const auto size = static_cast<int32_t>(ids.size());  // so that moving a boundary is noticed
    sum = checksum_of_stream(ids, files::crc32({reinterpret_cast<const char*>(&size), sizeof size}, sum));
  }
  return sum;
}

}  // namespace heed::train
