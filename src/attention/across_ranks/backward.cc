// attention_backward() across ranks. A unit of keys visits the ranks in the order of their queries, and the sums of its
// gradients travel with it: one process adds the tiles of queries in that order, too.
#include "attention/across_ranks/units.h"

#include <map>

#include "attention/backward/backward.h"
#include "attention/call/group.h"
#include "attention/schedule/backward_worker.h"
#include "base/threads.h"
#include "heed/error.h"

namespace heed::distributed {
namespace {

constexpr std::string_view kFunction = "distributed::attention_backward";

// The sums of the gradients of a unit, in f32: for each group (count, padded(D)) of the keys, then (count, padded(Dv)).
struct UnitSums {
  UnitSums(const AttentionProblem& p, const Run& unit)
      : key_floats(unit.count * kernels::padded(p.size)),
        group_floats(key_floats + unit.count * kernels::padded(p.value_size)),
        blocks((unit.count + kernels::kBlockKeys - 1) / kernels::kBlockKeys),
        tensor(Tensor::empty({p.batch * p.kv_heads, group_floats})) {}
  [[nodiscard]] float* key(int64_t group) const { return tensor.data<float>() + group * group_floats; }
  [[nodiscard]] float* value(int64_t group) const { return key(group) + key_floats; }

  int64_t key_floats, group_floats, blocks;
  Tensor tensor;
};

// Lets the tiles of a group, which run on several threads, add to a unit's sums in order.
class UnitTurns : public kernels::KeyTurns {
 public:
  UnitTurns(InOrder& order, int64_t blocks) : order_(order), blocks_(blocks) {}
  void enter(int64_t group, int64_t n) { group_ = group, n_ = n; }
  void begin(int64_t block) override { order_.wait(group_ * blocks_ + block, n_); }
  void end(int64_t block) override { order_.pass(group_ * blocks_ + block); }

 private:
  InOrder& order_;
  int64_t blocks_, group_ = 0, n_ = 0;
};

// The tensors of a backward pass with this rank's queries, as one process cuts them into tiles.
struct BackwardRows {
  SequenceLayout layout;
  Tensor query, output, d_output;  // (B, H, La, D or Dv)
  Tensor logsumexp;                // (B, H, La)
  Tensor d_query;                  // (B, H, La, D)
  Tensor d_sinks;                  // (B, H, La), or undefined
};

// The rows of queries that one process adds up together begin here. Where a head does not fill a tile, tiles span
// heads: all queries are then one block.
std::vector<int64_t> begins_of_tiles(const AttentionProblem& p) {
  std::vector<int64_t> begins;
  if (p.queries >= kernels::kTileQueries) {
    const Tiling tiling(1, p.queries);
    for (int64_t n = 0; n < tiling.count(); ++n) begins.push_back(tiling[n].first);
  } else if (p.queries > 0) {
    begins.push_back(0);
  }
  begins.push_back(p.queries);
  return begins;
}

// The queries of one run on this rank, and the gradients of its tiles until all keys have come by.
class BackwardRun {
 public:
  BackwardRun(const WholeCall& call, const OwnedRun& own, const BackwardRows& rows)
      : call_(call), own_(own), rows_(rows), floats_(kernels::backward_sums_floats(call.problem.size)) {
    const AttentionProblem& p = call.problem;
    const Tiling tiling(p.group(), p.queries);  // of one process
    for (int64_t n = 0; n < tiling.count(); ++n) {
      const RowRange tile = tiling[tiling.nth(n)];
      const int64_t head = tile.first / p.queries, first = tile.first % p.queries - own.run.first;
      if (first < 0 || first >= own.run.count) continue;
      tiles_.push_back({head * own.run.count + first, tile.count});
    }
    sums_ = Buffer<float>(call.groups() * tiles() * floats_);
  }

  // Adds to the unit's sums, and takes in its keys. Null sums: no keys are left, and the gradient of the queries is
  // written.
  void add(const UnitKeys& unit, const UnitSums* sums) {
    const auto own_rows = [&](const Tensor& tensor) {
      return tensor.defined() ? tensor.slice(2, own_.first_row, own_.first_row + own_.run.count) : tensor;
    };
    BackwardCall call;
    call.problem = problem_of(call_, own_.run, own_.first_row, unit);
    call.query = own_rows(rows_.query);
    call.memory = {unit.key, unit.value};
    call.engine = call_.engine;
    call.result.output = own_rows(rows_.output);
    call.result.logsumexp = own_rows(rows_.logsumexp);
    call.d_output = own_rows(rows_.d_output);
    call.gradients.query = own_rows(rows_.d_query);
    call.d_sinks = own_rows(rows_.d_sinks);
    const int64_t blocks = sums == nullptr ? 0 : sums->blocks;
    InOrder order(call_.groups() * tiles(), call_.groups() * blocks);
    order.run([&] {
      BackwardWorker worker(call);
      UnitTurns turns(order, blocks);
      for (int64_t task = order.next(); task >= 0; task = order.next()) {
        run_tile(worker, call, task, sums, turns);
      }
    });
    first_ = false;
  }

