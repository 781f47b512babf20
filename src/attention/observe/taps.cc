// Taps come out of the forward pass, or, where it does not keep its scores, of passes over the weights, each cut up so
// that what a task writes is its own: rows, ranges of keys, or rows of cells. So every sum has one order, whatever the
// threads.
#include "attention/observe/taps.h"

#include <algorithm>

#include "attention/forward/worker.h"
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
    logsumexp_of_group_ = strided<const float>(logsumexp_, b, h);
  }

  void run(kernels::AttentionTaps taps, int64_t first, int64_t rows) {
    taps.logsumexp = logsumexp_of_group_;
    taps.all_keys = problem_.keys;
    if (taps.key_end == 0) taps.key_end = problem_.keys;
    if (scratch_.size() == 0) scratch_ = Buffer<float>(kernels::attention_taps_scratch(group_, taps.top));
    kernels::attention_taps_tile(group_, taps, first, rows, scratch_.data());
  }

 private:
  const AttentionProblem& problem_;
  const Tensor& query_;
  const KeyValues& memory_;
  const Tensor& logsumexp_;
  int64_t b_ = -1, h_ = -1;
  kernels::AttentionGroup group_;
  kernels::Strided<const float> logsumexp_of_group_;
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

// Which query rows and keys the cells of a map take in.
struct Cells {
  int64_t rows, columns, queries, keys;
  [[nodiscard]] int64_t first_row(int64_t cell) const { return cell * queries / rows; }
  [[nodiscard]] int64_t first_key(int64_t cell) const { return cell * keys / columns; }
  [[nodiscard]] int64_t row_of(int64_t query) const {
    int64_t cell = query * rows / queries;
    while (first_row(cell + 1) <= query) ++cell;
    return cell;
  }

  // Rows [begin, end) of sums to means, unless they are of the largest.
  void finish(float* cells, int64_t begin, int64_t end, bool largest) const {
    for (int64_t r = begin; r < end; ++r) {
      float* const row = cells + r * columns;
      const int64_t height = first_row(r + 1) - first_row(r);
      for (int64_t c = 0; c < columns && !largest; ++c) {
        row[c] /= static_cast<float>(height * (first_key(c + 1) - first_key(c)));
      }
      kernels::attention_copy_rows(row, 0, row, 0, 1, columns);
    }
  }
};

class Taps {
 public:
  Taps(const ForwardCall& forward, AttentionTapped& tapped)
      : call_(forward),
        problem_(call_.problem),
        wanted_(problem_.options.want.taps),
        result_(tapped),
        every_row_(wanted_.entropy || wanted_.top_k > 0),
        chosen_(sorted(wanted_.rows, problem_.queries)),
        cells_{wanted_.map.rows, wanted_.map.columns, problem_.queries, problem_.keys} {}

  [[nodiscard]] bool by_row() const { return every_row_ || !chosen_.empty(); }
  [[nodiscard]] bool by_head() const { return wanted_.column_sums || wanted_.map.rows > 0; }

  // Entropy, the largest weights, and rows as a whole, and, where tiles lie in one head, also sums of columns and the
  // map, in the forward pass itself: its scores are kept until their row is complete.
  void with_forward(bool heads) const {
    const ForwardTasks tasks(call_);
    const int64_t groups = problem_.batch * problem_.kv_heads;
    if (heads && groups < 4 * num_threads()) {  // threads share a head, whose tiles follow each other
      InOrder order(groups * tasks.per_group, problem_.batch * problem_.heads);
      order.run([&] {
        Together thread(*this, tasks, heads);
        for (int64_t task = order.next(); task >= 0; task = order.next()) tile_of(thread, task, &order);
      });
      return;
    }
    const int64_t tiles = heads ? tasks.per_group : 1;  // of what has to stay on one thread
    parallel_for(groups * tasks.per_group / tiles, 1, [&](int64_t begin, int64_t end) {
      Together thread(*this, tasks, heads);
      for (int64_t task = begin * tiles; task < end * tiles; ++task) tile_of(thread, task, nullptr);
    });
  }

