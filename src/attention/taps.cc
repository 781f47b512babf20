// The passes over the weights, each cut up so that what a task writes is its own: rows, ranges of keys, or rows of
// cells. So every sum has one order, whatever the threads.
#include "attention/taps.h"

#include <algorithm>

#include "attention/group.h"
#include "base/threads.h"
#include "heed/error.h"

namespace heed {
namespace {

using kernels::kTileRows;

constexpr int64_t kRangeKeys = 256;  // keys of a task that adds up columns

// All that one thread needs; groups are made as it comes to them.
class Worker {
 public:
  Worker(const AttentionProblem& problem, const Tensor& query, const KeyValues& memory, const Tensor& logsumexp)
      : problem_(problem), query_(query), memory_(memory), logsumexp_(logsumexp) {}

  // Moves to `heads` query heads of sequence b from head h on.
  void enter(int64_t b, int64_t h, int64_t heads) {
    if (b == b_ && h == h_) return;
    b_ = b, h_ = h;
    group_ = make_group(problem_, query_, memory_, b, h, heads);
    dense_.load(group_);
    taps.logsumexp = strided<const float>(logsumexp_, b, h);
    taps.key_end = taps.all_keys = problem_.keys;
  }

  void run(int64_t first, int64_t rows) {
    if (scratch_.size() == 0) scratch_ = Buffer<float>(kernels::attention_taps_scratch(group_, taps.top));
    kernels::attention_taps_tile(group_, taps, first, rows, scratch_.data());
  }

  kernels::AttentionTaps taps;

 private:
  const AttentionProblem& problem_;
  const Tensor& query_;
  const KeyValues& memory_;
  const Tensor& logsumexp_;
  int64_t b_ = -1, h_ = -1;
  kernels::AttentionGroup group_;
  DenseKeys dense_;
  Buffer<float> scratch_;
};

// Which rows are to be returned whole, by head * L + query: the rows of a tile follow each other in that order.
struct Chosen {
  int64_t row, place;
};
std::vector<Chosen> sorted(const std::vector<AttentionTaps::Row>& rows, int64_t queries) {
  std::vector<Chosen> chosen;
  for (const AttentionTaps::Row& row : rows) {
    chosen.push_back({row.head * queries + row.query, static_cast<int64_t>(chosen.size())});
  }
  std::sort(chosen.begin(), chosen.end(), [](const Chosen& a, const Chosen& b) { return a.row < b.row; });
  return chosen;
}

struct Taps {
  const AttentionProblem& problem;
  const Tensor& query;
  const KeyValues& memory;
  const Tensor& logsumexp;
  const AttentionTaps& wanted;
  AttentionTapped& result;

  [[nodiscard]] Worker worker() const { return {problem, query, memory, logsumexp}; }

  // Entropy, the largest weights, and rows as a whole.
  void by_row() const {
    const bool every_row = wanted.entropy || wanted.top_k > 0;
    const RowTiles tiles(problem.group(), problem.queries);
    const std::vector<Chosen> chosen = sorted(wanted.rows, problem.queries);
    parallel_for(problem.batch * problem.kv_heads * tiles.count(), 1, [&](int64_t begin, int64_t end) {
      Worker thread = worker();
      for (int64_t task = begin; task < end; ++task) {
        const int64_t group = task / tiles.count();
        const int64_t b = group / problem.kv_heads, h = group % problem.kv_heads * problem.group();
        const RowTiles::Rows rows = tiles[balanced(task % tiles.count(), tiles.count())];
        const int64_t from = h * problem.queries + rows.first;
        auto next = std::lower_bound(chosen.begin(), chosen.end(), from,
                                     [](const Chosen& c, int64_t row) { return c.row < row; });
        const bool holds_chosen = next != chosen.end() && next->row < from + rows.count;
        if (!every_row && !holds_chosen) continue;
        thread.enter(b, h, problem.group());
        float* to[kTileRows] = {};
        for (; next != chosen.end() && next->row < from + rows.count; ++next) {
          to[next->row - from] = result.rows.data<float>() + (b * result.rows.size(1) + next->place) * problem.keys;
        }
        thread.taps.rows = holds_chosen ? to : nullptr;
        if (wanted.entropy) thread.taps.entropy = strided<float>(result.entropy, b, h);
        if (wanted.top_k > 0) {
          thread.taps.top = wanted.top_k;
          thread.taps.top_keys = strided<int32_t>(result.top_keys, b, h);
          thread.taps.top_weights = strided<float>(result.top_weights, b, h);
        }
        thread.run(rows.first, rows.count);
      }
    });
  }

  void by_column() const {
    const RowTiles tiles(1, problem.queries);
    const int64_t ranges = (problem.keys + kRangeKeys - 1) / kRangeKeys;
    parallel_for(problem.batch * problem.heads * ranges, 1, [&](int64_t begin, int64_t end) {
      Worker thread = worker();
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / ranges, first = balanced(task % ranges, ranges) * kRangeKeys;
        thread.enter(head / problem.heads, head % problem.heads, 1);
        float* const sums = result.column_sums.data<float>() + head * problem.keys + first;
        thread.taps.key_begin = first;
        thread.taps.key_end = std::min(first + kRangeKeys, problem.keys);
        thread.taps.column_sums = sums;
        std::fill_n(sums, thread.taps.key_end - first, 0.0f);
        for (int64_t t = 0; t < tiles.count(); ++t) thread.run(tiles[t].first, tiles[t].count);
        kernels::attention_copy_rows(sums, 0, sums, 0, 1, thread.taps.key_end - first);
      }
    });
  }

