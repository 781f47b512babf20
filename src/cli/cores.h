// The cores that the processes of one machine may use, and how they share them.
#pragma once

#include <sched.h>

#include <span>

namespace heed::cli {

struct Cores {
  cpu_set_t set = {};

  [[nodiscard]] int count() const { return CPU_COUNT(&set); }
};

[[nodiscard]] Cores own_cores();      // of this process, as it may be bound
[[nodiscard]] Cores allowed_cores();  // that it could be bound to: a container may have fewer than the machine

// How many threads a process gets that may use `mine`: those with the same cores share them. `here` has the cores of
// all processes of the machine.
[[nodiscard]] int share_of(const Cores& mine, std::span<const Cores> here);
// Cores that are allowed and that no process may use.
[[nodiscard]] int idle_cores(std::span<const Cores> here, const Cores& allowed);

}  // namespace heed::cli
