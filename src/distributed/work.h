// Work in numbered pieces, shared among ranks as they become free.
//
// Rank 0 takes the pieces from wherever they come, hands them out, works on some of them itself, and delivers the
// results in the order of the pieces. So a result must depend on its piece alone, and then everything that is delivered
// is the same for any number of ranks. A rank that is lost costs the time of its pieces: others get them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "heed/distributed.h"

namespace heed::distributed {

struct Work {
  // On rank 0. The next piece; nothing where none has come yet and where none will come (ended()). With `wait` it waits
  // for one.
  std::function<std::optional<std::string>(bool wait)> next;
  std::function<bool()> ended;
  // On rank 0: the results, in the order of their pieces.
  std::function<void(const std::string& result)> deliver;
  // On rank 0: a rank is lost, or late, and others do its work.
  std::function<void(const std::string& what)> on_loss;
  // On every rank: the result of a piece. It asks goes_on() often, every few milliseconds where it can: rank 0 serves
  // the others meanwhile. Once goes_on() is false, the result does not matter. What it throws on rank 0 ends the work;
  // another rank that throws works no more.
  std::function<std::string(const std::string& piece, const std::function<bool()>& goes_on)> compute;
  // On every rank: whether the work shall end before it is done.
  std::function<bool()> stop;
  // Seconds that a rank may take for a piece before another rank gets that piece too. 0: any time.
  double patience = 0;
};

// All ranks call it together. Returns true on rank 0 when every result was delivered, and false where a stop() said
// true. What next(), deliver() and compute() throw on rank 0 is thrown on; the other ranks return. They throw PeerError
// where rank 0 is lost.
bool share(Communicator& ranks, const Work& work);

}  // namespace heed::distributed
