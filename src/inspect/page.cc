#include "inspect/page.h"

#include <map>

#include "base/sha256.h"
#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/smaller_script.h"
#include "inspect/utf8.h"
#include "page_files.h"

namespace heed::inspect {
namespace {

// What the offline page and the live one share.
std::string views() {
  std::string script;
  for (std::string_view part : {page_files::kModel, page_files::kOverview, page_files::kWords, page_files::kFocus,
                                page_files::kMap, page_files::kLines, page_files::kSave, page_files::kMain})
    script += part;
  return script;
}

}  // namespace

std::string make_page(const PageParts& parts) {
  const std::map<std::string_view, std::string> values = {{"title", escape_html(label(parts.title, 200))},
                                                          {"style", parts.style},
                                                          {"style-hash", sha256_source(parts.style)},
                                                          {"script", parts.script},
                                                          {"script-hash", sha256_source(parts.script)},
                                                          {"record", parts.record},
                                                          {"drawing", parts.drawing}};
  std::string out;
  out.reserve(parts.skeleton.size() + parts.style.size() + parts.script.size() + parts.record.size() +
              parts.drawing.size() + 1024);
  std::string_view rest = parts.skeleton;
  for (size_t open; (open = rest.find("{{")) != std::string_view::npos;) {
    const size_t close = rest.find("}}", open);
    require(close != std::string_view::npos, "inspect::make_page", "a skeleton whose marks are closed");
    const auto value = values.find(rest.substr(open + 2, close - open - 2));
    require(value != values.end(), "inspect::make_page", "a skeleton with known marks");
    out += rest.substr(0, open);
    out += value->second;
    rest.remove_prefix(close + 2);
  }
  out += rest;
  return out;
}

std::string to_html(const Record& record) {
  const std::string script = smaller_script(views() + std::string(page_files::kOffline));
  const std::string& sentence = record.output.empty() ? record.source : record.output;
  return make_page({.skeleton = page_files::kPage,
                    .title = (sentence.empty() ? record.title : sentence) + " · attention",
                    .style = std::string(page_files::kStyle),
                    .script = script,
                    .record = to_json(record),
                    .drawing = ""});
}

LivePage live_page() {
  std::string script = views();
  for (std::string_view part :
       {page_files::kLiveApi, page_files::kLiveRun, page_files::kLiveHeads, page_files::kLiveNext,
        page_files::kLiveBeam, page_files::kLiveExplain, page_files::kLiveLayers, page_files::kLiveExperiments,
        page_files::kLiveCompare, page_files::kLiveTraining, page_files::kLiveMap, page_files::kLiveTourText,
        page_files::kLiveTour, page_files::kLiveShare, page_files::kLiveMain})
    script += part;
  script = smaller_script(script);
  const std::string style = std::string(page_files::kStyle) + std::string(page_files::kLiveStyle);
  return {.html = make_page({.skeleton = page_files::kLivePage,
                             .title = "heed",
                             .style = style,
                             .script = script,
                             .record = "",
                             .drawing = ""}),
          .policy = "default-src 'none'; script-src '" + sha256_source(script) + "'; style-src '" +
                    sha256_source(style) +
                    "'; connect-src 'self'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
                    "frame-ancestors 'none'"};
}

std::string large_page_warning(std::string_view page) {
  constexpr size_t kLarge = 20'000'000, kMegabyte = 1'000'000;
  if (page.size() <= kLarge) return {};
  return "the page has " + std::to_string(page.size() / kMegabyte) +
         " MB: browsers open it slowly, phones not at all. A shorter text or the picture of one head is smaller; from "
         "C++ "
         "and Python, taps (AttentionTaps in heed/attention.h) tell of long texts without keeping their weights";
}

}  // namespace heed::inspect
