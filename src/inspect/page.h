// Pages put together from the files of page/.
#pragma once

#include <string>
#include <string_view>

namespace heed::inspect {

struct PageParts {
  std::string_view skeleton;  // HTML with {{title}}, {{style}}, {{style-hash}}, {{script}}, {{script-hash}}, {{record}}
  std::string title;          // plain text
  std::string style;
  std::string script;
  std::string record;   // JSON, safe inside <script>
  std::string drawing;  // markup of our own making, for {{drawing}}
};

// What is put in is not searched for marks again: token text may say "{{script}}".
[[nodiscard]] std::string make_page(const PageParts& parts);

// The page of `heed serve`: the views of to_html() without a record, and what asks the server for one.
struct LivePage {
  std::string html;
  std::string policy;  // the value of Content-Security-Policy that it is sent with
};
[[nodiscard]] LivePage live_page();

}  // namespace heed::inspect