 private:
  [[nodiscard]] int64_t tiles() const { return static_cast<int64_t>(tiles_.size()); }

  void run_tile(BackwardWorker& worker, const BackwardCall& call, int64_t task, const UnitSums* sums,
                UnitTurns& turns) const {
    const AttentionProblem& p = call.problem;
    const int64_t group = task / tiles(), n = task % tiles();
    const int64_t b = group / p.kv_heads, h = group % p.kv_heads * p.group();
    worker.enter(b, h, p.group());
    worker.want_query(call.gradients.query);
    kernels::TileGradients& gradients = worker.gradients;
    if (call.d_sinks.defined()) gradients.d_sink = strided<float>(call.d_sinks, b, h);
    gradients.parts = {sums_.data() + task * floats_, first_, sums == nullptr};
    gradients.key_end = p.keys;
    if (sums != nullptr) {
      turns.enter(group, n);
      gradients.d_key = sums->key(group);
      gradients.d_value = sums->value(group);
      gradients.turns = &turns;
    }
    worker.run(tiles_[static_cast<size_t>(n)]);
  }

  const WholeCall& call_;
  OwnedRun own_;
  const BackwardRows& rows_;
  int64_t floats_;
  std::vector<RowRange> tiles_;
  Buffer<float> sums_;
  bool first_ = true;
};

// What a rank does with a unit. A unit visits the runs of queries in order; these are its places. Its own rank sends it
// to the first place and receives the sums from the last one.
//   A rank does its steps in the order of time = unit + place. What is sent at one time is received at the next one. So
// ranks that wait for what was sent two times ago cannot wait for each other in a circle.
struct Step {
  int64_t time = 0, place = 0, unit = 0;
  enum class Kind { give, compute, take } kind = Kind::compute;
  int keys_from = -1, sums_from = -1;  // other ranks, or -1
};

class BackwardAcrossRanks {
 public:
  BackwardAcrossRanks(Communicator& ranks, const WholeCall& call, const UnitStore& units, const BackwardRows& rows,
                      const Tensor& d_key, const Tensor& d_value, Traffic& traffic)
      : ranks_(ranks),
        call_(call),
        units_(units),
        d_key_(d_key),
        d_value_(d_value),
        places_(ordered_runs(rows.layout)),
        keys_(ranks, Channel::keys_values, traffic.keys_values),
        sums_(ranks, Channel::sums, traffic.gradients) {
    for (size_t place = 0; place < places_.size(); ++place) {
      if (places_[place].rank == ranks.rank()) {
        runs_.emplace(static_cast<int64_t>(place), BackwardRun(call, places_[place], rows));
      }
    }
    for (int64_t unit = 0; unit < call.units(); ++unit) plan(unit);
    std::sort(steps_.begin(), steps_.end(),
              [](const Step& a, const Step& b) { return a.time != b.time ? a.time < b.time : a.place < b.place; });
  }

  void run() {
    const Communicator::ProgressScope progress(ranks_);
    size_t asked = 0;
    for (const Step& step : steps_) {
      for (; asked < steps_.size() && steps_[asked].time <= step.time + 1; ++asked) ask(steps_[asked]);
      keys_.wait_for(step.time - 2);
      sums_.wait_for(step.time - 2);
      switch (step.kind) {
        case Step::Kind::give: keys_.send(units_.message_of(step.unit), rank_at(step.place + 1), step.time); break;
        case Step::Kind::compute: compute(step); break;
        case Step::Kind::take: write(step.unit, received_sums(step)); break;
      }
    }
    keys_.wait_for_all();
    sums_.wait_for_all();
    for (auto& [place, run] : runs_) run.add(units_.none(), nullptr);
  }

