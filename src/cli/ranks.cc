#include "cli/ranks.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "cli/console.h"
#include "cli/cores.h"
#include "heed/cpu.h"

namespace heed::cli {
namespace {

std::string g_way_to_go_on;
std::unique_ptr<distributed::Communicator> g_ranks;  // ends first: what it calls while it waits uses the command

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
  static bool said = false;
  if (said || !stop_requested().load() || seconds < kPatience) return;
  said = true;
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

}  // namespace

bool several_processes() { return distributed::launch().size > 1; }
bool leads() { return distributed::launch().rank == 0; }

distributed::Communicator& ranks() {
  if (g_ranks == nullptr) {
    g_ranks = distributed::world();
    g_ranks->on_wait([](int peer, double seconds) {
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
  if (!chosen) set_num_threads(share_of(mine, here));
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

int end_with(int status, const std::string& text, bool peer_has_spoken) {
  if (!several_processes()) {
    complain(text);
    return status;
  }
  using std::chrono::milliseconds;
  // All ranks may have found the same mistake. Rank 0 speaks first, and the others only if it has nothing to say.
  // (Without messages, it is mpirun that ends the others when one has failed; it takes a second or so.)
  bool silent = peer_has_spoken;
  const int turns = g_ranks != nullptr ? 20 : 80;
  for (int turn = 0; !leads() && !silent && turn < turns; ++turn) {
    std::this_thread::sleep_for(milliseconds(50));
    silent = failure_was_announced();
  }
  if (!silent) {
    const distributed::Launch launch = distributed::launch();
    const std::string who =
        g_ranks != nullptr ? g_ranks->name_of(g_ranks->rank()) : fmt::format("rank {}", launch.rank);
    complain(launch.rank == 0 ? text : fmt::format("{}: {}", who, text));
  }
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
