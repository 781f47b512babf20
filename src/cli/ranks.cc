#include "cli/ranks.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cli/console.h"
#include "heed/cpu.h"

namespace heed::cli {
namespace {

std::unique_ptr<distributed::Communicator> g_ranks;
std::string g_way_to_go_on;

int bound_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

int ranks_on_this_host(const distributed::Communicator& all) {
  int count = 0;
  for (int rank = 0; rank < all.size(); ++rank) count += all.host(rank) == all.host() ? 1 : 0;
  return count;
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
  if (!several_processes()) return;
  const distributed::Communicator& all = ranks();
  const auto total = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int bound = bound_cores(), here = ranks_on_this_host(all);
  const bool chosen = threads || is_set("HEED_NUM_THREADS") || is_set("OMP_NUM_THREADS");
  if (!chosen && bound == total) set_num_threads(std::max(1, total / here));
  if (bound < num_threads()) {
    warn(fmt::format(
        "{} may use {} of {} cores and has {} threads; pass --bind-to none to mpirun, or --map-by slot:PE={}",
        all.name_of(all.rank()), bound, total, num_threads(), num_threads()));
  } else if (!chosen && leads() && bound < total && here * bound < total) {
    warn(fmt::format(
        "mpirun has bound each process to {} of {} cores, and {} stay idle; pass --bind-to none, or --map-by "
        "slot:PE={}",
        bound, total, total - here * bound, total / here));
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
    silent = g_ranks != nullptr && g_ranks->failure_announced();
  }
  if (!silent) {
    const distributed::Launch launch = distributed::launch();
    const std::string who =
        g_ranks != nullptr ? g_ranks->name_of(g_ranks->rank()) : fmt::format("rank {}", launch.rank);
    complain(launch.rank == 0 ? text : fmt::format("{}: {}", who, text));
  }
  if (g_ranks == nullptr) return status;
  if (!silent) g_ranks->announce_failure(text);
  std::this_thread::sleep_for(milliseconds(silent ? 1000 : 200));  // what was announced arrives, and others end first
  g_ranks->abort(status);
  return status;
}

}  // namespace heed::cli
