#include "cli/ranks.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "cli/console.h"
#include "heed/cpu.h"

namespace heed::cli {
namespace {

std::unique_ptr<distributed::Communicator> g_ranks;
std::string g_way_to_go_on;

struct Cores {
  int bound = 1;    // those that this process is bound to
  int allowed = 1;  // those that it could be bound to: of the machine, the container or the job
};

Cores count_cores() {
  cpu_set_t bound, all;
  if (sched_getaffinity(0, sizeof bound, &bound) != 0) return {};
  Cores cores{.bound = std::max(1, CPU_COUNT(&bound))};
  cores.allowed = cores.bound;
  // Who asks for all cores gets those that are allowed. Nothing else says which they are under mpirun.
  std::memset(&all, 0xff, sizeof all);
  if (sched_setaffinity(0, sizeof all, &all) != 0) return cores;
  if (sched_getaffinity(0, sizeof all, &all) == 0) cores.allowed = std::max(cores.bound, CPU_COUNT(&all));
  sched_setaffinity(0, sizeof bound, &bound);
  return cores;
}

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

std::vector<int> ranks_on_this_host(const distributed::Communicator& all) {
  std::vector<int> here;
  for (int rank = 0; rank < all.size(); ++rank)
    if (all.host(rank) == all.host()) here.push_back(rank);
  return here;
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
  const Cores cores = count_cores();
  const distributed::Communicator& all = ranks();
  const std::vector<int> here = ranks_on_this_host(all);
  const int share = std::max(1, cores.allowed / static_cast<int>(here.size()));
  const bool chosen = threads || is_set("HEED_NUM_THREADS") || is_set("OMP_NUM_THREADS");
  if (!chosen && cores.bound == cores.allowed) set_num_threads(share);
  const int count = num_threads();
  if (cores.bound < count && all.rank() == here.front()) {  // one for all on its host: they are bound alike
    std::string advice;
    if (count > share) advice = fmt::format("--threads {}", share);
    if (cores.bound < std::min(count, share))
      advice += (advice.empty() ? "" : ", and ") + how_to_bind(launch.by, std::min(count, share));
    warn(fmt::format("{} may use {} of {} cores and has {} threads; pass {}",
                     all.size() == 1 ? "this process" : all.name_of(all.rank()), cores.bound, cores.allowed, count,
                     advice));
  } else if (!chosen && leads() && cores.bound < share) {
    warn(fmt::format("{} has bound {} process to {} of {} cores; pass {}", launch.by, all.size() == 1 ? "this" : "each",
                     cores.bound, cores.allowed, how_to_bind(launch.by, share)));
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
