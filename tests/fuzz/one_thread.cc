// In place of base/threads.cc: one thread.
#include "base/threads.h"

namespace heed {

int num_threads() { return 1; }

namespace detail {

bool in_parallel() { return true; }

void run_parallel(int /*threads*/, int parts, void (*body)(void*, int, int), void* context) {
  for (int part = 0; part < parts; ++part) body(context, part, parts);
}

}  // namespace detail
}  // namespace heed