 private:
  // The places of the unit's way.
  struct Way {
    int64_t first = 0, last = -1;
    [[nodiscard]] bool none() const { return last < first; }
  };
  [[nodiscard]] Way way_of(int64_t unit) const {
    Way way{.first = static_cast<int64_t>(places_.size()), .last = -1};
    for (int64_t place = 0; place < static_cast<int64_t>(places_.size()); ++place) {
      if (!call_.sees(places_[static_cast<size_t>(place)].run, call_.unit(unit))) continue;
      way.first = std::min(way.first, place);
      way.last = place;
    }
    return way;
  }
  [[nodiscard]] int rank_at(int64_t place) const { return places_[static_cast<size_t>(place)].rank; }
  [[nodiscard]] bool is_mine(int rank) const { return rank == ranks_.rank(); }

  void plan(int64_t unit) {
    const Way way = way_of(unit);
    const int home = units_.home(unit);
    if (way.none()) {
      if (is_mine(home)) write(unit, zero_sums(unit));
      return;
    }
    const auto add = [&](int64_t place, Step::Kind kind, int keys_from, int sums_from) {
      steps_.push_back({unit + place, place, unit, kind, keys_from, sums_from});
    };
    if (is_mine(home) && !is_mine(rank_at(way.first))) add(way.first - 1, Step::Kind::give, -1, -1);
    for (int64_t place = way.first; place <= way.last; ++place) {
      if (!is_mine(rank_at(place))) continue;
      const int before = place == way.first ? -1 : rank_at(place - 1);
      add(place, Step::Kind::compute, is_mine(home) ? -1 : place == way.first ? home : before, before);
    }
    if (is_mine(home) && !is_mine(rank_at(way.last))) {
      add(way.last + 1, Step::Kind::take, -1, rank_at(way.last));
    }
  }

  void ask(const Step& step) {
    if (step.keys_from >= 0) {
      keys_in_.push_back(
          TensorMessage::receive(ranks_, units_.empty_message(step.unit), step.keys_from, Channel::keys_values));
    }
    if (step.sums_from >= 0) {
      UnitSums sums(call_.problem, call_.unit(step.unit));
      TensorMessage message = TensorMessage::receive(ranks_, sums.tensor, step.sums_from, Channel::sums);
      sums_in_.emplace_back(std::move(sums), std::move(message));
    }
  }

  [[nodiscard]] UnitSums zero_sums(int64_t unit) const {
    UnitSums sums(call_.problem, call_.unit(unit));
    sums.tensor.zero();
    return sums;
  }
  [[nodiscard]] UnitSums received_sums(const Step& step) {
    if (step.sums_from < 0) return zero_sums(step.unit);
    sums_in_.front().second.wait();
    UnitSums sums = std::move(sums_in_.front().first);
    sums_in_.pop_front();
    return sums;
  }

  void compute(const Step& step) {
    const int home = units_.home(step.unit);
    Tensor message;
    if (step.keys_from >= 0) {
      message = keys_in_.front().wait();
      keys_in_.pop_front();
    }
    const bool goes_on = step.place < way_of(step.unit).last;
    if (goes_on && rank_at(step.place + 1) != home) {
      keys_.send(message.defined() ? message : units_.message_of(step.unit), rank_at(step.place + 1), step.time);
    }
    const UnitKeys keys = message.defined() ? units_.in_message(message, step.unit) : units_.own(step.unit);
    const UnitSums sums = received_sums(step);
    runs_.at(step.place).add(keys, &sums);
    if (goes_on) {
      sums_.send(sums.tensor, rank_at(step.place + 1), step.time);
    } else if (is_mine(home)) {
      write(step.unit, sums);
    } else {
      sums_.send(sums.tensor, home, step.time);
    }
  }

  // The sums are complete: rounds them to where they belong.
  void write(int64_t unit, const UnitSums& sums) const {
    const int64_t count = call_.unit(unit).count, row = units_.row(unit);
    for (int64_t group = 0; group < call_.groups(); ++group) {
      const int64_t b = group / call_.problem.kv_heads, h = group % call_.problem.kv_heads;
      GradientRows(d_key_, b, h, row, count, sums.key(group)).write();
      GradientRows(d_value_, b, h, row, count, sums.value(group)).write();
    }
  }

