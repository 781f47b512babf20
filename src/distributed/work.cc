// Rank 0 leads: it hands out pieces, works on some, and serves the others while it does. The others answer.
#include "distributed/work.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "distributed/mail.h"

namespace heed::distributed {

namespace {

using Text = std::shared_ptr<const std::string>;

enum Kind : int64_t {
  kPiece = 1,  // from rank 0
  kEnd,
  kResult,  // to rank 0
  kGaveUp,  // this rank works no more, for the reason that follows
  kStop,    // this rank was asked to stop
  kBye      // the answer to kEnd; nothing follows
};

constexpr int kAhead = 2;                // pieces a rank has: the one it works on, and the next
constexpr int64_t kPiecesARank = 8;      // pieces handed out and not delivered; a slow rank lets the others wait then
constexpr double kBetweenChecks = 0.05;  // seconds, between looks for ranks that have ended
constexpr double kFarewell = 5;          // seconds that rank 0 waits for the others at the end
// Seconds until a loss is reported. Where MPI ends the job with the rank, it does so before, and that is reported.
constexpr double kBeforeReport = 3;

// Sleeps longer while nothing happens, at most a millisecond.
class Nap {
 public:
  void take() { std::this_thread::sleep_for(std::chrono::microseconds(std::min(1000, 20 << std::min(turns_++, 10)))); }
  void awake() { turns_ = 0; }

 private:
  int turns_ = 0;
};

// True now and then.
class Now {
 public:
  [[nodiscard]] bool and_then() {
    if (seconds_since(last_) < kBetweenChecks) return false;
    last_ = Clock::now();
    return true;
  }

 private:
  Clock::time_point last_ = Clock::now();
};

class Lead {
 public:
  Lead(Communicator& ranks, const Work& work) : ranks_(ranks), work_(work), window_(kPiecesARank * ranks.size()) {
    for (int rank = 1; rank < ranks.size(); ++rank) {
      others_.push_back({.rank = rank, .mail = std::make_shared<Mail>(ranks, rank, Channel::work)});
      others_.back().mail->ends_with(kBye);
    }
  }
  Lead(const Lead&) = delete;
  Lead& operator=(const Lead&) = delete;
  ~Lead() {
    for (const Other& other : others_) {
      if (!other.at_rest) ranks_.keep(other.mail);
    }
  }

  bool run() {
    try {
      lead();
    } catch (...) {
      try {
        dismiss();
      } catch (const Error&) {  // the first failure is the reason
      }
      throw;
    }
    dismiss();
    return !stopped_;
  }

 private:
  struct Other {
    int rank = 0;
    std::shared_ptr<Mail> mail;
    std::deque<int64_t> has = {};  // pieces without an answer
    Clock::time_point since = {};  // of the work on the first one
    bool works = true;             // it is there and has not given up
    bool late = false;             // it gets nothing more until it answers
    bool gone = false;             // nothing can be sent to it
    bool at_rest = false;          // it has said goodbye
  };
  struct Piece {
    Text text;
    std::optional<std::string> result;
  };

  void lead() {
    for (Nap nap;;) {
      serve(1);
      if (stopped_) return throw_if_lost();
      if (const auto number = take_piece(pieces_.empty())) {
        work_on(*number);
        nap.awake();
      } else if (pieces_.empty() && work_.ended()) {
        return say_reports();
      } else if (!work_.stop()) {
        serve(kAhead);
        nap.take();
      }
    }
  }

  // Everything that can be done without waiting. Ranks get pieces until they have `most`.
  void serve(size_t most) {
    for (Other& other : others_) read_mail(other);
    if (now_.and_then()) look_for_losses();
    if (work_.stop()) stopped_ = true;
    if (stopped_) return;
    deliver();
    for (size_t count = 1; count <= most; ++count) {
      for (Other& other : others_) {
        if (!other.works || other.late || other.has.size() >= count) continue;
        const auto number = take_piece(false);
        if (!number) return;
        if (other.has.empty()) other.since = Clock::now();
        other.has.push_back(*number);
        other.mail->send({.kind = kPiece, .number = *number, .text = pieces_[*number].text});
      }
    }
  }

