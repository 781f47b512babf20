// Beam search. Graves 2012; length penalties of Wu et al. 2016, section 7; a length reward as of Murray and Chiang
// 2018.
//
// Each step extends every living hypothesis by every token and keeps the best 2 * beam extensions of a source, ordered
// by their summed log probability, equal ones by beam row and then by their logits and token ids. Of these, the ones
// among the first `beam` that end are finished; the first `beam` that do not end live on. A source is done when `beam`
// hypotheses are finished and none alive may become better (StopWhen), or at its length limit, where what lives is
// taken as it is.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/threads.h"
#include "generate/greedy.h"
#include "generate/rows.h"
#include "generate/rules.h"
#include "heed/error.h"
#include "heed/generate.h"
#include "kernels/rows/select.h"

namespace heed::generate {
namespace {

constexpr const char* kName = "beam_search";

// Rows that wait: those whose source's better rows are ahead of them by this much, their leads added up. On 1,097
// sentences with a beam of 5, 10.4 % of the rows do not matter; 23.3 % wait: 8.7 that do not matter and 14.6 that do.
constexpr double kLeadToWait = 5;
constexpr int64_t kRowsToWait = 64;  // of the decoder: the products of fewer are limited by reading the weights

// One token of a hypothesis; hypotheses share their beginnings.
struct Node {
  int64_t parent = -1;
  int32_t id = -1;
  float log_prob = 0;
};

struct Row {
  double sum = 0;     // of the log probabilities
  int64_t node = -1;  // last token; -1: none yet
  bool alive = false;
};

struct Extension {
  double sum = 0;
  float log_prob = 0;
  int32_t id = -1;
  int32_t row = -1;   // of the beam; -1: no extension
  int32_t place = 0;  // among the extensions of its row
};

bool better(const Extension& a, const Extension& b) {
  if (a.sum != b.sum) return a.sum > b.sum;
  if (a.row != b.row) return a.row < b.row;
  return a.place < b.place;
}

// The logsumexp of the tokens that are not blocked; `all`: of all tokens.
double logsumexp_of_allowed(std::span<const float> logits, const std::vector<uint8_t>& blocked, double all) {
  double share = 0;  // of the blocked tokens
  for (size_t id = 0; id < blocked.size(); ++id)
    if (blocked[id] != 0) share += std::exp(static_cast<double>(logits[id]) - all);
  if (share < 0.5) return all + std::log1p(-share);
  // The difference would lose digits.
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (size_t id = 0; id < blocked.size(); ++id)
    if (blocked[id] == 0) largest = std::max(largest, static_cast<double>(logits[id]));
  if (!std::isfinite(largest)) return all;  // none is left
  for (size_t id = 0; id < blocked.size(); ++id)
    if (blocked[id] == 0) sum += std::exp(static_cast<double>(logits[id]) - largest);
  return largest + std::log(sum);
}

double logsumexp_of(std::span<const float> row) {
  const auto largest = static_cast<double>(*std::max_element(row.begin(), row.end()));
  double sum = 0;
  for (const float value : row) sum += std::exp(static_cast<double>(value) - largest);
  return largest + std::log(sum);
}

// One source: its living hypotheses, `beam` rows in the decoder behind the first step, and its finished ones.
struct Search {
  int64_t limit = 0;
  std::vector<Node> nodes;
  std::vector<Row> rows;             // beam
  std::vector<Hypothesis> finished;  // in the order of their scores, at most beam
  bool done = false;
  BeamStep step;  // where options.on_step wants it
};

class Beam {
 public:
  Beam(models::Decoder& decoder, int64_t sources, int32_t end_id, const BeamOptions& options)
      : decoder_(decoder),
        sources_(sources),
        end_id_(end_id),
        options_(options),
        length_penalty_(options.length_penalty.value_or(1)),
        vocabulary_(decoder.vocabulary()),
        rules_(options, vocabulary_, end_id, kName) {
    candidates_ = std::min(2 * options.beam, vocabulary_);
    rows_ = options.one_row ? 1 : options.beam;
    decoder_rows_ = sources * rows_;
  }

