// Taps come out of the forward pass while its tiles keep their scores. Otherwise they take passes of their own, cut up
// so that every task writes memory of its own: rows, ranges of keys, or rows of cells. Either way every sum has one
// order, whatever the threads.
#include "attention/observe/taps.h"

#include <algorithm>

#include "attention/call/group.h"
#include "attention/forward/forward.h"
#include "attention/schedule/forward_worker.h"
#include "base/threads.h"
#include "heed/error.h"
#include "kernels/attention/taps/taps.h"

namespace heed {
namespace {

using kernels::kTileQueries;

constexpr int64_t kKeysPerTask = 256;  // keys of a task that adds up columns

// What one thread needs to compute taps from logsumexp, apart from the forward pass.
class TapsWorker {
 public:
  TapsWorker(const AttentionProblem& problem, const Tensor& query, const KeyValues& memory, const Tensor& logsumexp)
      : problem_(problem), query_(query), memory_(memory), logsumexp_(logsumexp) {}

  // Moves to `heads` query heads of sequence b from head h on.
  void enter(int64_t b, int64_t h, int64_t heads) {
    if (b == b_ && h == h_) return;
    b_ = b, h_ = h;
    group_ = make_group(problem_, query_, memory_, b, h, heads);
    kernels::bind_f32(group_, operands_);
    logsumexp_of_group_ = strided<const float>(logsumexp_, b, h);
  }

  void run(kernels::TileTaps taps, int64_t first, int64_t rows) {
    taps.logsumexp = logsumexp_of_group_;
    taps.all_keys = problem_.keys;
    if (taps.key_end == 0) taps.key_end = problem_.keys;
    if (scratch_.size() == 0) scratch_ = Buffer<float>(kernels::taps_scratch(group_, taps.top));
    kernels::taps_tile(group_, taps, first, rows, scratch_.data());
  }

 private:
  const AttentionProblem& problem_;
  const Tensor& query_;
  const KeyValues& memory_;
  const Tensor& logsumexp_;
  int64_t b_ = -1, h_ = -1;
  kernels::AttentionGroup group_;
  kernels::StridedRows<const float> logsumexp_of_group_;
  kernels::Operands operands_;
  Buffer<float> scratch_;
};

// The rows to return whole, by head * L + query. The rows of a tile follow each other in that order.
struct Chosen {
  int64_t row, place;
};
std::vector<Chosen> sorted(const std::vector<AttentionTaps::Row>& rows, int64_t queries) {
  std::vector<Chosen> chosen;
  chosen.reserve(rows.size());
  for (const AttentionTaps::Row& row : rows) {
    chosen.push_back({row.head * queries + row.query, static_cast<int64_t>(chosen.size())});
  }
  std::sort(chosen.begin(), chosen.end(), [](const Chosen& a, const Chosen& b) { return a.row < b.row; });
  return chosen;
}

// The map: which rows and keys each of its cells pools.
struct Cells {
  int64_t rows, columns, queries, keys;
  [[nodiscard]] int64_t first_row(int64_t cell) const { return cell * queries / rows; }
  [[nodiscard]] int64_t first_key(int64_t cell) const { return cell * keys / columns; }
  [[nodiscard]] int64_t row_of(int64_t query) const {
    int64_t cell = query * rows / queries;
    while (first_row(cell + 1) <= query) ++cell;
    return cell;
  }

  // Turns rows [begin, end) of sums into means, unless the cells hold the largest weight.
  void finish(float* cells, int64_t begin, int64_t end, bool largest) const {
    for (int64_t r = begin; r < end; ++r) {
      float* const row = cells + r * columns;
      const int64_t height = first_row(r + 1) - first_row(r);
      for (int64_t c = 0; c < columns && !largest; ++c) {
        row[c] /= static_cast<float>(height * (first_key(c + 1) - first_key(c)));
      }
      kernels::make_canonical(row, columns);
    }
  }
};

class Taps {
 public:
  Taps(const AttentionCall& forward, AttentionTapped& tapped)
      : call_(forward),
        problem_(call_.problem),
        wanted_(problem_.options.want.taps),
        result_(tapped),
        every_row_(wanted_.entropy || wanted_.top_k > 0),
        chosen_(sorted(wanted_.rows, problem_.queries)),
        cells_{wanted_.map.rows, wanted_.map.columns, problem_.queries, problem_.keys} {}