  void read_mail(Other& other) {
    if (!other.works) return;
    try {
      while (const auto letter = other.mail->receive()) {
        other.late = false;
        other.since = Clock::now();
        if (letter->kind == kResult) {
          std::erase(other.has, letter->number);
          const auto piece = pieces_.find(letter->number);
          if (piece != pieces_.end() && !piece->second.result) piece->second.result = *letter->text;
        } else if (letter->kind == kStop) {
          stopped_ = true;
        } else if (letter->kind == kGaveUp) {
          lose(other, "[distributed] " + ranks_.name_of(other.rank) + " to go on; it gave up: " + *letter->text);
        }
      }
    } catch (const Error& error) {  // of MPI
      other.gone = true;
      lose(other, error.what());
    }
  }

  void look_for_losses() {
    while (const auto lost = ranks_.lost_rank()) {
      for (Other& other : others_) {
        if (other.rank != lost->rank()) continue;
        other.gone = true;
        if (other.works) lose(other, lost->what());
      }
      if (!lost_) lost_ = *lost;
    }
    for (Other& other : others_) {
      if (!other.works || other.late || other.has.empty() || work_.patience <= 0) continue;
      if (seconds_since(other.since) <= work_.patience) continue;
      other.late = true;
      give_to_others(other);
      report("[distributed] " + ranks_.name_of(other.rank) + " to be done with its work by now; it is late");
    }
    if (seconds_since(reported_) > kBeforeReport) say_reports();
  }

  void lose(Other& other, const std::string& why) {
    other.works = false;
    give_to_others(other);
    report(why);
  }
  void give_to_others(const Other& other) { again_.insert(other.has.begin(), other.has.end()); }
  void report(const std::string& text) {
    if (reports_.empty()) reported_ = Clock::now();
    reports_.push_back(text);
  }
  void say_reports() {
    for (const std::string& text : reports_) work_.on_loss(text);
    reports_.clear();
  }
  // Where a rank was lost and then this one was asked to stop, the loss is the reason.
  void throw_if_lost() {
    look_for_losses();
    if (lost_) throw PeerError(*lost_);
  }

  std::optional<int64_t> take_piece(bool wait) {
    while (!again_.empty()) {
      const int64_t number = *again_.begin();
      again_.erase(again_.begin());
      const auto piece = pieces_.find(number);
      if (piece != pieces_.end() && !piece->second.result) return number;
    }
    if (static_cast<int64_t>(pieces_.size()) >= window_) return std::nullopt;
    auto text = work_.next(wait);
    if (!text) return std::nullopt;
    pieces_[next_] = {.text = std::make_shared<const std::string>(std::move(*text)), .result = std::nullopt};
    return next_++;
  }

  void work_on(int64_t number) {
    const Text text = pieces_[number].text;
    std::exception_ptr error;  // of the service; compute() is not to take it for its own
    const auto goes_on = [&] {
      try {
        if (!error && !stopped_) serve(kAhead);
      } catch (...) {
        error = std::current_exception();
      }
      return !error && !stopped_;
    };
    std::string result = work_.compute(*text, goes_on);
    if (error) std::rethrow_exception(error);
    if (work_.stop()) stopped_ = true;
    if (const auto piece = pieces_.find(number); !stopped_ && piece != pieces_.end())
      piece->second.result = std::move(result);
  }

  void deliver() {
    while (!pieces_.empty() && pieces_.begin()->second.result) {
      const std::string result = std::move(*pieces_.begin()->second.result);
      pieces_.erase(pieces_.begin());
      work_.deliver(result);
    }
  }

