// The requests by name; each is a function of its arguments.
#include "serve/api.h"

#include "heed/error.h"
#include "serve/long_text.h"
#include "serve/run.h"
#include "serve/stop.h"
#include "serve/views.h"

namespace heed::serve {

// What an Api computes with.
struct Computing {
  Models models;
  LongTexts long_texts = {};
};

namespace {

using nlohmann::json;

// Members of every request about a reading.
#define HEED_TEXT "model", "text", "source", "target", "source_language", "target_language"
#define HEED_READING HEED_TEXT, "changes"

Reply as_reply(const json& value) {
  return {.type = "application/json", .body = value.dump(-1, ' ', false, json::error_handler_t::replace)};
}

std::shared_ptr<const Served> model_of(Models& models, const Arguments& request) {
  return models.at(request.integer("model", 0, int64_t{1} << 30));
}

// A request about a reading: its arguments, and what answers it.
using AnswerTo = Reply (*)(Computing& all, const Arguments& request);

template <class View>
Reply about_reading(Computing& all, const Arguments& request, View&& view) {
  return view(reading_of(model_of(all.models, request), request));
}

struct Request {
  const char* name;
  Kind kind;
  std::vector<std::string_view> members;
  AnswerTo answer;
};

const std::vector<Request>& requests() {
  static const std::vector<Request> kRequests = {
      {"models",
       Kind::get,
       {},
       [](Computing& all, const Arguments&) {
         return as_reply({{"models", all.models.list()}, {"heed", HEED_VERSION}});
       }},
      {"training",
       Kind::get,
       {"model", "after"},
       [](Computing& all, const Arguments& a) {
         return as_reply(
             all.models.training(a.integer("model", 0, int64_t{1} << 30), a.integer("after", 0, int64_t{1} << 40, 0)));
       }},
      {"tokenize",
       Kind::post,
       {"model", "text", "side", "source_language", "target_language"},
       [](Computing& all, const Arguments& a) { return as_reply(tokenize(*model_of(all.models, a), a)); }},
      {"run",
       Kind::stream,
       {HEED_READING, "beam", "length_penalty", "temperature", "top_k", "top_p", "min_p", "seed", "max_tokens",
        "prefix", "target_text", "ignore_end"},
       nullptr},
      {"attention",
       Kind::post,
       {HEED_READING, "parts", "layers", "heads", "dtype"},
       [](Computing& all, const Arguments& a) {
         return about_reading(all, a, [&](const Reading& r) { return attention(r, a); });
       }},
      {"next",
       Kind::post,
       {HEED_READING, "position", "count", "temperature", "top_k", "top_p", "min_p"},
       [](Computing& all, const Arguments& a) {
         return about_reading(all, a, [&](const Reading& r) { return as_reply(next_tokens(r, a)); });
       }},
      {"beam",
       Kind::post,
       {"model", "text", "source", "source_language", "target_language", "beam", "length_penalty", "max_tokens"},
       [](Computing& all, const Arguments& a) { return as_reply(beam_tree(*model_of(all.models, a), a)); }},
      {"explain",
       Kind::post,
       {HEED_READING, "part", "layer", "head", "row", "column"},
       [](Computing& all, const Arguments& a) {
         return about_reading(all, a, [&](const Reading& r) { return as_reply(explain(r, a)); });
       }},
      {"layers",
       Kind::post,
       {HEED_READING, "position", "count"},
       [](Computing& all, const Arguments& a) {
         return about_reading(all, a, [&](const Reading& r) { return as_reply(layers(r, a)); });
       }},
      {"experiment",
       Kind::post,
       {HEED_READING, "search"},
       [](Computing& all, const Arguments& a) {
         return about_reading(all, a, [&](const Reading& r) { return as_reply(experiment(r, a)); });
       }},
      {"map",
       Kind::post,
       {HEED_TEXT, "part", "layer", "head", "rows", "columns", "size", "largest"},
       [](Computing& all, const Arguments& a) {
         return about_reading(all, a, [&](const Reading& r) { return all.long_texts.map(r, a); });
       }},
      {"row",
       Kind::post,
       {HEED_TEXT, "part", "layer", "head", "row", "count"},
       [](Computing& all, const Arguments& a) {
         return about_reading(all, a, [&](const Reading& r) { return as_reply(all.long_texts.row(r, a)); });
       }},
      {"page",
       Kind::post,
       {HEED_READING, "heading"},
       [](Computing& all, const Arguments& a) {
         return about_reading(all, a, [&](const Reading& r) { return page(r, a); });
       }},
  };
  return kRequests;
}

const Request* find_request(std::string_view name) {
  for (const Request& one : requests())
    if (name == one.name) return &one;
  return nullptr;
}

}  // namespace

Api::Api(const std::vector<std::filesystem::path>& folders)
    : computing_(std::make_unique<Computing>(Computing{.models = Models(folders)})) {}
Api::~Api() = default;

Kind Api::kind(std::string_view name) const {
  const Request* const request = find_request(name);
  return request == nullptr ? Kind::unknown : request->kind;
}

Reply Api::call(std::string_view name, const json& object, const std::function<bool()>& stop) {
  const Request* const request = find_request(name);
  require(request != nullptr && request->answer != nullptr, "serve", "the name of a request; found ", name);
  const StopScope scope(stop);
  return request->answer(*computing_, Arguments(object, request->members));
}

std::unique_ptr<Service::Stream> Api::stream(std::string_view name, const json& object) {
  const Request* const request = find_request(name);
  require(request != nullptr && request->kind == Kind::stream, "serve", "the name of a stream; found ", name);
  const Arguments arguments(object, request->members);
  return start_run(model_of(computing_->models, arguments), arguments);
}

std::vector<std::string> Api::lines() const { return computing_->models.lines(); }

}  // namespace heed::serve
