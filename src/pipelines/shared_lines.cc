// Batches of lines: how large they are, and how they and what becomes of them travel.
#include "pipelines/shared_lines.h"

#include <algorithm>
#include <iterator>

#include "distributed/packed.h"
#include "distributed/work.h"
#include "heed/error.h"

namespace heed::pipelines {
namespace {

using distributed::Packer;
using distributed::Unpacker;

constexpr int64_t kFirst = 16;  // lines in the first batch of each rank: the first result comes early
constexpr int64_t kLeast = 8;   // lines in the last ones: all ranks end at about the same time
constexpr int64_t kReadAhead = 4096;

std::string pack(int64_t first, std::span<const std::string> lines) {
  Packer packer;
  packer.add(first).add(static_cast<int64_t>(lines.size()));
  for (const std::string& line : lines) packer.add(line);
  return packer.take();
}

LineBatch unpack(const std::string& piece) {
  Unpacker unpacker(piece);
  LineBatch batch;
  batch.first = unpacker.number();
  const int64_t count = unpacker.number();
  for (int64_t i = 0; i < count; ++i) batch.lines.emplace_back(unpacker.text());
  return batch;
}

// What became of a batch.
struct Outcome {
  std::vector<std::string> outputs;
  std::vector<TextWarning> warnings;
  std::string error;  // of the line behind the outputs; empty: none
};

std::string pack(int64_t first, const Outcome& outcome) {
  Packer packer;
  packer.add(first).add(outcome.error).add(static_cast<int64_t>(outcome.warnings.size()));
  for (const TextWarning& w : outcome.warnings)
    packer.add(static_cast<int64_t>(w.kind)).add(w.text).add(w.count).add(w.total);
  packer.add(static_cast<int64_t>(outcome.outputs.size()));
  for (const std::string& output : outcome.outputs) packer.add(output);
  return packer.take();
}

// Rank 0's part: cuts what has come into batches, and hands results on.
class Desk {
 public:
  Desk(int64_t ranks, const SharedLines& shared)
      : ranks_(ranks), shared_(shared), next_line_(shared.first_line), done_(0) {}

  [[nodiscard]] bool ended() const { return begin_ == lines_.size() && shared_.ended(); }

  // One rank takes what there is. Several take ever less of what is left, so that none ends long before the others.
  std::optional<std::string> next(bool wait) {
    const auto most = static_cast<size_t>(std::max(kReadAhead, 2 * ranks_ * shared_.largest));
    if (available() < most) {
      lines_.erase(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(begin_));
      begin_ = 0;
      std::vector<std::string> come = shared_.read(most - lines_.size(), wait && lines_.empty());
      read_ += static_cast<int64_t>(come.size());
      std::move(come.begin(), come.end(), std::back_inserter(lines_));
    }
    if (available() == 0) return std::nullopt;
    const auto here = static_cast<int64_t>(available());
    const int64_t share = ranks_ == 1 ? here : std::max(kLeast, (here + 2 * ranks_ - 1) / (2 * ranks_));
    const int64_t count = std::min({share, ramp(), shared_.largest, here});
    ++batches_;
    std::string piece = pack(next_line_, std::span(lines_).subspan(begin_, static_cast<size_t>(count)));
    begin_ += static_cast<size_t>(count);
    next_line_ += count;
    return piece;
  }

  void deliver(const std::string& result) {
    Unpacker unpacker(result);
    const int64_t first = unpacker.number();
    const std::string error(unpacker.text());
    for (int64_t count = unpacker.number(); count > 0; --count) {
      TextWarning warning;
      warning.kind = static_cast<TextWarning::Kind>(unpacker.number());
      warning.text = first + unpacker.number();
      warning.count = unpacker.number();
      warning.total = unpacker.number();
      shared_.on_warning(warning);
    }
    std::vector<std::string> outputs(static_cast<size_t>(unpacker.number()));
    for (std::string& output : outputs) output = unpacker.text();
    shared_.write(first, outputs);
    if (!error.empty()) throw Error(error);
    done_ += static_cast<int64_t>(outputs.size());
    show_progress(0);
  }

  // `more`: lines that rank 0 has done beside those that are delivered.
  void show_progress(int64_t more) {
    shown_ = std::max(shown_, done_ + more);
    shared_.progress(shown_, read_);
  }

 private:
  [[nodiscard]] size_t available() const { return lines_.size() - begin_; }
  [[nodiscard]] int64_t ramp() const {
    const int64_t round = std::min<int64_t>(batches_ / ranks_, 10);
    return kFirst << (2 * round);
  }

  int64_t ranks_;
  const SharedLines& shared_;
  std::vector<std::string> lines_;  // read; those before begin_ are handed out
  size_t begin_ = 0;
  int64_t next_line_, done_, read_ = 0, shown_ = 0, batches_ = 0;
};

}  // namespace

bool share_lines(distributed::Communicator& ranks, const SharedLines& shared) {
  Desk desk(ranks.size(), shared);
  distributed::Work work;
  work.next = [&](bool wait) { return desk.next(wait); };
  work.ended = [&] { return desk.ended(); };
  work.deliver = [&](const std::string& result) { desk.deliver(result); };
  work.on_loss = shared.on_loss;
  work.stop = shared.stop;
  work.patience = shared.patience;
  work.compute = [&](const std::string& piece, const std::function<bool()>& goes_on) {
    LineBatch batch = unpack(piece);
    Outcome outcome;
    batch.stop = [&] { return !goes_on(); };
    batch.on_done = [&](int64_t lines) {
      if (ranks.rank() == 0) desk.show_progress(lines);
    };
    batch.text = {.too_long = shared.too_long,
                  .on_warning = [&](const TextWarning& warning) { outcome.warnings.push_back(warning); },
                  .name = [&](int64_t place) { return shared.name(batch.first + place); }};
    try {
      shared.work(batch, [&](std::string output) { outcome.outputs.push_back(std::move(output)); });
    } catch (const Error& error) {
      outcome.error = error.what();
    }
    return pack(batch.first, outcome);
  };
  return distributed::share(ranks, work);
}

}  // namespace heed::pipelines
