#include "cli/ranks.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/cpu_quota.h"
#include "cli/console.h"
#include "cli/cores.h"
#include "cli/errors.h"
#include "heed/cpu.h"

namespace heed::cli {
namespace {

std::string g_way_to_go_on;
std::unique_ptr<distributed::Communicator> g_ranks;  // ends before the command, which it uses while it waits
std::atomic<bool> g_said{false};                     // why this run ends

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// What each process of this host may use, in the order of ranks.
std::vector<Cores> cores_on_this_host(distributed::Communicator& all, const Cores& mine) {
  std::vector<Cores> everywhere(static_cast<size_t>(all.size())), here;
  all.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(everywhere)));
  for (int rank = 0; rank < all.size(); ++rank) {
    if (all.host(rank) == all.host()) here.push_back(everywhere[static_cast<size_t>(rank)]);
  }
  return here;
}

bool is_first_on_its_host(const distributed::Communicator& all) {
  for (int rank = 0; rank < all.rank(); ++rank) {
    if (all.host(rank) == all.host()) return false;
  }
  return true;
}

std::string how_to_bind(const std::string& launcher, int cores) {
  if (launcher == "srun") return fmt::format("--cpus-per-task={} to srun", cores);
  return fmt::format("--bind-to none or --map-by slot:PE={} to {}", cores, launcher);
}

// A process that is asked to stop while it waits may never get what it waits for: mpirun asks when another was lost.
void say_whom_we_wait_for(const distributed::Communicator& all, int peer, double seconds) {
  constexpr double kPatience = 0.3;
  if (!stop_requested().load() || seconds < kPatience || g_said.exchange(true)) return;
  complain(fmt::format("asked to stop while {} waits for {}{}", all.name_of(all.rank()), all.name_of(peer),
                       g_way_to_go_on.empty() ? "" : "; if it was lost, go on with: " + g_way_to_go_on));
}

// For a process that ends: where MPI fails as well, the first failure is the one to report.
bool failure_was_announced() {
  try {
    return g_ranks != nullptr && g_ranks->failure_announced();
  } catch (const Error&) {
    return false;
  }
}
void announce_failure(const std::string& text) {
  try {
    g_ranks->announce_failure(text);
  } catch (const Error&) {
    return;  // the others are ended in any case
  }
}

// Of the processes on a host that one was lost on, the first that is left speaks.
bool is_first_survivor(const distributed::Communicator& all) {
  for (int rank = 0; rank < all.rank(); ++rank) {
    if (all.host(rank) == all.host() && !all.has_ended_here(rank)) return false;
  }
  return true;
}

// Messages of other ranks than 0 begin with who says it.
std::string signed_text(const std::string& text) {
  const int rank = distributed::launch().rank;
  if (rank == 0) return text;
  return fmt::format("{}: {}", g_ranks != nullptr ? g_ranks->name_of(rank) : fmt::format("rank {}", rank), text);
}

class Watch {
 public:
  Watch() : thread_([this] { run(); }) {}
  ~Watch() {
    {
      const std::scoped_lock lock(lock_);
      ended_ = true;
    }
    wake_.notify_one();
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  static constexpr std::chrono::milliseconds kDistance{100};
  static constexpr int kTurnsToSave = 5, kTurnsToEnd = 50;

  void run() {
    int asked = 0, lost = 0;  // turns since
    auto before = std::chrono::steady_clock::now();
    std::unique_lock lock(lock_);
    while (!wake_.wait_for(lock, kDistance, [this] { return ended_; })) {
      const auto now = std::chrono::steady_clock::now();
      if (several_processes()) g_ranks->was_away(std::chrono::duration<double>(now - before).count());
      before = now;
      if (several_processes() && (lost > 0 || look())) ++lost;
      if (lost == kTurnsToEnd) {
        lock.unlock();  // an MPI may end the program by exit(), which destroys this object on this thread
        g_ranks->abort(kFailure);
      }
      if (stop_requested().load()) ++asked;
      if (asked == kTurnsToSave && leads() && !g_said) {
        complain(
            several_processes()
                ? fmt::format("asked to stop; the training is saved after the update that is being computed; if it "
                              "is killed before, {}",
                              way_to_go_on())
                : std::string("asked to stop; the training is saved after the update that is being computed; Ctrl-C "
                              "ends it at once, without saving"));
      }
    }
  }

  // Whether a rank was lost.
  static bool look() {
    try {
      if (!is_first_survivor(*g_ranks)) return false;
      const auto error = g_ranks->lost_here();
      if (!error) return false;
      if (!error->announced() && !g_said.exchange(true))
        complain(signed_text(fmt::format("{} ({})", plain_message(error->what()), way_to_go_on())));
      return true;
    } catch (const Error&) {
      return false;  // where MPI fails as well, this process ends by itself
    }
  }

  std::mutex lock_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};
std::unique_ptr<Watch> g_watch;  // ends before the ranks: the other processes end when all of them have

bool is_watched(int peer) { return g_watch != nullptr && g_ranks->host(peer) == g_ranks->host(); }

}  // namespace

