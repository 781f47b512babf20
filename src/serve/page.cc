#include "serve/page.h"

#include "base/sha256.h"
#include "inspect/page.h"

namespace heed::serve {
namespace {

constexpr std::string_view kSkeleton = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{title}}</title>
<style>{{style}}</style>
</head>
<body>
<h1>heed</h1>
<ul id="models"></ul>
<script>{{script}}</script>
</body>
</html>
)";

constexpr std::string_view kStyle = "body{font:16px system-ui,sans-serif;margin:2rem}";

// The token stays in the fragment, which browsers do not send.
constexpr std::string_view kScript = R"(
const token = new URLSearchParams(location.hash.slice(1)).get('token');
const headers = token ? {Authorization: 'Bearer ' + token} : {};
fetch('/api/v1/models', {headers}).then((answer) => answer.json()).then((answer) => {
  for (const model of answer.models || [{name: answer.error}]) {
    const item = document.createElement('li');
    item.textContent = model.name;
    document.getElementById('models').append(item);
  }
});
)";

}  // namespace

Page live_page() {
  Page page;
  page.html = inspect::make_page({.skeleton = kSkeleton,
                                  .title = "heed",
                                  .style = std::string(kStyle),
                                  .script = std::string(kScript),
                                  .record = "",
                                  .drawing = ""});
  page.policy =
      "default-src 'none'; script-src '" + sha256_source(kScript) + "'; style-src '" + sha256_source(kStyle) +
      "'; connect-src 'self'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  return page;
}

}  // namespace heed::serve
