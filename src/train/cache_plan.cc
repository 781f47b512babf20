#include "train/cache_plan.h"

#include <utility>

#include "heed/error.h"
#include "train/token_file.h"

namespace heed::train {

namespace {

using io::Json;

constexpr std::string_view kPlanMagic = "heed-token-cache 1 ";
constexpr int64_t kMostCachedParts = 1'000'000;

Json json_of(const files::Checksum& checksum) { return {{"bytes", checksum.size}, {"crc32", checksum.crc}}; }

// Values of a document that may hold anything.
class Checked {
 public:
  explicit Checked(std::string name) : name_(std::move(name)) {}

  void require(bool ok, std::string_view what) const { heed::require(ok, kTokenCache, name_, ": ", what); }
  [[nodiscard]] const Json& member(const Json& object, const std::string& key) const {
    require(object.is_object() && object.contains(key), "the key " + key + "; found none");
    return object[key];
  }
  [[nodiscard]] const Json& list(const Json& object, const std::string& key) const {
    const Json& value = member(object, key);
    require(value.is_array(), key + ": a list; found something else");
    return value;
  }
  [[nodiscard]] int64_t within(const Json& value, std::string_view what, int64_t low, int64_t high) const {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) &&
                      value.get<int64_t>() >= low && value.get<int64_t>() <= high;
    require(fits, std::string(what) + ": a number from " + std::to_string(low) + " to " + std::to_string(high) +
                      "; found another value");
    return value.get<int64_t>();
  }
  [[nodiscard]] int64_t number(const Json& object, const std::string& key, int64_t low = 0,
                               int64_t high = INT64_MAX) const {
    return within(member(object, key), key, low, high);
  }
  [[nodiscard]] files::Checksum checksum(const Json& object) const {
    return {.size = number(object, "bytes"), .crc = static_cast<uint32_t>(number(object, "crc32", 0, UINT32_MAX))};
  }

 private:
  std::string name_;
};

}  // namespace

std::string to_text(const CachePlan& plan) {
  Json json = {{"texts", Json::array()},
               {"part_bytes", plan.part_bytes},
               {"lines", plan.lines},
               {"parts", Json::array()},
               {"split", plan.split},
               {"held_back", plan.held_back ? json_of(*plan.held_back) : Json()},
               {"vocabulary", plan.vocabulary},
               {"tokenizers", Json::object()},
               {"fingerprint", plan.fingerprint}};
  for (const CachePlan::File& file : plan.texts) {
    Json text = json_of(file.checksum);
    text["path"] = file.path;
    text["modified"] = file.modified;
    json["texts"].push_back(std::move(text));
  }
  for (const auto& place : plan.parts) json["parts"].push_back({place.line, place.source, place.target});
  for (const auto& [side, checksum] : plan.tokenizers) json["tokenizers"][side] = json_of(checksum);
  const std::string text = io::json_text(json, 1) + "\n";
  const files::Checksum sum{.size = static_cast<int64_t>(text.size()), .crc = files::crc32(text)};
  return std::string(kPlanMagic) + files::to_string(sum) + "\n" + text;
}

CachePlan plan_from_text(std::string_view text, const std::string& name) {
  const Checked checked(name);
  const size_t end = text.find('\n');
  checked.require(text.starts_with(kPlanMagic) && end != std::string_view::npos,
                  "a first line that begins with \"" + std::string(kPlanMagic) + "\"; found another");
  const std::string_view rest = text.substr(end + 1);
  const files::Checksum sum{.size = static_cast<int64_t>(rest.size()), .crc = files::crc32(rest)};
  checked.require(text.substr(kPlanMagic.size(), end - kPlanMagic.size()) == files::to_string(sum),
                  "text with the checksum of its first line; it is damaged");
  const auto [json, problem] = io::parse_json(rest);
  checked.require(problem.empty(), "JSON; found " + problem);

  CachePlan plan;
  for (const Json& entry : checked.list(json, "texts")) {
    const Json& path = checked.member(entry, "path");
    checked.require(path.is_string(), "path: text; found something else");
    plan.texts.push_back({.path = path.get<std::string>(),
                          .modified = checked.number(entry, "modified", INT64_MIN),
                          .checksum = checked.checksum(entry)});
  }
  plan.part_bytes = checked.number(json, "part_bytes", 1);
  plan.lines = checked.number(json, "lines", 1);
  const Json& parts = checked.list(json, "parts");
  checked.require(!parts.empty() && static_cast<int64_t>(parts.size()) <= kMostCachedParts,
                  "1 to 1,000,000 parts; found " + std::to_string(parts.size()));
  for (const Json& entry : parts) {
    checked.require(entry.is_array() && entry.size() == 3, "parts: lists of three numbers; found something else");
    const TrainingText::Place before = plan.parts.empty() ? TrainingText::Place{.line = -1} : plan.parts.back();
    plan.parts.push_back({.line = checked.within(entry[0], "the first line of a part", before.line + 1, plan.lines - 1),
                          .source = checked.within(entry[1], "the begin of a part", before.source, INT64_MAX),
                          .target = checked.within(entry[2], "the begin of a part", before.target, INT64_MAX)});
  }
  checked.require(plan.parts[0].line == 0, "a first part that begins with the first line; found another");
  plan.split = checked.member(json, "split");
  const Json& held_back = checked.member(json, "held_back");
  if (!held_back.is_null()) plan.held_back = checked.checksum(held_back);
  plan.vocabulary = checked.member(json, "vocabulary");
  const Json& tokenizers = checked.member(json, "tokenizers");
  checked.require(tokenizers.is_object(), "tokenizers: a table; found something else");
  for (const auto& [side, checksum] : tokenizers.items()) plan.tokenizers[side] = checked.checksum(checksum);
  const Json& fingerprint = checked.member(json, "fingerprint");
  checked.require(fingerprint.is_number_unsigned(), "fingerprint: a number of 0 or more; found something else");
  plan.fingerprint = fingerprint.get<uint64_t>();
  return plan;
}

}  // namespace heed::train
