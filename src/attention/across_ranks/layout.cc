// Which rank holds which rows, and rows sent from one layout to another.
#include "attention/across_ranks/layout.h"

#include <algorithm>

#include "attention/across_ranks/agreement.h"
#include "attention/across_ranks/messages.h"
#include "attention/call/call.h"
#include "heed/error.h"

namespace heed::distributed {
namespace {

// Where part n of `parts` begins.
int64_t begin_of_part(int64_t length, int64_t n, int64_t parts, int64_t multiple) {
  const int64_t even = length / parts * n + length % parts * n / parts;  // length * n / parts, which may overflow
  if (n == parts || length / parts < multiple) return n == parts ? length : even;
  return even / multiple * multiple;
}

void add_run(std::vector<Run>& runs, Run run) {
  if (run.count == 0) return;
  if (!runs.empty() && runs.back().end() == run.first) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

// Part n of `parts` lies on rank rank_of(n).
template <class F>
SequenceLayout in_parts(int64_t length, int ranks, int64_t parts, int64_t multiple, const F& rank_of) {
  SequenceLayout layout{.runs = std::vector<std::vector<Run>>(static_cast<size_t>(ranks))};
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = begin_of_part(length, part, parts, multiple);
    add_run(layout.runs[static_cast<size_t>(rank_of(part))],
            {first, begin_of_part(length, part + 1, parts, multiple) - first});
  }
  return layout;
}

void check_arguments(std::string_view function, int64_t length, int ranks, int64_t multiple) {
  require(length >= 0 && ranks >= 1 && multiple >= 1, function, "a length of 0 or more, 1 rank or more and a multiple",
          " of 1 or more; found ", length, ", ", ranks, " and ", multiple);
}

// The positions that are in a run of `a` and in a run of `b`, ascending.
std::vector<Run> common(const std::vector<Run>& a, const std::vector<Run>& b) {
  std::vector<Run> both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size(); a[i].end() < b[j].end() ? ++i : ++j) {
    const int64_t first = std::max(a[i].first, b[j].first), end = std::min(a[i].end(), b[j].end());
    if (first < end) both.push_back({first, end - first});
  }
  return both;
}

int64_t count_of(const std::vector<Run>& runs) {
  int64_t count = 0;
  for (const Run& run : runs) count += run.count;
  return count;
}

// The row of a position that is in one of the runs.
int64_t row_of(const std::vector<Run>& runs, int64_t position) {
  int64_t row = 0;
  for (const Run& run : runs) {
    if (position < run.end()) return row + position - run.first;
    row += run.count;
  }
  return row;
}

// Copies the rows of `pieces` from a tensor in runs `from` to one in runs `to`.
void copy_rows(const std::vector<Run>& pieces, const Tensor& source, const std::vector<Run>& from, const Tensor& target,
               const std::vector<Run>& to) {
  for (const Run& piece : pieces) {
    const int64_t at = row_of(from, piece.first), there = row_of(to, piece.first);
    target.slice(2, there, there + piece.count).copy_from(source.slice(2, at, at + piece.count));
  }
}

}  // namespace

Shape with_rows(Shape shape, int64_t rows) {
  shape[2] = rows;
  return shape;
}

SequenceLayout SequenceLayout::contiguous(int64_t length, int ranks, int64_t multiple) {
  check_arguments("SequenceLayout::contiguous", length, ranks, multiple);
  return in_parts(length, ranks, ranks, multiple, [](int64_t part) { return part; });
}

SequenceLayout SequenceLayout::of_lengths(std::span<const int64_t> lengths) {
  SequenceLayout layout{.runs = std::vector<std::vector<Run>>(lengths.size())};
  int64_t first = 0;
  for (size_t r = 0; r < lengths.size(); ++r) {
    require(lengths[r] >= 0, "SequenceLayout::of_lengths", "lengths of 0 or more; found ", lengths[r]);
    add_run(layout.runs[r], {first, lengths[r]});
    first += lengths[r];
  }
  return layout;
}

SequenceLayout SequenceLayout::zig_zag(int64_t length, int ranks, int64_t multiple) {
  check_arguments("SequenceLayout::zig_zag", length, ranks, multiple);
  const int64_t parts = 2 * int64_t{ranks};
  return in_parts(length, ranks, parts, multiple, [&](int64_t part) { return std::min(part, parts - 1 - part); });
}

SequenceLayout SequenceLayout::striped(int64_t length, int ranks, int64_t n, int64_t multiple) {
  check_arguments("SequenceLayout::striped", length, ranks, multiple);
  require(n >= 1 && n <= INT32_MAX, "SequenceLayout::striped", "1 part a rank or more; found ", n);
  return in_parts(length, ranks, n * ranks, multiple, [&](int64_t part) { return part % ranks; });
}

int64_t SequenceLayout::length() const {
  int64_t length = 0;
  for (const std::vector<Run>& own : runs) length += count_of(own);
  return length;
}

int64_t SequenceLayout::rows(int rank) const { return count_of(runs[static_cast<size_t>(rank)]); }

void SequenceLayout::check(std::string_view function) const {
  for (size_t r = 0; r < runs.size(); ++r) {
    for (size_t n = 0; n < runs[r].size(); ++n) {
      require(runs[r][n].first >= 0 && runs[r][n].count > 0 && (n == 0 || runs[r][n - 1].end() <= runs[r][n].first),
              function, "runs of 1 position or more that ascend; found run ", n, " of rank ", r, " at ",
              runs[r][n].first, " with ", runs[r][n].count, " positions");
    }
  }
  int64_t end = 0;
  for (const OwnedRun& each : ordered_runs(*this)) {
    require(each.run.first == end, function, "a layout in which every position belongs to one rank; found ",
            each.run.first < end ? "two for position " : "none for position ", std::min(each.run.first, end));
    end = each.run.end();
  }
}