  std::vector<std::vector<Hypothesis>> run(int32_t begin_id, std::span<const int64_t> limits) {
    begin_id_ = begin_id;
    searches_.resize(static_cast<size_t>(sources_));
    for (int64_t s = 0; s < sources_; ++s) {
      Search& search = searches_[static_cast<size_t>(s)];
      search.limit = limits[static_cast<size_t>(s)];
      search.rows.resize(static_cast<size_t>(options_.beam));
      search.rows[0].alive = true;
      if (search.limit <= 0) close(search, 0);
    }
    std::vector<int64_t> active, chosen;  // sources still searched; decoder rows they go on with
    for (int64_t s = 0; s < sources_; ++s) active.push_back(s);
    std::vector<int32_t> tokens(static_cast<size_t>(decoder_rows_), begin_id);
    drop_done(active, chosen, tokens);
    for (int64_t length = 0; !active.empty(); ++length) {
      if (options_.stop && options_.stop()) break;
      step(active, tokens, length);
      chosen.assign(active.size() * static_cast<size_t>(options_.beam), 0);
      tokens.resize(chosen.size());
      parallel_for(static_cast<int64_t>(active.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t a = begin; a < end; ++a) advance(a, active[static_cast<size_t>(a)], length, chosen, tokens);
      });
      if (options_.on_step)
        for (const int64_t s : active) options_.on_step(searches_[static_cast<size_t>(s)].step);
      rows_ = options_.beam;
      drop_done(active, chosen, tokens);
    }
    std::vector<std::vector<Hypothesis>> results;
    for (Search& search : searches_) {
      if (!search.done) search.finished.clear();  // stopped: the best may still have been to come
      if (static_cast<int64_t>(search.finished.size()) > options_.n_best)
        search.finished.resize(static_cast<size_t>(options_.n_best));
      results.push_back(std::move(search.finished));
    }
    return results;
  }

 private:
  [[nodiscard]] double normalised(double sum, int64_t length) const {
    const double size = static_cast<double>(std::max<int64_t>(length, 1));
    return sum / std::pow(options_.gnmt ? (5 + size) / 6 : size, length_penalty_);
  }
  [[nodiscard]] double score(double sum, int64_t length) const {
    return normalised(sum, length) + options_.length_reward * static_cast<double>(length);
  }
  // No extension of a hypothesis has a larger score.
  [[nodiscard]] double most(double sum, int64_t length, int64_t limit) const {
    return normalised(sum, length_penalty_ > 0 ? limit : length) +
           options_.length_reward * static_cast<double>(options_.length_reward > 0 ? limit : length);
  }

  // The tokens of a hypothesis, the begin id first.
  [[nodiscard]] Ids ids_of(const Search& search, const Row& row) const {
    Ids ids;
    for (int64_t at = row.node; at >= 0; at = search.nodes[static_cast<size_t>(at)].parent)
      ids.push_back(search.nodes[static_cast<size_t>(at)].id);
    ids.push_back(begin_id_);
    std::reverse(ids.begin(), ids.end());
    return ids;
  }

  // Whether no living hypothesis may become better than those that are finished. `best`: the largest sum.
  [[nodiscard]] bool settled(const Search& search, double best, int64_t length) const {
    if (static_cast<int64_t>(search.finished.size()) < options_.beam) return false;
    const double worst = search.finished.back().score;
    switch (options_.stop_when.value_or(StopWhen::best)) {
      case StopWhen::best: return score(best, length) <= search.finished.front().score;
      case StopWhen::worst: return score(best, length) <= worst;
      case StopWhen::possible: return most(best, length, search.limit) <= worst;
      case StopWhen::full: return true;
    }
    return true;
  }

