// What this processor can do, and which of heed's kernels are used on it.
#include "heed/cpu.h"

#include <hwy/highway.h>
#include <hwy/targets.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/fork.h"
#include "heed/error.h"

namespace heed {
namespace {

constexpr Isa kIsas[] = {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16, Isa::amx};

// Highway's name for each of ours. Its lower bits are the better targets.
int64_t targets_up_to(Isa isa) {
  switch (isa) {
    case Isa::portable: return HWY_STATIC_TARGET;
    case Isa::avx2: return HWY_STATIC_TARGET | HWY_AVX2;
    case Isa::avx512:
    case Isa::avx512bf16:
    case Isa::amx: return HWY_STATIC_TARGET | HWY_AVX2 | HWY_AVX3;
  }
  return HWY_STATIC_TARGET;
}

// What the machine has, asked once before anything is disabled.
int64_t machine_targets() {
  static const int64_t targets = [] {
    hwy::DisableTargets(0);
    return hwy::SupportedTargets() & HWY_TARGETS;
  }();
  return targets;
}
const MadeBeforeFork kMachineTargets([] { (void)machine_targets(); });

#if defined(__x86_64__)
// Intel's manual, volume 2, CPUID leaf 7.
bool has_avx512bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1u) != 0;
}

// Beside the instructions, the system must keep tiles for its programs, and lets only those have them that ask.
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d >> 22 & 1u) == 0 || (d >> 24 & 1u) == 0) return false;
  unsigned low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 3u << 17;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return (low & kTileState) == kTileState && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool has_avx512bf16() { return false; }
bool has_amx() { return false; }
#endif

struct Runnable {
  bool avx512 = (machine_targets() & HWY_AVX3) != 0;
  bool bf16 = avx512 && has_avx512bf16();
  bool amx = bf16 && has_amx();
};

const Runnable& runnable() {
  static const Runnable found;
  return found;
}
const MadeBeforeFork kRunnable([] { (void)runnable(); });

bool can_run(Isa isa) {
  switch (isa) {
    case Isa::portable: return true;
    case Isa::avx2: return (machine_targets() & HWY_AVX2) != 0;
    case Isa::avx512: return runnable().avx512;
    case Isa::avx512bf16: return runnable().bf16;
    case Isa::amx: return runnable().amx;
  }
  return false;
}

template <class Isas>
std::string names_of(const Isas& isas) {
  std::string names;
  for (const Isa isa : isas) {
    if (!names.empty()) names += ", ";
    names += to_string(isa);
  }
  return names;
}

void choose(Isa isa) { hwy::DisableTargets(~targets_up_to(isa)); }

std::atomic<int> chosen_isa{-1};
ForkSafeMutex choice_mutex;

int64_t cache_bytes(int name) { return std::max<int64_t>(0, sysconf(name)); }

std::string read_line_of(const char* file, std::string_view key) {
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

CpuInfo detect() {
  CpuInfo info;
  info.model = read_line_of("/proc/cpuinfo", "model name");
  if (info.model.empty()) info.model = "unknown processor";
  cpu_set_t set;
  info.cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  info.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE);
  info.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE);
  info.l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
  std::istringstream flags(read_line_of("/proc/cpuinfo", "flags"));
  const std::vector<std::string> wanted = {"sse2",     "avx2",     "fma",         "f16c",        "avx_vnni",
                                           "avx512f",  "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16",
                                           "amx_tile", "amx_bf16", "amx_int8"};
  std::string flag;
  while (flags >> flag) {
    if (std::find(wanted.begin(), wanted.end(), flag) != wanted.end()) info.features.push_back(flag);
  }
  return info;
}

}  // namespace

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::avx512bf16: return "avx512bf16";
    case Isa::amx: return "amx";
  }
  return "unknown";
}

Isa parse_isa(std::string_view name) {
  for (const Isa isa : kIsas) {
    if (name == to_string(isa)) return isa;
  }
  fail("isa", "one of ", names_of(kIsas), "; found \"", name, "\"");
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kIsas) {
    if (can_run(isa)) isas.push_back(isa);
  }
  return isas;
}

Isa active_isa() {
  int chosen = chosen_isa.load(std::memory_order_acquire);
  if (chosen < 0) {
    const char* const wanted = std::getenv("HEED_ISA");
    set_isa(wanted != nullptr && *wanted != '\0' ? parse_isa(wanted) : available_isas().back());
    chosen = chosen_isa.load(std::memory_order_acquire);
  }
  return static_cast<Isa>(chosen);
}

void set_isa(Isa isa) {
  require(can_run(isa), "isa", "an instruction set of this machine (", names_of(available_isas()), "); found ",
          to_string(isa));
  const std::scoped_lock lock(choice_mutex);
  choose(isa);
  chosen_isa.store(static_cast<int>(isa), std::memory_order_release);
}

bool multiplies_bf16() { return active_isa() >= Isa::avx512bf16; }

const CpuInfo& cpu_info() {
  static const CpuInfo info = detect();
  return info;
}
const MadeBeforeFork kCpuInfo([] { (void)cpu_info(); });

}  // namespace heed