  [[nodiscard]] bool by_row() const { return every_row_ || !chosen_.empty(); }
  [[nodiscard]] bool by_head() const { return wanted_.column_sums || wanted_.map.rows > 0; }

  // In the forward pass itself, whose tiles keep their scores until the rows are complete: entropy, top keys and whole
  // rows; and with `heads`, where every tile lies in one head, also column sums and the map.
  void with_forward(bool heads) const {
    const Tiling tiling(problem_.group(), problem_.queries);
    const int64_t groups = problem_.batch * problem_.kv_heads;
    if (heads && groups < 4 * num_threads()) {  // threads share a head, and its tiles are added in order
      InOrder order(groups * tiling.count(), problem_.batch * problem_.heads);
      order.run([&] {
        ForwardAndTaps worker(*this, tiling, heads);
        for (int64_t task = order.next(); task >= 0; task = order.next()) run_tile(worker, task, &order);
      });
      return;
    }
    const int64_t tiles = heads ? tiling.count() : 1;  // that must stay on one thread
    parallel_for(groups * tiling.count() / tiles, 1, [&](int64_t begin, int64_t end) {
      ForwardAndTaps worker(*this, tiling, heads);
      for (int64_t task = begin * tiles; task < end * tiles; ++task) run_tile(worker, task, nullptr);
    });
  }

  // Entropy, top keys and whole rows from logsumexp alone, with the scores computed again.
  void rows_in_own_pass(const Tensor& query) const {
    const Tiling tiles(problem_.group(), problem_.queries);
    parallel_for(problem_.batch * problem_.kv_heads * tiles.count(), 1, [&](int64_t begin, int64_t end) {
      TapsWorker worker(problem_, query, call_.memory, call_.result.logsumexp);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t group = task / tiles.count();
        const int64_t b = group / problem_.kv_heads, h = group % problem_.kv_heads * problem_.group();
        const RowRange rows = tiles[balanced(task % tiles.count(), tiles.count())];
        RowPlaces places;
        kernels::TileTaps taps;
        if (!direct_rows(taps, b, h, rows, places)) continue;
        worker.enter(b, h, problem_.group());
        worker.run(taps, rows.first, rows.count);
      }
    });
  }

  void columns_in_own_pass(const Tensor& query) const {
    const Tiling tiles(1, problem_.queries);
    const int64_t ranges = (problem_.keys + kKeysPerTask - 1) / kKeysPerTask;
    parallel_for(problem_.batch * problem_.heads * ranges, 1, [&](int64_t begin, int64_t end) {
      TapsWorker worker(problem_, query, call_.memory, call_.result.logsumexp);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / ranges, first = balanced(task % ranges, ranges) * kKeysPerTask;
        worker.enter(head / problem_.heads, head % problem_.heads, 1);
        float* const sums = result_.column_sums.data<float>() + head * problem_.keys + first;
        kernels::TileTaps taps;
        taps.key_begin = first;
        taps.key_end = std::min(first + kKeysPerTask, problem_.keys);
        taps.column_sums = sums;
        std::fill_n(sums, taps.key_end - first, 0.0f);
        for (int64_t t = 0; t < tiles.count(); ++t) worker.run(taps, tiles[t].first, tiles[t].count);
        kernels::make_canonical(sums, taps.key_end - first);
      }
    });
  }

