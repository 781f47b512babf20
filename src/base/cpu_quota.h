// How much of the processor the system leaves to this process.
#pragma once

#include <filesystem>

namespace heed {

// How many cores' time this process may take, rounded up: the smallest quota of its control groups, such as that of a
// container (docker run --cpus) or a service (CPUQuota). 0: there is no quota. Both versions of control groups are
// read; `groups` is the list of the process's groups, and `mount` where the system shows them.
[[nodiscard]] int cpu_quota(const std::filesystem::path& groups = "/proc/self/cgroup",
                            const std::filesystem::path& mount = "/sys/fs/cgroup");

}  // namespace heed
