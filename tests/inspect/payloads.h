// Texts that try to be more than text.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace heed::inspect {

using namespace std::string_literals;

inline const std::vector<std::string>& basic_payloads() {
  static const std::vector<std::string> all = {
      "<script>document.title='ran'</script>",
      "</script><script>document.title='ran'</script>",
      "</ScRiPt ><img src=x onerror=document.title='ran'>",
      "</title><script>document.title='ran'</script>",
      "</style><script>document.title='ran'</script>",
      "<!--",
      "-->",
      "<!--<script>",
      "]]>",
      "<![CDATA[",
      "\" onmouseover=\"document.title='ran'",
      "' onfocus='document.title=1' autofocus='",
      "` onload=`document.title=1`",
      "<svg onload=document.title='ran'>",
      "<svg><foreignObject><body onload=document.title='ran'>",
      "<iframe srcdoc=\"<script>parent.document.title='ran'</script>\">",
      "<base href=//example.com>",
      "<meta http-equiv=refresh content=0;url=//example.com>",
      "<link rel=stylesheet href=//example.com/x.css>",
      "javascript:document.title='ran'",
      "&#x3c;script&#x3e;",
      "&lt;b&gt;",
      "&amp",
      "{{7*7}}",
      "{{script}}",
      "${7*7}",
      "\\u003cscript\\u003e",
      "\\",
      "\\\"",
      "\"},{\"x\":\"",
      "__proto__",
      "constructor",
      "expression(alert(1))",
      "url(//example.com)",
      "\u2028document.title='ran'\u2029",
      "\u202egnp.exe\u202c",
      "\u2066\u2067\u2069\u200f",
      "\ufeff\u200b\u00ad",
      "\x1b]0;ran\x07",
      "\x1b[31m\x1b[2J",
      "\u009b31m",
      "a\0b"s,
      "\0"s,
      "\r\n\t",
      "\x01\x02\x1f\x7f",
      "\xff\xfe",
      "\xc3",
      "\xe2\x82",
      "\xc0\xaf",
      "\xed\xa0\x80",
      "\xf4\x90\x80\x80",
      "\xf0\x9f\x98",
      "\ufffe\uffff",
      "",
      " ",
      "车站",
      "😀👩‍👩‍👧",
      "שלום",
      "e\u0301\u0301\u0301\u0301",
  };
  return all;
}

// `count` texts: the basic ones, then pieces of them joined at random.
inline std::vector<std::string> payloads(size_t count) {
  std::mt19937 random(20);
  std::vector<std::string> all = basic_payloads();
  const std::vector<std::string> basic = all;
  while (all.size() < count) {
    std::string text;
    for (size_t parts = 1 + random() % 4; parts > 0; --parts) {
      const std::string& from = basic[random() % basic.size()];
      const size_t begin = from.empty() ? 0 : random() % from.size();
      text += random() % 2 != 0 ? from : from.substr(begin, random() % 12);
    }
    if (random() % 8 == 0) text += static_cast<char>(random() % 256);
    all.push_back(text);
  }
  all.resize(count);
  return all;
}

}  // namespace heed::inspect