std::vector<OwnedRun> ordered_runs(const SequenceLayout& layout) {
  std::vector<OwnedRun> all;
  for (size_t r = 0; r < layout.runs.size(); ++r) {
    int64_t row = 0;
    for (const Run& run : layout.runs[r]) {
      all.push_back({run, static_cast<int>(r), row});
      row += run.count;
    }
  }
  std::sort(all.begin(), all.end(), [](const OwnedRun& a, const OwnedRun& b) { return a.run.first < b.run.first; });
  return all;
}

SequenceLayout aligned(const SequenceLayout& layout, std::span<const int64_t> begins) {
  SequenceLayout result{.runs = std::vector<std::vector<Run>>(layout.runs.size())};
  const std::vector<OwnedRun> runs = ordered_runs(layout);
  size_t at = 0;
  for (size_t n = 0; n + 1 < begins.size(); ++n) {
    while (runs[at].run.end() <= begins[n]) ++at;
    add_run(result.runs[static_cast<size_t>(runs[at].rank)], {begins[n], begins[n + 1] - begins[n]});
  }
  return result;
}

std::string text_of(const SequenceLayout& layout) {
  std::string text;
  for (const std::vector<Run>& own : layout.runs) {
    text += text.empty() ? "[" : " [";
    for (const Run& run : own) {
      text += (&run == own.data() ? "" : ", ") + std::to_string(run.first) + " to " + std::to_string(run.end());
    }
    text += "]";
  }
  return text;
}

Tensor rows_of(const Tensor& whole, const SequenceLayout& layout, int rank) {
  require(whole.defined() && whole.rank() == 4, "rows_of", "a tensor (B, H, L, D); found ",
          whole.defined() ? to_string(whole.shape()) : "an undefined one");
  layout.check("rows_of");
  require(rank >= 0 && rank < layout.ranks(), "rows_of", "a rank from 0 to ", layout.ranks() - 1, "; found ", rank);
  require(layout.length() == whole.size(2), "rows_of", "a layout of ", whole.size(2), " positions; found ",
          layout.length());
  const std::vector<Run>& own = layout.runs[static_cast<size_t>(rank)];
  const Tensor rows = Tensor::empty(with_rows(whole.shape(), layout.rows(rank)), whole.dtype());
  copy_rows(own, whole, {{0, whole.size(2)}}, rows, own);
  return rows;
}

Tensor redistribute(Communicator& ranks, const Tensor& rows, const SequenceLayout& from, const SequenceLayout& to,
                    int64_t& sent) {
  if (!rows.defined() || from == to) return rows;
  const auto me = static_cast<size_t>(ranks.rank());
  const Tensor result = empty_rows(with_rows(rows.shape(), to.rows(ranks.rank())), rows.dtype());
  std::vector<TensorMessage> sends;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const std::vector<Run> pieces = common(from.runs[me], to.runs[static_cast<size_t>(peer)]);
    if (pieces.empty()) continue;
    if (peer == ranks.rank()) {
      copy_rows(pieces, rows, from.runs[me], result, to.runs[me]);
      continue;
    }
    const Tensor message = Tensor::empty(with_rows(rows.shape(), count_of(pieces)), rows.dtype());
    copy_rows(pieces, rows, from.runs[me], message, pieces);
    sends.push_back(TensorMessage::send(ranks, message, peer, Channel::keys_values));
    sent += message.nbytes();
  }
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const std::vector<Run> pieces = common(from.runs[static_cast<size_t>(peer)], to.runs[me]);
    if (pieces.empty() || peer == ranks.rank()) continue;
    const Tensor message = Tensor::empty(with_rows(rows.shape(), count_of(pieces)), rows.dtype());
    TensorMessage::receive(ranks, message, peer, Channel::keys_values).wait();
    copy_rows(pieces, message, pieces, result, to.runs[me]);
  }
  for (TensorMessage& each : sends) each.wait();
  return result;
}

Tensor redistribute(Communicator& ranks, const Tensor& rows, const SequenceLayout& from, const SequenceLayout& to) {
  constexpr std::string_view kRedistribute = "redistribute";
  Facts facts;
  std::string failure;
  try {
    for (const SequenceLayout* layout : {&from, &to}) {
      layout->check(kRedistribute);
      require(layout->ranks() == ranks.size(), kRedistribute, "layouts for ", ranks.size(), " ranks; found one for ",
              layout->ranks());
    }
    require(from.length() == to.length(), kRedistribute, "layouts of one length; found ", from.length(), " and ",
            to.length());
    require(rows.defined() && rows.rank() == 4 && rows.size(2) == from.rows(ranks.rank()), kRedistribute,
            "a tensor (B, H, L, D) with ", from.rows(ranks.rank()), " rows; found ",
            rows.defined() ? to_string(rows.shape()) : "an undefined one");
    facts.add("function", std::string(kRedistribute));
    facts.add("batch size", std::to_string(rows.size(0)));
    facts.add("number of heads", std::to_string(rows.size(1)));
    facts.add("number of columns", std::to_string(rows.size(3)));
    facts.add("dtype", std::string(to_string(rows.dtype())));
    facts.add("layout before", text_of(from));
    facts.add("layout after", text_of(to));
  } catch (const Error& error) {
    failure = error.what();
  }
  (void)agree(ranks, kRedistribute, facts, failure, 0);
  int64_t sent = 0;
  return redistribute(ranks, rows, from, to, sent);
}

}  // namespace heed::distributed
