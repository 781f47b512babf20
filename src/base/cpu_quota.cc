#include "base/cpu_quota.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

namespace heed {
namespace {

using Path = std::filesystem::path;

// The cores of one group: microseconds of each period. 0: it has no quota. Version 2 writes both into one file.
double cores_of(const Path& folder, bool second) {
  double quota = 0, period = 0;
  if (second) {
    std::ifstream(folder / "cpu.max") >> quota >>
        period;  // "max 100000" where there is no quota: 0, for it is no number
  } else {
    std::ifstream(folder / "cpu.cfs_quota_us") >> quota;  // -1: none
    std::ifstream(folder / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

int cpu_quota(const Path& groups, const Path& mount) {
  double least = 0;
  std::ifstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // number:controllers:/group, without controllers in version 2
    const size_t first = line.find(':'), last = line.find(':', first + 1);
    if (first == std::string::npos || last == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, last - first - 1);
    const bool second = controllers.empty();
    if (!second && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    const Path root = second ? mount : std::filesystem::exists(mount / "cpu") ? mount / "cpu" : mount / controllers;
    // Those above count, too. A container may show its own group as the root.
    for (Path group = Path(line.substr(last + 1)).relative_path();; group = group.parent_path()) {
      const double cores = cores_of(root / group, second);
      if (cores > 0 && (least == 0 || cores < least)) least = cores;
      if (group.empty()) break;
    }
  }
  constexpr double kMost = 1 << 20;
  return static_cast<int>(std::ceil(std::min(least, kMost)));
}

}  // namespace heed