  // The same from logsumexp alone, with the scores computed once more.
  void rows_apart(const Tensor& query) const {
    const RowTiles tiles(problem_.group(), problem_.queries);
    parallel_for(problem_.batch * problem_.kv_heads * tiles.count(), 1, [&](int64_t begin, int64_t end) {
      Worker thread(problem_, query, call_.memory, call_.result.logsumexp);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t group = task / tiles.count();
        const int64_t b = group / problem_.kv_heads, h = group % problem_.kv_heads * problem_.group();
        const RowTiles::Rows rows = tiles[balanced(task % tiles.count(), tiles.count())];
        float* chosen_rows[kTileRows];
        kernels::AttentionTaps taps;
        if (!aim_rows(taps, b, h, rows, chosen_rows)) continue;
        thread.enter(b, h, problem_.group());
        thread.run(taps, rows.first, rows.count);
      }
    });
  }

  void columns_apart(const Tensor& query) const {
    const RowTiles tiles(1, problem_.queries);
    const int64_t ranges = (problem_.keys + kRangeKeys - 1) / kRangeKeys;
    parallel_for(problem_.batch * problem_.heads * ranges, 1, [&](int64_t begin, int64_t end) {
      Worker thread(problem_, query, call_.memory, call_.result.logsumexp);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / ranges, first = balanced(task % ranges, ranges) * kRangeKeys;
        thread.enter(head / problem_.heads, head % problem_.heads, 1);
        float* const sums = result_.column_sums.data<float>() + head * problem_.keys + first;
        kernels::AttentionTaps taps;
        taps.key_begin = first;
        taps.key_end = std::min(first + kRangeKeys, problem_.keys);
        taps.column_sums = sums;
        std::fill_n(sums, taps.key_end - first, 0.0f);
        for (int64_t t = 0; t < tiles.count(); ++t) thread.run(taps, tiles[t].first, tiles[t].count);
        kernels::attention_copy_rows(sums, 0, sums, 0, 1, taps.key_end - first);
      }
    });
  }

  void map_apart(const Tensor& query) const {
    // Rows of cells_ of a task: as many as fill a tile.
    const int64_t together = std::max<int64_t>(1, kTileRows * cells_.rows / problem_.queries);
    const int64_t bands = (cells_.rows + together - 1) / together;
    parallel_for(problem_.batch * problem_.heads * bands, 1, [&](int64_t begin, int64_t end) {
      Worker thread(problem_, query, call_.memory, call_.result.logsumexp);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / bands, band = balanced(task % bands, bands) * together;
        const int64_t last = std::min(band + together, cells_.rows);
        thread.enter(head / problem_.heads, head % problem_.heads, 1);
        float* const map = map_of(head);
        std::fill_n(map + band * cells_.columns, (last - band) * cells_.columns, 0.0f);
        kernels::AttentionTaps taps;
        taps.cell_columns = cells_.columns;
        taps.largest = wanted_.map.largest;
        for (int64_t row = cells_.first_row(band); row < cells_.first_row(last); row += kTileRows) {
          const int64_t count = std::min(kTileRows, cells_.first_row(last) - row);
          float* to[kTileRows];
          for (int64_t r = 0; r < count; ++r) to[r] = map + cells_.row_of(row + r) * cells_.columns;
          taps.cells = to;
          thread.run(taps, row, count);
        }
        cells_.finish(map, band, last, wanted_.map.largest);
      }
    });
  }

 private:
  // What a thread needs for the forward pass with taps.
  struct Together {
    Together(const Taps& taps, const ForwardTasks& forward_tasks, bool with_heads)
        : tasks(forward_tasks),
          heads(with_heads),
          columns(heads && taps.wanted_.column_sums ? taps.problem_.keys : 0),
          map(heads ? kTileRows * taps.cells_.columns : 0) {}
    const ForwardTasks& tasks;
    const bool heads;
    ForwardWorker forward;
    const Buffer<float> columns, map;  // of a tile
    Buffer<float> scratch;
    int64_t group = -1;
  };

  void tile_of(Together& thread, int64_t task, InOrder* order) const {
    const ForwardTasks& tasks = thread.tasks;
    const GroupTask at(task, problem_.kv_heads, tasks.per_group);
    const int64_t h = at.kv_head * tasks.heads, group = task / tasks.per_group;
    if (group != thread.group) thread.forward.enter(call_, tasks, at, false);
    thread.group = group;
    const auto nth = [&](int64_t n) { return thread.heads ? n : balanced(n, tasks.per_group); };
    const RowTiles::Rows rows = tasks.tiles[nth(at.tile)];
    kernels::AttentionTaps taps;
    float* chosen_rows[kTileRows];
    float* cell_rows[kTileRows];
    const bool tapped = aim_rows(taps, at.b, h, rows, chosen_rows) || thread.heads;
    if (tapped) taps.kept = thread.forward.keep_scores();
    thread.forward.run(at.tile, nth(at.tile), at.tile + 1 < tasks.per_group ? nth(at.tile + 1) : -1);
    if (!tapped) return;
    const kernels::AttentionGroup& operands = thread.forward.group;
    taps.logsumexp = strided<const float>(call_.result.logsumexp, at.b, h);
    taps.key_end = taps.all_keys = problem_.keys;
    if (thread.heads) aim_heads(taps, thread.columns, thread.map, cell_rows);
    if (thread.scratch.size() == 0) {
      thread.scratch = Buffer<float>(kernels::attention_taps_scratch(operands, taps.top));
    }
    kernels::attention_taps_tile(operands, taps, rows.first, rows.count, thread.scratch.data());
    if (!thread.heads) return;
    const int64_t a_head = RowTiles(1, problem_.queries).count(), turn = at.tile % a_head;
    const int64_t head = at.b * problem_.heads + h + at.tile / a_head;
    if (order != nullptr) order->wait(head, turn);
    add_tile(head, rows, turn == 0, turn == a_head - 1, thread.columns, thread.map);
    if (order != nullptr) order->pass(head);
  }

  [[nodiscard]] float* map_of(int64_t head) const {
    return result_.map.data<float>() + head * cells_.rows * cells_.columns;
  }

  // Where the tile of sequence b with these rows, from head h on, leaves what is told of rows. False: nothing is.
  // `to` has room for the places of its rows.
  bool aim_rows(kernels::AttentionTaps& taps, int64_t b, int64_t h, RowTiles::Rows rows, float** to) const {
    const int64_t from = h * problem_.queries + rows.first;
    auto next = std::lower_bound(chosen_.begin(), chosen_.end(), from,
                                 [](const Chosen& c, int64_t row) { return c.row < row; });
    const bool holds_chosen = next != chosen_.end() && next->row < from + rows.count;
    if (!every_row_ && !holds_chosen) return false;
    std::fill_n(to, kTileRows, nullptr);
    for (; next != chosen_.end() && next->row < from + rows.count; ++next) {
      to[next->row - from] = result_.rows.data<float>() + (b * result_.rows.size(1) + next->place) * problem_.keys;
    }
    if (holds_chosen) taps.rows = to;
    if (wanted_.entropy) taps.entropy = strided<float>(result_.entropy, b, h);
    if (wanted_.top_k > 0) {
      taps.top = wanted_.top_k;
      taps.top_keys = strided<int32_t>(result_.top_keys, b, h);
      taps.top_weights = strided<float>(result_.top_weights, b, h);
    }
    return true;
  }

  // A tile's own sums of columns, and a row of cells_ for each of its rows.
  void aim_heads(kernels::AttentionTaps& taps, const Buffer<float>& columns, const Buffer<float>& map,
                 float** to) const {
    if (wanted_.column_sums) {
      taps.column_sums = columns.data();
      std::fill_n(columns.data(), columns.size(), 0.0f);
    }
    if (wanted_.map.rows == 0) return;
    taps.cells = to;
    taps.cell_columns = cells_.columns;
    taps.largest = wanted_.map.largest;
    for (int64_t r = 0; r < kTileRows; ++r) to[r] = map.data() + r * cells_.columns;
    std::fill_n(map.data(), map.size(), 0.0f);
  }

  // They follow those of the tiles before.
  void add_tile(int64_t head, RowTiles::Rows rows, bool first, bool last, const Buffer<float>& columns,
                const Buffer<float>& map) const {
    if (wanted_.column_sums) {
      float* const sums = result_.column_sums.data<float>() + head * problem_.keys;
      if (first) std::fill_n(sums, problem_.keys, 0.0f);
      for (int64_t j = 0; j < problem_.keys; ++j) sums[j] += columns.data()[j];
      if (last) kernels::attention_copy_rows(sums, 0, sums, 0, 1, problem_.keys);
    }
    if (wanted_.map.rows == 0) return;
    float* const to = map_of(head);
    if (first) std::fill_n(to, cells_.rows * cells_.columns, 0.0f);
    int64_t cell = cells_.row_of(rows.first % problem_.queries);
    for (int64_t r = 0; r < rows.count; ++r) {
      while (cells_.first_row(cell + 1) <= rows.first % problem_.queries + r) ++cell;
      float* const sums = to + cell * cells_.columns;
      const float* const own = map.data() + r * cells_.columns;
      if (wanted_.map.largest) {
        for (int64_t c = 0; c < cells_.columns; ++c) {
          if (!(sums[c] >= own[c]) && sums[c] == sums[c]) sums[c] = own[c];  // a NaN stays
        }
      } else {
        for (int64_t c = 0; c < cells_.columns; ++c) sums[c] += own[c];
      }
    }
    if (last) cells_.finish(to, 0, cells_.rows, wanted_.map.largest);
  }

  const ForwardCall& call_;
  const AttentionProblem& problem_;
  const AttentionTaps& wanted_;
  AttentionTapped& result_;
  const bool every_row_;
  const std::vector<Chosen> chosen_;
  const Cells cells_;
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

AttentionTapped run_tapped(const ForwardCall& call) {
  const AttentionProblem& problem = call.problem;
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
  const Taps taps(call, result);
  const bool together = !few_rows(call) && problem.queries > 0 && problem.keys > 0 && problem.keys <= kMostKept;
  const bool in_one_head = RowTiles::in_one_head(problem);
  if (together) {
    taps.with_forward(in_one_head && taps.by_head());
  } else {
    run_forward({&call, 1});
  }
  const bool heads_apart = !(together && in_one_head) && taps.by_head();
  if (!heads_apart && (together || !taps.by_row())) return result;
  const Tensor query = call.query.to(DType::f32);
  if (!together && taps.by_row()) taps.rows_apart(query);
  if (heads_apart && wanted.column_sums) taps.columns_apart(query);
  if (heads_apart && wanted.map.rows > 0) taps.map_apart(query);
  return result;
}

}  // namespace heed
