#include "cli/cores.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

namespace heed::cli {

Cores own_cores() {
  Cores cores;
  if (sched_getaffinity(0, sizeof cores.set, &cores.set) == 0 && cores.count() > 0) return cores;
  const auto online = static_cast<int>(std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1L, long{CPU_SETSIZE}));
  for (int core = 0; core < online; ++core) CPU_SET(core, &cores.set);
  return cores;
}

Cores allowed_cores() {
  // The system cuts what a thread asks for down to what it may have. Only the thread that asks is moved.
  Cores cores = own_cores();
  std::thread([&] {
    Cores all;
    std::fill_n(reinterpret_cast<unsigned char*>(&all.set), sizeof all.set, static_cast<unsigned char>(0xff));
    if (sched_setaffinity(0, sizeof all.set, &all.set) == 0) cores = own_cores();
  }).join();
  return cores;
}

int share_of(const Cores& mine, std::span<const Cores> here) {
  const auto sharers =
      std::count_if(here.begin(), here.end(), [&](const Cores& each) { return CPU_EQUAL(&each.set, &mine.set); });
  return std::max(1, mine.count() / static_cast<int>(std::max<std::ptrdiff_t>(1, sharers)));
}

int idle_cores(std::span<const Cores> here, const Cores& allowed) {
  Cores idle = allowed;
  for (const Cores& each : here) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &each.set)) CPU_CLR(core, &idle.set);
    }
  }
  return idle.count();
}

}  // namespace heed::cli