  // Takes a step of the decoder, and finds the best extensions of each row that matters. An extension's sum is at most
  // its row's sum. So where `beam` extensions that do not end have larger sums than a row, none of that row's is
  // chosen, and its step need not be computed: rows that are far behind wait for the others' extensions.
  void step(const std::vector<int64_t>& active, const std::vector<int32_t>& tokens, int64_t length) {
    extensions_.assign(tokens.size() * static_cast<size_t>(candidates_), Extension{});
    const bool may_wait = std::ssize(tokens) >= kRowsToWait && rows_ > 1 && decoder_.steps_some() &&
                          !options_.on_step && !options_.renormalised;
    std::vector<int64_t> first, waiting;
    double lead = 0;  // what a source's better rows are ahead of row r, added up
    for (int64_t r = 0; r < std::ssize(tokens); ++r) {
      const auto at = static_cast<size_t>(r % rows_);
      const std::vector<Row>& rows = search_of(active, r).rows;
      lead = at == 0 ? 0 : lead + static_cast<double>(at) * (rows[at - 1].sum - rows[at].sum);
      (may_wait && lead >= kLeadToWait ? waiting : first).push_back(r);
    }
    const bool all = waiting.empty();
    extend(tokens, first, all, active, length);
    if (all) return;
    std::vector<double> least;  // the sum that a row of each source must reach to matter
    for (size_t a = 0; a < active.size(); ++a) least.push_back(least_chosen(static_cast<int64_t>(a)));
    std::erase_if(waiting, [&](int64_t r) {
      const Row& row = search_of(active, r).rows[static_cast<size_t>(r % rows_)];
      constexpr double kRounding = 1e-3;  // far above that of a log probability, which could be positive by it
      return !row.alive || row.sum + kRounding < least[static_cast<size_t>(r / rows_)];
    });
    if (!waiting.empty()) extend(tokens, waiting, false, active, length);
  }

  // Of a source's extensions that do not end, the sum of the one in place `beam`; -infinity where there are fewer.
  [[nodiscard]] double least_chosen(int64_t position) const {
    std::vector<double> sums;
    const Extension* const all = extensions_.data() + position * rows_ * candidates_;
    for (int64_t k = 0; k < rows_ * candidates_; ++k)
      if (all[k].row >= 0 && all[k].id != end_id_) sums.push_back(all[k].sum);
    if (std::ssize(sums) < options_.beam) return -std::numeric_limits<double>::infinity();
    const auto last = sums.begin() + options_.beam - 1;
    std::nth_element(sums.begin(), last, sums.end(), std::greater<>());
    return *last;
  }

  // The search whose hypothesis is row r of the decoder.
  [[nodiscard]] const Search& search_of(const std::vector<int64_t>& active, int64_t r) const {
    return searches_[static_cast<size_t>(active[static_cast<size_t>(r / rows_)])];
  }

  // The step of some rows of the decoder, or of all, and the best extensions of each.
  void extend(const std::vector<int32_t>& tokens, const std::vector<int64_t>& rows, bool all,
              const std::vector<int64_t>& active, int64_t length) {
    std::vector<int32_t> of_rows;
    for (const int64_t r : rows) of_rows.push_back(tokens[static_cast<size_t>(r)]);
    const Tensor input = Tensor::from(std::span<const int32_t>(of_rows), {std::ssize(rows), 1});
    int64_t seen = 0;
    decoder_.step_by_parts(all ? std::span<const int64_t>() : rows, input, [&](int64_t first, const Tensor& logits) {
      require(logits.rank() == 2 && first == seen && logits.size(0) <= std::ssize(rows) - seen &&
                  logits.size(1) == vocabulary_,
              kName, "logits (", std::ssize(rows) - seen, ", ", vocabulary_, ") of the decoder; found ",
              logits.shape());
      seen += logits.size(0);
      extend(logits.contiguous(), std::span(rows).subspan(static_cast<size_t>(first)), active, length);
    });
    require(seen == std::ssize(rows), kName, "logits of ", rows.size(), " rows; found ", seen);
  }

