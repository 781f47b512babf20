#include "train/training_text.h"

#include <algorithm>

#include "heed/error.h"

namespace heed::train {

namespace {

constexpr int64_t kLongestLine = int64_t{16} << 20;

}  // namespace

TrainingText::TrainingText(const Recipe& recipe)
    : recipe_(recipe), reader_(recipe.pairs.empty() ? recipe.train_source : recipe.pairs, kLongestLine) {
  if (recipe.task == "translation" && recipe.pairs.empty()) target_reader_.emplace(recipe.train_target, kLongestLine);
}

bool TrainingText::next() {
  const bool more = reader_.next(line_);
  if (target_reader_) {
    if (target_reader_->next(target_) != more) {
      std::string_view unused;
      while (reader_.next(unused)) {
      }
      while (target_reader_->next(unused)) {
      }
      fail("train", recipe_.train_target, ": as many lines as ", recipe_.train_source, ", ", reader_.lines(),
           "; found ", target_reader_->lines());
    }
    source_ = line_;
  } else if (more && !recipe_.pairs.empty()) {
    std::tie(source_, target_) = split_pair(line_, recipe_.pairs, reader_.lines());
  } else {
    source_ = line_;
  }
  return more;
}

TrainingText::Place TrainingText::place() const {
  return {reader_.lines(), reader_.position(), target_reader_ ? target_reader_->position() : 0};
}

void TrainingText::skip_to(const Place& place) {
  reader_.skip_to(place.source, place.line);
  if (target_reader_) target_reader_->skip_to(place.target, place.line);
}

std::pair<std::string_view, std::string_view> split_pair(std::string_view line, const std::filesystem::path& file,
                                                         int64_t number) {
  const size_t first = line.find('\t');
  require(first != std::string::npos, "read_pairs", file.string(), ", line ", number,
          ": source <tab> target; found no tab");
  const size_t second = std::min(line.find('\t', first + 1), line.size());
  return {line.substr(0, first), line.substr(first + 1, second - first - 1)};
}

}  // namespace heed::train
