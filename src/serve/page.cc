#include "serve/page.h"

#include <utility>

#include "inspect/page.h"

namespace heed::serve {

Page live_page() {
  inspect::LivePage page = inspect::live_page();
  return {.html = std::move(page.html), .policy = std::move(page.policy)};
}

}  // namespace heed::serve