  // The best extensions of the rows that have these logits (n, V): the first n of `rows`.
  void extend(const Tensor& logits, std::span<const int64_t> rows, const std::vector<int64_t>& active, int64_t length) {
    const std::vector<float> logsumexps = finite_logsumexp(logits, kName);
    const std::vector<uint8_t>& blocked_now = rules_.blocked(length);
    parallel_for(logits.size(0), 1, [&](int64_t begin, int64_t end) {
      std::vector<kernels::Selected> entries(static_cast<size_t>(candidates_));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t r = rows[static_cast<size_t>(i)], beam_row = r % rows_;
        Extension* out = extensions_.data() + r * candidates_;
        const Search& search = search_of(active, r);
        const Row& row = search.rows[static_cast<size_t>(beam_row)];
        if (!row.alive) continue;
        std::span<const float> x(logits.data<float>() + i * vocabulary_, static_cast<size_t>(vocabulary_));
        double logsumexp = static_cast<double>(logsumexps[static_cast<size_t>(i)]);
        const int32_t forced_id = rules_.forced(length, search.limit);
        int64_t found = 1;
        if (forced_id >= 0) {
          entries[0] = {x[static_cast<size_t>(forced_id)], forced_id};
        } else {
          std::vector<uint8_t> blocked_here;
          std::vector<float> penalised_here;
          if (rules_.look_back()) {
            blocked_here = blocked_now;
            rules_.block_after(ids_of(search, row), blocked_here);
          }
          if (rules_.penalises()) {
            // transformers takes log probabilities, and the logits in greedy search.
            const bool of_logits = options_.beam == 1;
            penalised_here.assign(x.begin(), x.end());
            if (!of_logits)
              for (float& value : penalised_here) value = static_cast<float>(static_cast<double>(value) - logsumexp);
            rules_.penalise(ids_of(search, row), penalised_here);
            logsumexp = of_logits || options_.renormalised ? logsumexp_of(penalised_here) : 0;
            x = penalised_here;
          }
          const std::vector<uint8_t>& blocked = rules_.look_back() ? blocked_here : blocked_now;
          found = kernels::select_largest(x.data(), vocabulary_, blocked.data(), candidates_, entries.data());
          if (options_.renormalised) logsumexp = logsumexp_of_allowed(x, blocked, logsumexp);
        }
        for (int64_t k = 0; k < found; ++k) {
          const kernels::Selected& entry = entries[static_cast<size_t>(k)];
          const bool free = forced_id >= 0 && options_.forced_free;
          const double log_prob = free ? 0 : static_cast<double>(entry.value) - logsumexp;
          out[k] = {row.sum + log_prob, static_cast<float>(log_prob), entry.place, static_cast<int32_t>(beam_row),
                    static_cast<int32_t>(k)};
        }
      }
    });
  }