  void by_cell() const {
    const int64_t cell_rows = wanted.map.rows, cell_columns = wanted.map.columns;
    const auto first_row = [&](int64_t cell) { return cell * problem.queries / cell_rows; };
    const auto first_key = [&](int64_t cell) { return cell * problem.keys / cell_columns; };
    // Rows of cells of a task: as many as fill a tile.
    const int64_t together = std::max<int64_t>(1, kTileRows * cell_rows / problem.queries);
    const int64_t bands = (cell_rows + together - 1) / together;
    parallel_for(problem.batch * problem.heads * bands, 1, [&](int64_t begin, int64_t end) {
      Worker thread = worker();
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / bands, band = balanced(task % bands, bands) * together;
        const int64_t last = std::min(band + together, cell_rows);
        thread.enter(head / problem.heads, head % problem.heads, 1);
        float* const cells = result.map.data<float>() + head * cell_rows * cell_columns;
        std::fill_n(cells + band * cell_columns, (last - band) * cell_columns, 0.0f);
        thread.taps.cell_columns = cell_columns;
        thread.taps.largest = wanted.map.largest;
        int64_t cell = band;
        for (int64_t row = first_row(band); row < first_row(last); row += kTileRows) {
          const int64_t count = std::min(kTileRows, first_row(last) - row);
          float* to[kTileRows];
          for (int64_t r = 0; r < count; ++r) {
            while (first_row(cell + 1) <= row + r) ++cell;
            to[r] = cells + cell * cell_columns;
          }
          thread.taps.cells = to;
          thread.run(row, count);
        }
        for (int64_t r = band; r < last; ++r) {
          float* const row = cells + r * cell_columns;
          const int64_t height = first_row(r + 1) - first_row(r);
          for (int64_t c = 0; c < cell_columns && !wanted.map.largest; ++c) {
            row[c] /= static_cast<float>(height * (first_key(c + 1) - first_key(c)));
          }
          kernels::attention_copy_rows(row, 0, row, 0, 1, cell_columns);
        }
      }
    });
  }
};

}  // namespace

void check_taps(std::string_view function, const AttentionProblem& problem) {
  const AttentionTaps& taps = problem.options.want.taps;
  require(taps.top_k >= 0 && taps.top_k <= problem.keys, function, "taps.top_k from 0 to S = ", problem.keys,
          "; found ", taps.top_k);
  const bool no_map = taps.map.rows == 0 && taps.map.columns == 0;
  require(no_map || (taps.map.rows >= 1 && taps.map.rows <= problem.queries && taps.map.columns >= 1 &&
                     taps.map.columns <= problem.keys),
          function, "a taps.map of 0 x 0, or from 1 x 1 to L x S = ", problem.queries, " x ", problem.keys, "; found ",
          taps.map.rows, " x ", taps.map.columns);
  for (const AttentionTaps::Row& row : taps.rows) {
    require(row.head >= 0 && row.head < problem.heads && row.query >= 0 && row.query < problem.queries, function,
            "taps.rows with a head below H = ", problem.heads, " and a query below L = ", problem.queries, "; found (",
            row.head, ", ", row.query, ")");
  }
  const std::vector<Chosen> chosen = sorted(taps.rows, problem.queries);
  for (size_t n = 1; n < chosen.size(); ++n) {
    require(chosen[n].row != chosen[n - 1].row, function, "no pair of taps.rows twice; found (",
            chosen[n].row / problem.queries, ", ", chosen[n].row % problem.queries, ") twice");
  }
}

AttentionTapped run_taps(const AttentionProblem& problem, const Tensor& query, const KeyValues& memory,
                         const Tensor& logsumexp) {
  const AttentionTaps& wanted = problem.options.want.taps;
  AttentionTapped result;
  const Shape rows{problem.batch, problem.heads, problem.queries};
  if (wanted.entropy) result.entropy = Tensor::empty(rows);
  if (wanted.top_k > 0) {
    const Shape top{problem.batch, problem.heads, problem.queries, wanted.top_k};
    result.top_keys = Tensor::empty(top, DType::i32);
    result.top_weights = Tensor::empty(top);
  }
  if (wanted.column_sums) result.column_sums = Tensor::empty({problem.batch, problem.heads, problem.keys});
  if (wanted.map.rows > 0) {
    result.map = Tensor::empty({problem.batch, problem.heads, wanted.map.rows, wanted.map.columns});
  }
  if (!wanted.rows.empty()) {
    result.rows = Tensor::empty({problem.batch, static_cast<int64_t>(wanted.rows.size()), problem.keys});
  }
  const Taps taps{problem, query, memory, logsumexp, wanted, result};
  if (wanted.entropy || wanted.top_k > 0 || !wanted.rows.empty()) taps.by_row();
  if (wanted.column_sums) taps.by_column();
  if (wanted.map.rows > 0) taps.by_cell();
  return result;
}

}  // namespace heed