  // Says the end to all. What a rank still computes does not matter.
  void dismiss() {
    for (Other& other : others_) {
      if (other.gone) continue;
      try {
        other.mail->send({.kind = kEnd});  // also to one that gave up
      } catch (const Error&) {             // of MPI
        other.gone = true;
      }
    }
    const Clock::time_point start = Clock::now();
    const auto is_waited_for = [&](Other& other) {
      if (other.gone || other.at_rest) return false;
      try {
        while (other.mail->receive()) {
        }
        other.at_rest = other.mail->at_rest();
      } catch (const Error&) {
        other.gone = true;
      }
      return !other.gone && !other.at_rest;
    };
    for (Nap nap; std::count_if(others_.begin(), others_.end(), is_waited_for) > 0; nap.take()) {
      if (now_.and_then()) look_for_losses();
      if (seconds_since(start) < kFarewell) continue;
      for (Other& other : others_) {
        if (is_waited_for(other)) ranks_.give_up(other.rank);
      }
      return;
    }
  }

  Communicator& ranks_;
  const Work& work_;
  int64_t window_, next_ = 0;
  std::vector<Other> others_;
  std::map<int64_t, Piece> pieces_;  // taken and not delivered
  std::set<int64_t> again_;          // of those, pieces that somebody else has to do
  bool stopped_ = false;
  std::optional<PeerError> lost_;
  std::vector<std::string> reports_;
  Clock::time_point reported_ = {};
  Now now_;
};

class Follower {
 public:
  Follower(Communicator& ranks, const Work& work)
      : ranks_(ranks), work_(work), mail_(std::make_shared<Mail>(ranks, 0, Channel::work)) {
    mail_->ends_with(kEnd);
  }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  ~Follower() {
    try {
      if (mail_->at_rest()) return;
    } catch (const Error&) {  // of MPI
    }
    ranks_.keep(mail_);
  }

  bool run() {
    Nap nap;
    bool works = true;
    while (true) {
      const auto letter = mail_->receive();
      if (!letter) {
        look_after_lead();
        say_if_stopped();
        nap.take();
        continue;
      }
      nap.awake();
      if (letter->kind == kEnd) break;
      if (works) works = answer(*letter);
    }
    mail_->send({.kind = kBye});
    while (!mail_->all_sent()) {
      look_after_lead();
      nap.take();
    }
    return !stopped_;
  }

 private:
  // False where this rank can work no more.
  bool answer(const Letter& piece) {
    std::exception_ptr lead_lost;
    bool goes_on = true;
    const auto ask = [&] {
      if (!goes_on) return false;
      say_if_stopped();
      try {
        look_after_lead();
      } catch (...) {
        lead_lost = std::current_exception();
      }
      goes_on = !lead_lost && !stopped_ && !mail_->has_come(kEnd);
      return goes_on;
    };
    try {
      auto result = std::make_shared<const std::string>(work_.compute(*piece.text, ask));
      if (goes_on) mail_->send({.kind = kResult, .number = piece.number, .text = std::move(result)});
    } catch (const std::exception& error) {
      if (lead_lost) std::rethrow_exception(lead_lost);
      mail_->send({.kind = kGaveUp, .text = std::make_shared<const std::string>(error.what())});
      return false;
    }
    if (lead_lost) std::rethrow_exception(lead_lost);
    return true;
  }

  void say_if_stopped() {
    if (stopped_ || !work_.stop()) return;
    stopped_ = true;
    mail_->send({.kind = kStop});
  }

  // Only the loss of rank 0 ends this one.
  void look_after_lead() {
    if (!now_.and_then()) return;
    while (const auto lost = ranks_.lost_rank()) {
      if (lost->rank() == 0) throw PeerError(*lost);
    }
  }

  Communicator& ranks_;
  const Work& work_;
  std::shared_ptr<Mail> mail_;
  bool stopped_ = false;
  Now now_;
};

}  // namespace

bool share(Communicator& ranks, const Work& work) {
  return ranks.rank() == 0 ? Lead(ranks, work).run() : Follower(ranks, work).run();
}

}  // namespace heed::distributed
