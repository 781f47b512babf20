// The machine heed runs on: what it is, which kernels are chosen for it, and how many threads work.
//
// Thread-safe for reading. set_isa() and set_num_threads() are settings of the process: call them before the work
// starts. HEED_ISA=portable|avx2|avx512|avx512bf16|amx in the environment does what set_isa() does;
// HEED_NUM_THREADS does what set_num_threads() does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed {

// Instruction sets with kernels of their own, from slowest to fastest. In f32 all of them give the same bits: the last
// two have kernels for bf16 alone, and are avx512 in everything else. portable is what every processor of the
// architecture has: SSE2, or NEON.
enum class Isa { portable, avx2, avx512, avx512bf16, amx };

[[nodiscard]] std::string_view to_string(Isa isa);

// Throws Error for a name that is not an instruction set's.
[[nodiscard]] Isa parse_isa(std::string_view name);

// The instruction sets this machine can run, slowest first; never empty.
[[nodiscard]] std::vector<Isa> available_isas();

// The one in use: the fastest available unless set_isa() or HEED_ISA chose another. Throws Error if HEED_ISA names one
// that does not exist or that this machine cannot run.
[[nodiscard]] Isa active_isa();

// Uses `isa` from now on. Throws Error if this machine cannot run it.
void set_isa(Isa isa);

// Whether active_isa() has matrix products of bf16 numbers (ops::Precision::bf16).
[[nodiscard]] bool multiplies_bf16();

// Threads used by heed's loops: the processor's cores, or as many as a container or service is given the time of (or
// HEED_NUM_THREADS, or OMP_NUM_THREADS), unless set; a share of them in a thread that computes beside others. 1 in a
// process that was forked after several threads had computed: fork() copies the calling thread alone. No result depends
// on it.
[[nodiscard]] int num_threads();

// Throws Error unless 1 <= count <= 1024.
void set_num_threads(int count);

struct CpuInfo {
  std::string model;                  // as the system names it
  int cores = 0;                      // available to this process
  int64_t l1_bytes = 0;               // data cache of one core
  int64_t l2_bytes = 0;               // of one core
  int64_t l3_bytes = 0;               // shared
  std::vector<std::string> features;  // "avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", ... that matter here
};

[[nodiscard]] const CpuInfo& cpu_info();

}  // namespace heed
HEED_EXPORT_END