bool several_processes() { return distributed::launch().size > 1; }
bool leads() { return distributed::launch().rank == 0; }

distributed::Communicator& ranks() {
  if (g_ranks == nullptr) {
    g_ranks = distributed::world();
    g_ranks->on_wait([](int peer, double seconds) {
      if (is_watched(peer)) return;
      if (leads() || peer == 0) say_whom_we_wait_for(*g_ranks, peer, seconds);
    });
  }
  return *g_ranks;
}

void require_one_process() {
  const distributed::Launch launch = distributed::launch();
  if (launch.size > 1) {
    throw Error(fmt::format("this command works in one process; {} started {}", launch.by, launch.size));
  }
}

void share_cores(std::optional<int64_t> threads) {
  const distributed::Launch launch = distributed::launch();
  if (launch.by.empty()) return;
  distributed::Communicator& all = ranks();
  const Cores mine = own_cores(), allowed = allowed_cores();
  const std::vector<Cores> here = cores_on_this_host(all, mine);
  const bool chosen = threads || is_set("HEED_NUM_THREADS") || is_set("OMP_NUM_THREADS");
  const int quota = cpu_quota(), quota_each = std::max(1, quota / static_cast<int>(here.size()));
  if (!chosen) set_num_threads(quota > 0 ? std::min(share_of(mine, here), quota_each) : share_of(mine, here));
  const int bound = mine.count(), total = allowed.count(), count = num_threads();
  const int share = std::max(1, total / static_cast<int>(here.size()));
  if (bound < count && is_first_on_its_host(all)) {  // one for all on its host: they are bound alike
    std::string advice;
    if (count > share) advice = fmt::format("--threads {}", share);
    if (bound < std::min(count, share))
      advice += (advice.empty() ? "" : ", and ") + how_to_bind(launch.by, std::min(count, share));
    warn(fmt::format("{} may use {} of {} cores and has {} threads; pass {}",
                     all.size() == 1 ? "this process" : all.name_of(all.rank()), bound, total, count, advice));
  } else if (!chosen && leads() && idle_cores(here, allowed) > 0) {
    warn(fmt::format("{} has bound {} process to {} of {} cores; pass {}", launch.by, all.size() == 1 ? "this" : "each",
                     bound, total, how_to_bind(launch.by, share)));
  }
}

void set_way_to_go_on(std::string command) { g_way_to_go_on = std::move(command); }

std::string way_to_go_on() { return g_way_to_go_on.empty() ? "" : "go on with: " + g_way_to_go_on; }

std::string mpirun_command(const std::string& command) {
  const distributed::Launch launch = distributed::launch();
  if (launch.size == 1) return command;
  return fmt::format("{} -n {} {}", launch.by, launch.size, command);
}

void watch_ranks() {
  if (g_watch == nullptr) g_watch = std::make_unique<Watch>();
}

int end_with(int status, const std::string& text, const distributed::PeerError* lost) {
  if (!several_processes()) {
    complain(text);
    return status;
  }
  using std::chrono::milliseconds;
  // All ranks may have found the same mistake. Rank 0 speaks first, and the others, one after the other, only if nobody
  // has said it. (Without messages, it is mpirun that ends the others when one has failed; it takes a second or so.)
  const distributed::Launch launch = distributed::launch();
  const int first = lost != nullptr && lost->rank() == 0 ? 1 : 0;
  int turns = launch.rank <= first ? 0 : g_ranks != nullptr ? 20 + 4 * (launch.rank - first - 1) : 80;
  bool silent = lost != nullptr && lost->announced();
  if (lost != nullptr && g_ranks != nullptr && g_ranks->has_ended_here(lost->rank())) {  // all of its host know it
    silent = silent || !is_first_survivor(*g_ranks);
    turns = 0;
  }
  for (int turn = 0; !silent && turn < turns; ++turn) {
    std::this_thread::sleep_for(milliseconds(50));
    silent = failure_was_announced();
  }
  if (!g_said.exchange(true) && !silent) complain(signed_text(text));
  if (g_ranks == nullptr) return status;
  if (!silent) announce_failure(text);
  std::this_thread::sleep_for(milliseconds(silent ? 1000 : 200));  // what was announced arrives, and others end first
  g_ranks->abort(status);
  return status;
}

void set_exit_status(int status) {
  if (g_ranks != nullptr) g_ranks->set_exit_status(status);
}

}  // namespace heed::cli
