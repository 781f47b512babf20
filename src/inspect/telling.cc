// Which head to look at first: a score of how much a head's picture tells about words.
#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/words.h"

namespace heed::inspect {
namespace {

const std::vector<Map>& maps_of(const Record& record, Part part) {
  return part == Part::encoder   ? record.encoder
         : part == Part::decoder ? record.decoder
         : part == Part::cross   ? record.cross
                                 : record.arrays;
}

// Tokens that were not given are numbers, and numbers are words.
bool is_word_at(const std::vector<std::string>& tokens, int64_t at) {
  return at >= static_cast<int64_t>(tokens.size()) || is_word(tokens[static_cast<size_t>(at)]);
}

double finite_or_zero(float weight) { return std::isfinite(weight) ? static_cast<double>(weight) : 0; }

// The cells (row, column) whose weights count.
//
// In self-attention a token's own place and its neighbours do not count: every model has heads that look there,
// whatever the words are. Nor does a decoder's first token, on which heads rest that have nothing to read.
class Cells {
 public:
  Cells(const Record& record, Part part, int64_t rows, int64_t columns) : part_(part) {
    const auto& row_tokens = part == Part::encoder                                  ? record.source_tokens
                             : part == Part::cross && !record.output_tokens.empty() ? record.output_tokens
                                                                                    : record.target_tokens;
    const auto& column_tokens = part == Part::decoder ? record.target_tokens : record.source_tokens;
    // Arrays have no words: all of their queries and keys count.
    for (int64_t i = 0; i < rows; ++i) rows_.push_back(part == Part::arrays || is_word_at(row_tokens, i));
    for (int64_t j = 0; j < columns; ++j) columns_.push_back(part == Part::arrays || is_word_at(column_tokens, j));
  }
  [[nodiscard]] int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  [[nodiscard]] int64_t columns() const { return static_cast<int64_t>(columns_.size()); }
  [[nodiscard]] bool counts(int64_t i, int64_t j) const {
    if (!rows_[static_cast<size_t>(i)] || !columns_[static_cast<size_t>(j)]) return false;
    if (part_ == Part::decoder) return j >= 1 && j <= i - 2;
    return part_ != Part::encoder || std::abs(i - j) >= 2;
  }

 private:
  Part part_;
  std::vector<bool> rows_, columns_;
};

// The sum over all heads of all layers, or nothing where heads need not agree: those of cross-attention read the word
// that is being said, those of self-attention have different tasks.
std::vector<double> consensus(const std::vector<Map>& maps, Part part, const Cells& cells) {
  if (part != Part::cross) return {};
  const int64_t size = cells.rows() * cells.columns();
  std::vector<double> sum(static_cast<size_t>(size));
  for (const Map& map : maps) {
    const Tensor weights = map.weights.to(DType::f32).contiguous();
    for (int64_t at = 0; at < weights.numel(); ++at)
      sum[static_cast<size_t>(at % size)] += finite_or_zero(weights.data<float>()[at]);
  }
  return sum;
}

// weights (L, S)
double score(const float* weights, const Cells& cells, const std::vector<double>& others) {
  std::vector<bool> reached(static_cast<size_t>(cells.columns())), reachable = reached;
  const double even = 1 / static_cast<double>(cells.columns());
  double sum = 0;
  int64_t rows = 0;
  for (int64_t i = 0; i < cells.rows(); ++i) {
    int64_t best = -1;
    double most = 0, all = 0;
    const int64_t row = i * cells.columns();
    for (int64_t j = 0; j < cells.columns(); ++j) {
      if (!cells.counts(i, j)) continue;
      reachable[static_cast<size_t>(j)] = true;
      if (!others.empty()) all += others[static_cast<size_t>(row + j)];
      const double weight = finite_or_zero(weights[row + j]);
      if (best >= 0 && weight <= most) continue;
      best = j;
      most = weight;
    }
    if (best < 0) continue;
    ++rows;
    sum += others.empty() ? most : all > 0 ? most * others[static_cast<size_t>(row + best)] / all : 0;
    if (most > even) reached[static_cast<size_t>(best)] = true;
  }
  if (rows == 0) return 0;
  const auto count = [](const std::vector<bool>& flags) { return std::count(flags.begin(), flags.end(), true); };
  // One column is what every head reaches, a sink too: it counts only where there is no second one.
  const int64_t most_columns = std::min<int64_t>(rows, count(reachable));
  const double coverage = most_columns == 1 ? 1
                                            : static_cast<double>(std::max<int64_t>(0, count(reached) - 1)) /
                                                  static_cast<double>(most_columns - 1);
  return coverage * sum / static_cast<double>(rows);
}

}  // namespace

std::vector<std::vector<double>> telling_scores(const Record& record, Part part) {
  const std::vector<Map>& maps = maps_of(record, part);
  std::vector<std::vector<double>> out;
  if (maps.empty()) return out;
  for (const Map& map : maps) {
    require(map.weights.defined() && map.weights.rank() == 3, "inspect::telling_scores", "weights (H, L, S) of \"",
            map.path, "\"; found ", map.weights.defined() ? to_string(map.weights.shape()) : "an undefined tensor");
    require(map.weights.size(1) == maps[0].weights.size(1) && map.weights.size(2) == maps[0].weights.size(2),
            "inspect::telling_scores", "one (L, S) in all layers; found ", maps[0].weights.shape(), " and ",
            map.weights.shape());
  }
  const Cells cells(record, part, maps[0].weights.size(1), maps[0].weights.size(2));
  const std::vector<double> others = consensus(maps, part, cells);
  const auto rounded = [](double value) { return std::round(value * 1e4) / 1e4; };
  const int64_t size = cells.rows() * cells.columns();
  for (const Map& map : maps) {
    const Tensor weights = map.weights.to(DType::f32).contiguous();
    const int64_t heads = weights.size(0);
    std::vector<double> scores;
    std::vector<float> mean(static_cast<size_t>(size));
    for (int64_t h = 0; h < heads; ++h) {
      const float* head = weights.data<float>() + h * size;
      for (int64_t at = 0; at < size; ++at) mean[static_cast<size_t>(at)] += head[at] / static_cast<float>(heads);
      scores.push_back(rounded(score(head, cells, others)));
    }
    scores.push_back(rounded(score(mean.data(), cells, others)));
    out.push_back(std::move(scores));
  }
  return out;
}

Place most_telling(const Record& record, Part part) {
  Place best{.part = part};
  const auto scores = telling_scores(record, part);
  for (size_t layer = 0; layer < scores.size(); ++layer) {
    for (size_t head = 0; head < scores[layer].size(); ++head) {
      if (scores[layer][head] <= best.score) continue;
      const bool is_mean = head + 1 == scores[layer].size();
      best = {.part = part,
              .layer = static_cast<int64_t>(layer),
              .head = is_mean ? -1 : static_cast<int64_t>(head),
              .score = scores[layer][head]};
    }
  }
  return best;
}

Place most_telling(const Record& record) {
  return most_telling(record, !record.cross.empty()     ? Part::cross
                              : !record.decoder.empty() ? Part::decoder
                              : !record.encoder.empty() ? Part::encoder
                                                        : Part::arrays);
}

}  // namespace heed::inspect
