#include "cli/errors.h"

#include <algorithm>

namespace heed::cli {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
}

// The length of "[function] " at the start of `text`, or 0.
size_t function_size(std::string_view text) {
  if (!text.starts_with('[')) return 0;
  const size_t close = static_cast<size_t>(std::find_if_not(text.begin() + 1, text.end(), is_name) - text.begin());
  return close > 1 && text.substr(close, 2) == "] " ? close + 2 : 0;
}

// Removes the names of functions. They stand at the beginning, and where one message contains another.
std::string without_functions(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (out.empty() || out.ends_with(": ") || out.ends_with("; ")) text.remove_prefix(function_size(text));
    if (text.empty()) break;
    out += text[0];
    text.remove_prefix(1);
  }
  return out;
}

// The position of the last `wanted` (the first one with `first`) before `end` and outside of quotes, or npos.
size_t find_outside_quotes(std::string_view text, std::string_view wanted, size_t end, bool first) {
  size_t found = std::string_view::npos;
  bool quoted = false;
  for (size_t i = 0; i < end; ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted || text.substr(i, wanted.size()) != wanted) continue;
    found = i;
    if (first) break;
  }
  return found;
}

// The library quotes "x", the command line 'x'. Quotes inside of JSON stay, and so does what has a quote in it.
std::string with_single_quotes(std::string text) {
  for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; ++at) {
    const size_t end = text.find('"', at + 1);
    if (end == std::string::npos) break;
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '(';
    const std::string_view inside = std::string_view(text).substr(at + 1, end - at - 1);
    if (begins && inside.find_first_of("'\\") == std::string_view::npos) text[at] = text[end] = '\'';
    at = end;
  }
  return text;
}

// The message with the verb that it lacks.
std::string with_verb(std::string plain) {
  const size_t end = std::min(find_outside_quotes(plain, "; ", plain.size(), true), plain.size());
  const size_t colon = find_outside_quotes(plain, ": ", end, false);
  const size_t begin = colon == std::string::npos ? 0 : colon + 2;
  // "x": a file that can be read; No such file -> "x" cannot be read: No such file
  constexpr std::string_view kCan = " that can be ";
  const size_t can = plain.find(kCan, begin);
  if (colon != std::string::npos && can < end && end < plain.size()) {
    const std::string done = plain.substr(can + kCan.size(), end - can - kCan.size());
    return plain.substr(0, colon) + " cannot be " + done + ": " + plain.substr(end + 2);
  }
  return plain.insert(begin, "expected ");
}

}  // namespace

std::string plain_message(std::string_view text) {
  std::string plain = without_functions(text);
  return function_size(text) == 0 ? plain : with_single_quotes(with_verb(std::move(plain)));
}

std::string_view hint_for(std::string_view command, std::string_view text) {
  const auto says = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  if (says("o space left") && !text.starts_with("standard output"))
    return command == "heed train" ? "free some space; if there is a checkpoint, --resume goes on from it"
                                   : "free some space";
  if (says("a folder that can be made") && (command == "heed train" || command == "heed average"))
    return says("token_cache") ? "name another folder with --token-cache" : "name another folder with --output";
  if (says("a folder without a training")) return "go on with --resume, or name another folder";
  if (says("a folder without files of a model"))
    return "name another folder, or go on with --resume if a training was stopped there";
  if (says("a folder without a model")) return "name another folder; --from trains that model further";
  if (says("tokens that the model reads") && command == "heed translate")
    return "--too-long split translates it sentence by sentence";
  if (says("tokens that the model reads") &&
      (command == "heed inspect" || command == "heed embed" || command == "heed classify"))
    return "--too-long cut reads the beginning";
  if (says("a target_language, because the model writes several")) return "--target-language names it";
  if (says("found a decoder-only model")) return "heed generate continues text with it";
  if (says("found an encoder-decoder")) return "heed translate runs it";
  if (says("found an encoder-only model") && command == "heed evaluate") return "--text evaluates it on texts";
  if (says("found an encoder-only model")) return "heed embed makes vectors of texts with it";
  if (says("found a model that guesses masked tokens")) return "heed fill guesses words with it";
  if (says("found a model that tells classes of texts")) return "heed classify tells them";
  if (says("found a model that tells classes of tokens")) return "heed classify --tokens tells them";
  if (says("found a model that finds answers")) return "heed answer finds them";
  if (says("found a model that gives states only")) return "heed embed makes vectors of texts with it";
  return {};
}

std::string_view hint_for_memory(std::string_view command) {
  if (command == "heed train" || command == "heed translate" || command == "heed evaluate")
    return "a smaller --batch-tokens needs less";
  if (command == "heed inspect") return "a shorter text needs less";
  return {};
}

}  // namespace heed::cli