  // Chooses among a source's extensions; writes the decoder rows to go on with and the tokens to feed them.
  void advance(int64_t position, int64_t source, int64_t length, std::vector<int64_t>& chosen,
               std::vector<int32_t>& tokens) {
    Search& search = searches_[static_cast<size_t>(source)];
    const int64_t beam = options_.beam;
    std::vector<Extension> best;
    const Extension* all = extensions_.data() + position * rows_ * candidates_;
    for (int64_t k = 0; k < rows_ * candidates_; ++k)
      if (all[k].row >= 0) best.push_back(all[k]);
    const int64_t kept = std::min<int64_t>(2 * beam, static_cast<int64_t>(best.size()));
    std::partial_sort(best.begin(), best.begin() + kept, best.end(), better);

    std::vector<Row> rows(static_cast<size_t>(beam));
    const bool may_end = rules_.may_end(length, search.limit);
    int64_t living = 0;
    search.step = {.source = source, .length = length};
    double least = 0;
    std::vector<uint8_t> goes_on(static_cast<size_t>(beam), 0);
    const auto note = [&](const Extension& extension, int64_t node, int64_t parent_node) {
      goes_on[static_cast<size_t>(extension.row)] = 1;
      least = extension.sum;
      if (options_.on_step)
        search.step.chosen.push_back({node, parent_node, extension.id, extension.log_prob, extension.sum});
    };
    for (int64_t k = 0; k < kept && living < beam; ++k) {
      const Extension& extension = best[static_cast<size_t>(k)];
      const Row& parent = search.rows[static_cast<size_t>(extension.row)];
      if (extension.id == end_id_ && may_end) {
        if (k < beam) {
          finish(search, parent.node, &extension, extension.sum, length + 1);
          note(extension, -1, parent.node);
        }
        continue;
      }
      search.nodes.push_back({parent.node, extension.id, extension.log_prob});
      rows[static_cast<size_t>(living)] = {extension.sum, static_cast<int64_t>(search.nodes.size()) - 1, true};
      note(extension, static_cast<int64_t>(search.nodes.size()) - 1, parent.node);
      const size_t at = static_cast<size_t>(position * beam + living);
      chosen[at] = position * rows_ + extension.row;
      tokens[at] = extension.id;
      ++living;
    }
    for (int64_t r = living; r < beam; ++r) {  // rows that are dead keep the decoder's rows of equal number
      const size_t at = static_cast<size_t>(position * beam + r);
      chosen[at] = position * rows_;
      tokens[at] = end_id_;
    }
    if (options_.on_step) note_dropped(search, goes_on, best, least);
    // Nothing may follow (everything is suppressed): what lived is the result.
    if (living == 0 && search.finished.empty()) return close(search, length);
    search.rows = std::move(rows);
    if (length + 1 >= search.limit) return close(search, length + 1);
    search.done = living == 0 || settled(search, search.rows[0].sum, length + 1);
  }

  // Living rows of which no extension was chosen. best: all extensions of the source.
  void note_dropped(Search& search, const std::vector<uint8_t>& goes_on, const std::vector<Extension>& best,
                    double least) const {
    for (size_t r = 0; r < goes_on.size(); ++r) {
      if (goes_on[r] != 0 || !search.rows[r].alive || search.rows[r].node < 0) continue;
      double most = -std::numeric_limits<double>::infinity();
      for (const Extension& extension : best)
        if (extension.row == static_cast<int32_t>(r)) most = std::max(most, extension.sum);
      search.step.dropped.push_back({search.rows[r].node, most, least});
    }
  }

  // Takes every living hypothesis as it is, without an end.
  void close(Search& search, int64_t length) {
    for (const Row& row : search.rows)
      if (row.alive) finish(search, row.node, nullptr, row.sum, length);
    search.done = true;
  }

  // Adds a hypothesis behind those of at least its score, and drops the worst beyond `beam`.
  void finish(Search& search, int64_t node, const Extension* end, double sum, int64_t length) {
    Hypothesis hypothesis;
    hypothesis.score = score(sum, length);
    hypothesis.finished = end != nullptr;
    auto& list = search.finished;
    const auto place = std::upper_bound(list.begin(), list.end(), hypothesis.score,
                                        [](double s, const Hypothesis& h) { return s > h.score; });
    if (static_cast<int64_t>(list.size()) == options_.beam) {
      if (place == list.end()) return;
    }
    for (int64_t n = node; n >= 0; n = search.nodes[static_cast<size_t>(n)].parent) {
      hypothesis.ids.push_back(search.nodes[static_cast<size_t>(n)].id);
      hypothesis.log_probs.push_back(search.nodes[static_cast<size_t>(n)].log_prob);
    }
    std::reverse(hypothesis.ids.begin(), hypothesis.ids.end());
    std::reverse(hypothesis.log_probs.begin(), hypothesis.log_probs.end());
    if (end != nullptr) hypothesis.log_probs.push_back(end->log_prob);
    list.insert(place, std::move(hypothesis));
    if (static_cast<int64_t>(list.size()) > options_.beam) list.pop_back();
  }

