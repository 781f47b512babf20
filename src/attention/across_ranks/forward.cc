// attention() across ranks: units of keys come by in their order, and each tile of queries keeps its softmax state from
// unit to unit.
#include "attention/across_ranks/units.h"
#include "attention/schedule/forward_worker.h"
#include "base/threads.h"

namespace heed::distributed {
namespace {

// The queries of one run on this rank, and the states of their tiles.
class ForwardRun {
 public:
  ForwardRun(const WholeCall& call, const OwnedRun& own, const Tensor& query, const AttentionResult& result)
      : call_(call),
        own_(own),
        query_(query.slice(2, own.first_row, own.first_row + own.run.count)),
        tiling_(call.problem.group(), own.run.count),
        floats_(kernels::forward_sums_floats(call.problem.value_size)),
        sums_(call.groups() * tiling_.count() * floats_) {
    result_.output = result.output.slice(2, own.first_row, own.first_row + own.run.count);
    if (result.logsumexp.defined()) {
      result_.logsumexp = result.logsumexp.slice(2, own.first_row, own.first_row + own.run.count);
    }
  }

  [[nodiscard]] const Run& run() const { return own_.run; }

  // Takes in the keys of a unit; with `last`, writes the results.
  void add(const UnitKeys& unit, bool last) {
    const AttentionCall call{
        problem_of(call_, own_.run, own_.first_row, unit), query_, {unit.key, unit.value}, call_.engine, result_};
    const AttentionProblem& p = call.problem;
    const int64_t tiles = tiling_.count();
    const int64_t flops = 2 * kernels::kTileQueries * p.keys * (p.size + p.value_size);
    parallel_for(call_.groups() * tiles, grain_for(flops), [&](int64_t begin, int64_t end) {
      ForwardWorker worker;
      Task task(begin, p.kv_heads, tiles);
      for (int64_t n = begin; n < end; ++n, task.next(p.kv_heads, tiles)) {
        if (n == begin || task.tile == 0) worker.enter(call, tiling_, task, false);
        worker.outputs.parts = {sums_.data() + n * floats_, first_, last};
        worker.run(task.tile, task.tile, -1);
      }
    });
    first_ = false;
  }

 private:
  const WholeCall& call_;
  OwnedRun own_;
  Tensor query_;
  Tiling tiling_;
  int64_t floats_;
  Buffer<float> sums_;
  AttentionResult result_;
  bool first_ = true;
};

// A unit's stop at this rank.
struct Stop {
  int64_t unit = 0;
  int from = -1, to = -1;  // other ranks; -1: the unit is held here, or goes no further
};

// The ranks that a unit visits: the one that holds it, then all others that need it, in a circle from there.
std::vector<int> ranks_of_unit(const WholeCall& call, const Run& unit, int home) {
  std::vector<int> visits = {home};
  const int count = call.layouts.queries.ranks();
  for (int n = 1; n < count; ++n) {
    const int rank = (home + n) % count;
    for (const Run& run : call.layouts.queries.runs[static_cast<size_t>(rank)]) {
      if (!call.sees(run, unit)) continue;
      visits.push_back(rank);
      break;
    }
  }
  return visits;
}

std::vector<Stop> stops_of_rank(const WholeCall& call, const UnitStore& units, int rank) {
  std::vector<Stop> stops;
  for (int64_t u = 0; u < call.units(); ++u) {
    const std::vector<int> visits = ranks_of_unit(call, call.unit(u), units.home(u));
    const auto mine = std::find(visits.begin(), visits.end(), rank);
    if (mine == visits.end()) continue;
    stops.push_back({u, mine == visits.begin() ? -1 : *(mine - 1), mine + 1 == visits.end() ? -1 : *(mine + 1)});
  }
  return stops;
}

constexpr size_t kUnitsAhead = 2;     // that a rank has asked for beside the one it computes with
constexpr size_t kUnitsOutgoing = 2;  // that it goes on without waiting for

// No circle of ranks can wait for each other: a rank waits only for units up to the one it is at, and within a unit
// only for ranks that the unit visits before.
void pass_units_on(Communicator& ranks, const WholeCall& call, const UnitStore& units, std::vector<ForwardRun>& runs,
                   Traffic& traffic) {
  const std::vector<Stop> stops = stops_of_rank(call, units, ranks.rank());
  const Communicator::ProgressScope progress(ranks);
  Outgoing outgoing(ranks, Channel::keys_values, traffic.keys_values);
  std::deque<TensorMessage> incoming;  // of the stops [n, asked) that receive
  size_t asked = 0;
  for (size_t n = 0; n < stops.size(); ++n) {
    for (; asked < std::min(n + 1 + kUnitsAhead, stops.size()); ++asked) {
      const Stop& stop = stops[asked];
      if (stop.from < 0) continue;
      incoming.push_back(
          TensorMessage::receive(ranks, units.empty_message(stop.unit), stop.from, Channel::keys_values));
    }
    const Stop& stop = stops[n];
    Tensor message;
    if (stop.from >= 0) {
      message = incoming.front().wait();
      incoming.pop_front();
    } else if (stop.to >= 0) {
      message = units.message_of(stop.unit);
    }
    if (stop.to >= 0) outgoing.send(message, stop.to, 0);
    const UnitKeys keys = stop.from >= 0 ? units.in_message(message, stop.unit) : units.own(stop.unit);
    for (ForwardRun& run : runs) {
      if (call.sees(run.run(), keys.run)) run.add(keys, false);
    }
    outgoing.wait_until_left(kUnitsOutgoing);
  }
  outgoing.wait_for_all();
}

}  // namespace

DistributedAttention attention(Communicator& ranks, const Tensor& query, const Tensor& key, const Tensor& value,
                               const AttentionOptions& options, const AttentionLayouts& layouts) {
  const int64_t before = ranks.bytes_sent();
  const WholeCall call = agree_on_call(ranks, "distributed::attention", query, key, value, options, layouts, false,
                                       [](const AttentionProblem&) {});
  DistributedAttention result;
  result.traffic.control = ranks.bytes_sent() - before;
  const AttentionProblem& p = call.problem;
  const int64_t rows = query.size(2);
  result.output = options.want.output;
  if (!result.output.defined()) {
    result.output = empty_rows({p.batch, p.heads, rows, p.value_size}, call.dtype);
  }
  if (options.want.logsumexp) result.logsumexp = Tensor::empty({p.batch, p.heads, rows});
  const UnitStore units(ranks, call, key, value, result.traffic);
  std::vector<ForwardRun> runs;
  for (const OwnedRun& own : ordered_runs(call.layouts.queries)) {
    if (own.rank == ranks.rank()) runs.emplace_back(call, own, query, result);
  }
  pass_units_on(ranks, call, units, runs, result.traffic);
  for (ForwardRun& run : runs) run.add(units.none(), true);
  return result;
}

}  // namespace heed::distributed
