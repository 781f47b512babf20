// What heed asks of MPI, as a table of C functions. The table lies in a library of its own (plugin/), which is loaded
// where mpirun has started several processes: heed itself does not need MPI to be installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed::distributed {

constexpr int32_t kEngineVersion = 3;  // of this table; a plugin of another build is refused
constexpr const char* kEngineSymbol = "heed_mpi_engine";

// Functions that can fail return 0 for success; message() then says what went wrong.
struct Engine {
  int32_t version;
  int (*start)(int* rank, int* size);
  void (*finish)();
  void (*abort)(int status);
  const char* (*library)();  // "Open MPI v4.1.4, ..."
  const char* (*message)();
  // A message on its way, or null. `count` is at most kMostBytes.
  void* (*send)(const void* bytes, int count, int to, int channel);
  void* (*receive)(void* bytes, int count, int from, int channel);
  // 1: complete, and the handle is gone; 0: not yet; -1: failed. `count` gets what was received.
  int (*poll)(void* handle, int* count);
  // For a message whose memory is about to go. 1: MPI does not use it any more, and the handle is gone; 0: it still
  // may, so ask again. A message that is on its way already comes to its end; only a receive can be called off.
  int (*cancel)(void* handle);
  void (*progress)();  // lets messages go on
};

constexpr int64_t kMostBytes = int64_t{1} << 30;  // MPI counts in int

}  // namespace heed::distributed