  // Moves the decoder on to the chosen rows of the sources that are not done; the others leave the batch.
  void drop_done(std::vector<int64_t>& active, std::vector<int64_t>& chosen, std::vector<int32_t>& tokens) {
    const int64_t beam = rows_, before = decoder_rows_;
    if (chosen.empty())
      for (int64_t r = 0; r < before; ++r) chosen.push_back(r);
    int64_t left = 0;
    for (int64_t a = 0; a < static_cast<int64_t>(active.size()); ++a) {
      if (searches_[static_cast<size_t>(active[static_cast<size_t>(a)])].done) continue;
      active[static_cast<size_t>(left)] = active[static_cast<size_t>(a)];
      for (int64_t r = 0; r < beam; ++r) {
        chosen[static_cast<size_t>(left * beam + r)] = chosen[static_cast<size_t>(a * beam + r)];
        tokens[static_cast<size_t>(left * beam + r)] = tokens[static_cast<size_t>(a * beam + r)];
      }
      ++left;
    }
    active.resize(static_cast<size_t>(left));
    chosen.resize(static_cast<size_t>(left * beam));
    tokens.resize(static_cast<size_t>(left * beam));
    if (left == 0) return;
    bool same = static_cast<int64_t>(chosen.size()) == before;
    for (int64_t r = 0; same && r < before; ++r) same = chosen[static_cast<size_t>(r)] == r;
    if (!same) decoder_.reorder(chosen);
    decoder_rows_ = static_cast<int64_t>(chosen.size());
  }

  models::Decoder& decoder_;
  int64_t sources_;
  int32_t begin_id_ = -1, end_id_;
  const BeamOptions& options_;
  double length_penalty_;
  int64_t vocabulary_;
  TokenRules rules_;
  int64_t candidates_ = 0;    // a row
  int64_t rows_ = 0;          // of a source in the decoder
  int64_t decoder_rows_ = 0;  // of all sources
  std::vector<Search> searches_;
  std::vector<Extension> extensions_;  // (active * rows_, candidates)
};

constexpr double kLargestFactor = 1e6;  // no text is as long

void check(const BeamOptions& options) {
  require(options.beam >= 1 && options.beam <= kLargestBeam, kName, "a beam from 1 to ", kLargestBeam, "; found ",
          options.beam);
  require(options.n_best >= 1 && options.n_best <= options.beam, kName, "n_best from 1 to the beam of ", options.beam,
          "; found ", options.n_best);
  if (options.length_penalty) {
    require(std::isfinite(*options.length_penalty), kName, "a finite length penalty; found ", *options.length_penalty);
  }
  require(!options.length_factor || (*options.length_factor >= 0 && *options.length_factor <= kLargestFactor), kName,
          "a length factor from 0 to ", kLargestFactor, "; found ", options.length_factor.value_or(0));
  require(std::isfinite(options.length_reward), kName, "a finite length reward; found ", options.length_reward);
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(models::Decoder& decoder, int64_t sources, int32_t begin_id,
                                                 int32_t end_id, std::span<const int64_t> limits,
                                                 const BeamOptions& options) {
  require(static_cast<int64_t>(limits.size()) == sources, kName, "a length limit for each of ", sources,
          " sources; found ", limits.size());
  check(options);
  if (is_greedy(options)) return greedy_search(decoder, sources, begin_id, end_id, limits, options);
  auto results = Beam(decoder, sources, end_id, options).run(begin_id, limits);
  if (options.scores) return results;
  for (std::vector<Hypothesis>& hypotheses : results) {
    for (Hypothesis& hypothesis : hypotheses) {
      hypothesis.score = kNoScore;
      hypothesis.log_probs.clear();
    }
  }
  return results;
}

}  // namespace heed::generate
