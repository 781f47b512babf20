// A run: what a model reads, and what it writes, token by token.
#pragma once

#include <memory>
#include <string>

#include "serve/views.h"
#include "serve/writer.h"

namespace heed::serve {

[[nodiscard]] std::unique_ptr<Service::Stream> start_run(const std::shared_ptr<const Served>& model,
                                                         const Arguments& request);

// What was written, as the event "done" has it: `logits` are those of a pass over the reading, or undefined for a long
// prompt. `output` has the token that each row wrote, `text` what was written in all.
[[nodiscard]] nlohmann::json done_event(const Reading& reading, const Ids& output, const Tensor& logits, bool finished,
                                        const std::string& text);

}  // namespace heed::serve
