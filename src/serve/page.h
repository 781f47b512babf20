// The live page: what `/` answers.
#pragma once

#include <string>

namespace heed::serve {

struct Page {
  std::string html;
  std::string policy;  // value of the header Content-Security-Policy
};

[[nodiscard]] Page live_page();

}  // namespace heed::serve