  Communicator& ranks_;
  const WholeCall& call_;
  const UnitStore& units_;
  const Tensor &d_key_, &d_value_;
  std::vector<OwnedRun> places_;
  std::map<int64_t, BackwardRun> runs_;  // of this rank, by place
  std::vector<Step> steps_;
  Outgoing keys_, sums_;
  std::deque<TensorMessage> keys_in_;
  std::deque<std::pair<UnitSums, TensorMessage>> sums_in_;
};

// d_sinks summed over the whole batch and sequence, in the order b, i, as sum_sinks() does it. The sums go from run to
// run, and at the end to all ranks.
Tensor sum_sinks(Communicator& ranks, const WholeCall& call, const BackwardRows& rows) {
  const AttentionProblem& p = call.problem;
  const std::vector<OwnedRun> runs = ordered_runs(rows.layout);
  const Tensor sums = Tensor::zeros({p.heads}, DType::f64);
  int at = 0;  // who has the sums
  for (int64_t b = 0; b < p.batch; ++b) {
    for (const OwnedRun& own : runs) {
      if (own.rank != at) {
        if (ranks.rank() == at) TensorMessage::send(ranks, sums, own.rank, Channel::sums).wait();
        if (ranks.rank() == own.rank) TensorMessage::receive(ranks, sums, at, Channel::sums).wait();
        at = own.rank;
      }
      if (own.rank != ranks.rank()) continue;
      for (int64_t h = 0; h < p.heads; ++h) {
        const kernels::StridedRows<float> row = strided<float>(rows.d_sinks, b, h);
        for (int64_t i = own.first_row; i < own.first_row + own.run.count; ++i) {
          sums.data<double>()[h] += static_cast<double>(row.data[i * rows.d_sinks.stride(2)]);
        }
      }
    }
  }
  ranks.broadcast(bytes_of_tensor(sums), at);
  const Tensor result = Tensor::empty({p.heads});
  round_sums({sums.data<double>(), static_cast<size_t>(p.heads)}, result.data<float>());
  return result;
}

}  // namespace

DistributedGradients attention_backward(Communicator& ranks, const Tensor& d_output, const Tensor& query,
                                        const Tensor& key, const Tensor& value, const AttentionResult& forward,
                                        const AttentionOptions& options, const AttentionLayouts& layouts) {
  const int64_t before = ranks.bytes_sent();
  WholeCall call =
      agree_on_call(ranks, kFunction, query, key, value, options, layouts, true, [&](const AttentionProblem& own) {
        const Shape output{own.batch, own.heads, own.queries, own.value_size};
        require_like(kFunction, "d_output", d_output, output, query.dtype());
        require_like(kFunction, "the forward pass's output", forward.output, output, query.dtype());
        require_like(kFunction, "the forward pass's logsumexp (ask for it with want.logsumexp)", forward.logsumexp,
                     {own.batch, own.heads, own.queries}, DType::f32);
      });
  DistributedGradients result;
  Traffic& traffic = result.traffic;
  traffic.control = ranks.bytes_sent() - before;
  const SequenceLayout given = call.layouts.queries;
  BackwardRows rows;
  rows.layout = aligned(given, begins_of_tiles(call.problem));
  const auto move = [&](const Tensor& tensor) {
    return redistribute(ranks, tensor, given, rows.layout, traffic.alignment);
  };
  const Shape logsumexp = forward.logsumexp.shape();
  rows.query = move(query);
  rows.output = move(forward.output);
  rows.d_output = move(d_output);
  rows.logsumexp = move(forward.logsumexp.contiguous().reshape({logsumexp[0], logsumexp[1], logsumexp[2], 1}));
  rows.logsumexp = rows.logsumexp.select(3, 0);
  if (call.mask.each_row) call.mask.tensor = move(call.mask.tensor);
  if (call.bias.each_row) call.bias.tensor = move(call.bias.tensor);
  call.query_documents = move(call.query_documents);
  const int64_t own_rows = rows.layout.rows(ranks.rank());
  rows.d_query = empty_rows(with_rows(query.shape(), own_rows), query.dtype());
  if (options.sinks.defined()) {
    rows.d_sinks = Tensor::empty({call.problem.batch, call.problem.heads, own_rows});
  }
  const UnitStore units(ranks, call, key, value, traffic);
  const int64_t held = units.layout().rows(ranks.rank());
  const Tensor d_key = empty_rows(with_rows(key.shape(), held), key.dtype());
  const Tensor d_value = empty_rows(with_rows(value.shape(), held), value.dtype());
  BackwardAcrossRanks(ranks, call, units, rows, d_key, d_value, traffic).run();
  result.query = redistribute(ranks, rows.d_query, rows.layout, given, traffic.alignment);
  result.key = redistribute(ranks, d_key, units.layout(), call.layouts.keys, traffic.alignment);
  result.value = redistribute(ranks, d_value, units.layout(), call.layouts.keys, traffic.alignment);
  const int64_t before_sinks = ranks.bytes_sent();
  if (options.sinks.defined()) result.sinks = sum_sinks(ranks, call, rows);
  traffic.control += ranks.bytes_sent() - before_sinks;
  return result;
}

}  // namespace heed::distributed
