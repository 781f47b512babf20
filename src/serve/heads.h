// What a head does, where a measure says so clearly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/reading.h"

namespace heed::serve {

struct HeadName {
  std::string name;    // previous, next, same, first, end, diagonal, broad or induction; "": none is clear
  double measure = 0;  // of that name, or the largest one
};

// weights (L, S) of one head. A measure is the share of the weight on those places, the mean over the rows that have
// them; a name is clear where its measure is above one half. `diagonal` (cross-attention): within one and a half tokens
// of the line from corner to corner, beyond what even weights would have there, as a share of the most it could be:
// in a short text nearly everything lies near that line. `broad`: the entropy, as a share of the largest there could
// be; clear above 0.93. `induction` (decoders): on tokens that follow an earlier copy of the row's own token (Olsson et
// al. 2022).
[[nodiscard]] HeadName name_head(const Tensor& weights, std::string_view part, const Ids& rows);

}  // namespace heed::serve