  void map_in_own_pass(const Tensor& query) const {
    // The rows of cells of a task: as many as fill a tile.
    const int64_t together = std::max<int64_t>(1, kTileQueries * cells_.rows / problem_.queries);
    const int64_t bands = (cells_.rows + together - 1) / together;
    parallel_for(problem_.batch * problem_.heads * bands, 1, [&](int64_t begin, int64_t end) {
      TapsWorker worker(problem_, query, call_.memory, call_.result.logsumexp);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / bands, band = balanced(task % bands, bands) * together;
        const int64_t last = std::min(band + together, cells_.rows);
        worker.enter(head / problem_.heads, head % problem_.heads, 1);
        float* const map = map_of(head);
        std::fill_n(map + band * cells_.columns, (last - band) * cells_.columns, 0.0f);
        kernels::TileTaps taps;
        taps.cell_columns = cells_.columns;
        taps.largest = wanted_.map.largest;
        for (int64_t row = cells_.first_row(band); row < cells_.first_row(last); row += kTileQueries) {
          const int64_t count = std::min(kTileQueries, cells_.first_row(last) - row);
          float* to[kTileQueries];
          for (int64_t r = 0; r < count; ++r) to[r] = map + cells_.row_of(row + r) * cells_.columns;
          taps.cells = to;
          worker.run(taps, row, count);
        }
        cells_.finish(map, band, last, wanted_.map.largest);
      }
    });
  }

 private:
  // What one thread needs for the forward pass with taps.
  struct ForwardAndTaps {
    ForwardAndTaps(const Taps& taps, const Tiling& forward_tiling, bool with_heads)
        : tiling(forward_tiling),
          heads(with_heads),
          columns(heads && taps.wanted_.column_sums ? taps.problem_.keys : 0),
          map(heads ? kTileQueries * taps.cells_.columns : 0) {}
    const Tiling& tiling;
    const bool heads;
    ForwardWorker forward;
    const Buffer<float> columns, map;  // of one tile
    Buffer<float> scratch;
    int64_t group = -1;
  };

  void run_tile(ForwardAndTaps& thread, int64_t number, InOrder* order) const {
    const Tiling& tiling = thread.tiling;
    const int64_t tiles = tiling.count();
    const Task at(number, problem_.kv_heads, tiles);
    const int64_t h = at.kv_head * problem_.group(), group = number / tiles;
    if (group != thread.group) thread.forward.enter(call_, tiling, at, false);
    thread.group = group;
    const auto nth = [&](int64_t n) { return thread.heads ? n : balanced(n, tiles); };
    const RowRange rows = tiling[nth(at.tile)];
    kernels::TileTaps taps;
    RowPlaces places;
    float* cell_rows[kTileQueries];
    const bool tapped = direct_rows(taps, at.b, h, rows, places) || thread.heads;
    if (tapped) taps.kept = thread.forward.keep_scores();
    thread.forward.run(at.tile, nth(at.tile), at.tile + 1 < tiles ? nth(at.tile + 1) : -1);
    if (!tapped) return;
    const kernels::AttentionGroup& operands = thread.forward.group;
    taps.logsumexp = strided<const float>(call_.result.logsumexp, at.b, h);
    taps.key_end = taps.all_keys = problem_.keys;
    if (thread.heads) direct_heads(taps, thread.columns, thread.map, cell_rows);
    if (thread.scratch.size() == 0) {
      thread.scratch = Buffer<float>(kernels::taps_scratch(operands, taps.top));
    }
    kernels::taps_tile(operands, taps, rows.first, rows.count, thread.scratch.data());
    if (!thread.heads) return;
    const int64_t a_head = Tiling(1, problem_.queries).count(), turn = at.tile % a_head;
    const int64_t head = at.b * problem_.heads + h + at.tile / a_head;
    if (order != nullptr) order->wait(head, turn);
    add_tile(head, rows, turn == 0, turn == a_head - 1, thread.columns, thread.map);
    if (order != nullptr) order->pass(head);
  }

  [[nodiscard]] float* map_of(int64_t head) const {
    return result_.map.data<float>() + head * cells_.rows * cells_.columns;
  }

  // For each row of a tile where its weights and its scores go, or null.
  struct RowPlaces {
    float* weights[kTileQueries];
    float* scores[kTileQueries];
  };

  // Tells the kernels where the taps of rows go, for the tile of sequence b with these rows, from head h on. Returns
  // false where none of its rows has any.
  bool direct_rows(kernels::TileTaps& taps, int64_t b, int64_t h, RowRange rows, RowPlaces& to) const {
    const int64_t from = h * problem_.queries + rows.first;
    auto next = std::lower_bound(chosen_.begin(), chosen_.end(), from,
                                 [](const Chosen& c, int64_t row) { return c.row < row; });
    const bool holds_chosen = next != chosen_.end() && next->row < from + rows.count;
    if (!every_row_ && !holds_chosen) return false;
    std::fill_n(to.weights, kTileQueries, nullptr);
    std::fill_n(to.scores, kTileQueries, nullptr);
    for (; next != chosen_.end() && next->row < from + rows.count; ++next) {
      const int64_t place = (b * result_.rows.size(1) + next->place) * problem_.keys;
      to.weights[next->row - from] = result_.rows.data<float>() + place;
      if (wanted_.row_scores) to.scores[next->row - from] = result_.row_scores.data<float>() + place;
    }
    if (holds_chosen) taps.rows = to.weights;
    if (holds_chosen && wanted_.row_scores) taps.row_scores = to.scores;
    if (wanted_.entropy) taps.entropy = strided<float>(result_.entropy, b, h);
    if (wanted_.top_k > 0) {
      taps.top = wanted_.top_k;
      taps.top_keys = strided<int32_t>(result_.top_keys, b, h);
      taps.top_weights = strided<float>(result_.top_weights, b, h);
    }
    return true;
  }

  // Gives a tile column sums of its own, and a row of cells for each of its rows.
  void direct_heads(kernels::TileTaps& taps, const Buffer<float>& columns, const Buffer<float>& map, float** to) const {
    if (wanted_.column_sums) {
      taps.column_sums = columns.data();
      std::fill_n(columns.data(), columns.size(), 0.0f);
    }
    if (wanted_.map.rows == 0) return;
    taps.cells = to;
    taps.cell_columns = cells_.columns;
    taps.largest = wanted_.map.largest;
    for (int64_t r = 0; r < kTileQueries; ++r) to[r] = map.data() + r * cells_.columns;
    std::fill_n(map.data(), map.size(), 0.0f);
  }

  // Adds them to those of the tiles before.
  void add_tile(int64_t head, RowRange rows, bool first, bool last, const Buffer<float>& columns,
                const Buffer<float>& map) const {
    if (wanted_.column_sums) {
      float* const sums = result_.column_sums.data<float>() + head * problem_.keys;
      if (first) std::fill_n(sums, problem_.keys, 0.0f);
      for (int64_t j = 0; j < problem_.keys; ++j) sums[j] += columns.data()[j];
      if (last) kernels::make_canonical(sums, problem_.keys);
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

  const AttentionCall& call_;
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
  require(!taps.row_scores || !taps.rows.empty(), function, "taps.rows, as taps.row_scores is set; found none");
  require(taps.top_k >= 0 && taps.top_k <= problem.keys, function, "taps.top_k from 0 to S = ", problem.keys,
          "; found ", taps.top_k);
  const bool no_map = taps.map.rows == 0 && taps.map.columns == 0;
  require(no_map || (taps.map.rows >= 1 && taps.map.rows <= problem.queries && taps.map.columns >= 1 &&
                     taps.map.columns <= problem.keys),
          function, "a taps.map of 0 x 0, or from 1 x 1 to L x S = ", problem.queries, " x ", problem.keys, "; found ",
          taps.map.rows, " x ", taps.map.columns);
  require(!no_map || !taps.map.largest, function,
          "a taps.map of at least 1 x 1, as taps.map.largest is set; found none");
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

AttentionTapped run_tapped(const AttentionCall& call) {
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
    if (wanted.row_scores) result.row_scores = Tensor::empty(result.rows.shape());
  }
  const Taps taps(call, result);
  const bool together =
      !call.engine->whole_groups && problem.queries > 0 && problem.keys > 0 && problem.keys <= kMostKept;
  const bool in_one_head = Tiling::in_one_head(problem);
  if (together) {
    taps.with_forward(in_one_head && taps.by_head());
  } else {
    run_forward({&call, 1});
  }
  const bool heads_in_own_pass = !(together && in_one_head) && taps.by_head();
  if (!heads_in_own_pass && (together || !taps.by_row())) return result;
  const Tensor query = call.query.to(DType::f32);
  if (!together && taps.by_row()) taps.rows_in_own_pass(query);
  if (heads_in_own_pass && wanted.column_sums) taps.columns_in_own_pass(query);
  if (heads_in_own_pass && wanted.map.rows > 0) taps.map_in_own_pass(query);
  return result;
}

}  // namespace heed
