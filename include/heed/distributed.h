// Processes that work on one problem: ranks, and messages between them.
//
// A run has `size` ranks, numbered from 0. They are processes that `mpirun` or `srun` started (world()), threads of one
// process (run_in_process(), for tests and for trying things out), or the one process there is (single()).
//
//   auto ranks = distributed::world();
//   std::vector<std::string> hosts = ranks->gather_text(ranks->host(), 0);   // on rank 0: one a rank
//
// A message is bytes that another rank expects. No sum of floating-point numbers is ever left to the messages: MPI may
// add in any order. What is added is sent whole and added by its receiver, in an order that the caller fixes.
//
// Each rank uses its Communicator from one thread at a time. All ranks call the functions for all (barrier, broadcast,
// gather) in the same order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/error.h"
#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed::distributed {

// Another rank ended, or did not answer. The message names it and its host.
class PeerError : public Error {
 public:
  PeerError(int rank, bool announced, const std::string& text) : Error(text), rank_(rank), announced_(announced) {}
  [[nodiscard]] int rank() const { return rank_; }
  // The rank has said itself why it ends: nobody else needs to.
  [[nodiscard]] bool announced() const { return announced_; }

 private:
  int rank_;
  bool announced_;
};

// Messages on different channels do not wait for each other. Those of one channel between two ranks arrive in order.
// Training expects gradients while attention's messages come and go, so those have channels of their own.
enum class Channel : int {
  control = 1,
  gradients = 2,
  weights = 3,
  keys_values = 4,
  sums = 5,  // of the gradients of keys and values
  work = 6,
  failure = 7
};

// One message on its way. Its memory must live until wait() has returned, done() was true, or the Transfer was
// destroyed. That gives the message up, as a rank that ends does: where half was sent, other messages may fail then.
class Transfer {
 public:
  virtual ~Transfer() = default;

 protected:
  friend class Communicator;
  [[nodiscard]] virtual bool poll() = 0;  // true once it is complete, and from then on
  int peer_ = -1;
};
using TransferPtr = std::unique_ptr<Transfer>;

class Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const std::string& host(int rank) const { return places_[static_cast<size_t>(rank)].host; }
  [[nodiscard]] const std::string& host() const { return host(rank_); }
  [[nodiscard]] std::string name_of(int rank) const;     // "rank 1 (node3)", as messages write it
  [[nodiscard]] virtual std::string engine() const = 0;  // "Open MPI v4.1.4 ...", "threads", "one process"

  // Messages to and from another rank. The receiver must expect exactly as many bytes as are sent.
  [[nodiscard]] TransferPtr start_send(std::span<const std::byte> bytes, int to, Channel channel);
  [[nodiscard]] TransferPtr start_receive(std::span<std::byte> bytes, int from, Channel channel);
  [[nodiscard]] bool done(Transfer& transfer);
  // Returns when the message is complete. Throws PeerError where its peer has ended, has announced a failure, or was
  // silent for longer than the timeout.
  void wait(Transfer& transfer);
  void send(std::span<const std::byte> bytes, int to, Channel channel) { wait(*start_send(bytes, to, channel)); }
  void receive(std::span<std::byte> bytes, int from, Channel channel) { wait(*start_receive(bytes, from, channel)); }

  // While it is alive, messages go on although this rank computes and waits for none. MPI moves them only when it is
  // called, so a thread calls it now and then. Scopes may lie inside of each other.
  class ProgressScope {
   public:
    explicit ProgressScope(Communicator& ranks) : ranks_(ranks) {
      if (ranks_.progress_scopes_ == 0) ranks_.keep_going(true);
      ++ranks_.progress_scopes_;
    }
    ~ProgressScope() {
      if (--ranks_.progress_scopes_ == 0) ranks_.keep_going(false);
    }
    ProgressScope(const ProgressScope&) = delete;
    ProgressScope& operator=(const ProgressScope&) = delete;

   private:
    Communicator& ranks_;
  };

  // For all ranks together.
  void barrier();
  void broadcast(std::span<std::byte> bytes, int root);
  [[nodiscard]] std::string broadcast_text(const std::string& text,
                                           int root);  // any length; `text` matters at the root
  // The texts of all ranks, in their order, at the root; nothing elsewhere.
  [[nodiscard]] std::vector<std::string> gather_text(const std::string& text, int root);
  // all.size() is size() * mine.size(): what every rank gives, in the order of ranks, everywhere.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all);

  // Called now and then while this rank waits: for whom, and for how many seconds so far.
  void on_wait(std::function<void(int peer, double seconds)> f) { on_wait_ = std::move(f); }
  // Whether another rank has announced that it ends.
  [[nodiscard]] bool failure_announced();
  // For a rank that can go on without another: a rank that has ended, announced or not, each one once. Nothing waits
  // for it any more.
  [[nodiscard]] std::optional<PeerError> lost_rank();
  // For a rank that is done without another, which does not answer: nothing waits for it any more.
  void give_up(int rank);
  // Memory that a message may still read or write, kept as long as this object.
  void keep(std::shared_ptr<const void> memory) { kept_.push_back(std::move(memory)); }
  // For a thread beside the one that uses this object, while that one computes and waits for nobody. The process of
  // `rank` runs on this host and has ended; and the first such rank that has not announced that it ends.
  [[nodiscard]] bool has_ended_here(int rank) const;
  [[nodiscard]] std::optional<PeerError> lost_here();
  // This process did not run for so long. If that is longer than the timeout, others have said that it does not answer:
  // that they end then is no news, and errors about it are announced() already.
  void was_away(double seconds) {
    if (timeout_ > 0 && seconds > timeout_) was_away_ = true;
  }
  // Tells all other ranks that this one ends, and why. Their next wait throws PeerError with announced().
  void announce_failure(std::string_view text);
  // Ends the processes of all ranks. (Threads as ranks: their waits throw.)
  [[noreturn]] virtual void abort(int status) = 0;
  // What this process will exit with. Where a rank was given up, the processes of all ranks are ended when this object
  // is destroyed, with this status.
  void set_exit_status(int status) { exit_status_ = status; }

  // How long a silent peer is waited for, in seconds. 0: for ever.
  void set_timeout(double seconds) { timeout_ = seconds; }
  [[nodiscard]] double timeout() const { return timeout_; }
  [[nodiscard]] double seconds_waited() const { return waited_; }  // in wait() and the functions above
  [[nodiscard]] int64_t bytes_sent() const { return sent_; }

 protected:
  Communicator(int rank, int size);
  // Exchanges the names of hosts and the numbers of processes. Called once, when messages can be sent.
  void introduce(const std::string& host, int64_t process);
  // Says goodbye to all and waits for their goodbyes, so that no message is on its way when an engine ends. on_wait()
  // is over: what it uses may be gone when a process ends.
  void leave();
  [[nodiscard]] bool gave_up() const { return !given_up_.empty(); }
  [[nodiscard]] int exit_status() const { return exit_status_; }
  [[nodiscard]] virtual TransferPtr begin_send(std::span<const std::byte> bytes, int to, int channel) = 0;
  [[nodiscard]] virtual TransferPtr begin_receive(std::span<std::byte> bytes, int from, int channel) = 0;

  // Where the outermost ProgressScope begins and where it ends.
  virtual void keep_going(bool /*on*/) {}

 private:
  friend class Group;
  struct Place {
    int number = 0;  // of the rank, as messages to people name it
    std::string host;
    int64_t process = 0;  // 0: not known
    int64_t process_namespace = 0;
  };
  void look_for_failures();
  [[nodiscard]] PeerError lost_error(int rank) const;
  [[nodiscard]] virtual std::optional<PeerError> next_failure();
  virtual void count_waiting(double seconds) { waited_ += seconds; }
  void check_peer(int peer, double silent) const;

  int rank_, size_;
  std::vector<Place> places_;
  std::atomic<double> timeout_{0};
  std::function<void(int, double)> on_wait_;
  double waited_ = 0;
  int64_t sent_ = 0;
  std::vector<std::vector<std::byte>> failure_texts_;
  std::vector<std::byte> own_failure_;
  std::vector<TransferPtr> failure_receives_, failure_sends_;  // they use the memory above
  std::mutex failures_lock_;                                   // around failure_receives_
  std::atomic<bool> was_away_{false};
  std::vector<std::shared_ptr<const void>> kept_;
  std::vector<int> given_up_;  // ranks
  int exit_status_ = 0;
  int progress_scopes_ = 0;
};

// While it is alive, silent peers are waited for longer, or without a limit: around what takes one rank long.
class LongerTimeout {
 public:
  static constexpr double kNoLimit = 0;
  LongerTimeout(Communicator& ranks, double more_seconds) : ranks_(ranks), before_(ranks.timeout()) {
    if (before_ > 0) ranks_.set_timeout(more_seconds == kNoLimit ? 0 : before_ + more_seconds);
  }
  ~LongerTimeout() { ranks_.set_timeout(before_); }
  LongerTimeout(const LongerTimeout&) = delete;
  LongerTimeout& operator=(const LongerTimeout&) = delete;

 private:
  Communicator& ranks_;
  double before_;
};

// The one rank of a process that is alone.
[[nodiscard]] std::unique_ptr<Communicator> single();

// What started this process: with `mpirun -n 8` there are eight of them.
struct Launch {
  int rank = 0, size = 1;
  std::string by;  // "mpirun", "srun"; empty: nothing that starts several
};
[[nodiscard]] Launch launch();

// The ranks that mpirun or srun started, or single(). Throws Error where several were started and this heed was built
// without MPI, or where MPI cannot be loaded: each process would work as if it were alone.
[[nodiscard]] std::unique_ptr<Communicator> world();
// What world() would use: "Open MPI v4.1.4", or why there is none.
[[nodiscard]] std::string engine_found();

// Calls f on `ranks` threads of this process, each with its own Communicator. The exception of the lowest rank that
// failed by itself is thrown on. `delay`: seconds that every message takes, to see what a network does.
void run_in_process(int ranks, const std::function<void(Communicator&)>& f, double delay = 0);

// Some ranks of `all` as ranks 0, 1, ... of a group, in the order of `members`, which has the calling rank. Messages go
// through `all`, which must outlive the group and has its bytes and its waiting in its own sums. Errors name ranks as
// `all` does.
[[nodiscard]] std::unique_ptr<Communicator> group(Communicator& all, const std::vector<int>& members);

}  // namespace heed::distributed
HEED_EXPORT_END
