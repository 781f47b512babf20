// Reads the words of a command line, and writes the help.
#include <fmt/core.h>

#include <algorithm>

#include "base/nearest_word.h"
#include "cli/console.h"
#include "cli/options.h"

namespace heed::cli {
namespace {

constexpr size_t kWidth = 80;   // columns of the help
constexpr size_t kIndent = 26;  // where descriptions begin

std::string with_dashes(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

// "--beam" and "-x" are options; "-", "-1" and "- a text" are not.
bool looks_like_option(const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return false;
  if (word[1] == '-') return true;
  const bool letter = (word[1] >= 'a' && word[1] <= 'z') || (word[1] >= 'A' && word[1] <= 'Z');
  return letter && word.find(' ') == std::string::npos;
}

// Of "--width": "--model.width or --schedule.width", the shortest first. Empty where there are none.
std::string longer_names(std::string_view name, std::vector<std::string_view> names) {
  const std::string_view word = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::erase_if(names, [&](std::string_view longer) {
    if (word.empty() || longer.size() <= word.size() || !longer.ends_with(word)) return true;
    const char before = longer[longer.size() - word.size() - 1];
    return before != '.' && before != '-';
  });
  std::ranges::stable_sort(names, {}, &std::string_view::size);
  std::string out;
  for (const std::string_view longer : names) out += (out.empty() ? "" : " or ") + std::string(longer);
  return out;
}

// Writes the heading and, from column kIndent on, the words of `text` on as many lines as they need.
void append_entry(std::string& out, const std::string& heading, std::string_view text) {
  std::string line = "  " + heading;
  if (line.size() + 2 > kIndent) {
    out += line + "\n";
    line.clear();
  }
  line.resize(kIndent, ' ');
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (line.size() > kIndent && line.size() + 1 + end > kWidth) {
      out += line + "\n";
      line.assign(kIndent, ' ');
    }
    if (line.size() > kIndent) line += ' ';
    line += text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += line + "\n";
}

}  // namespace

Option& Options::add(std::string name, Variable variable, std::string help) {
  return *options_.emplace_back(
      std::make_unique<Option>(std::move(name), std::move(variable), std::move(help), group_));
}

Options& Options::subcommand(std::string name, std::string help) {
  return *commands_.emplace_back(std::make_unique<Options>(std::move(name), std::move(help), this));
}

std::string Options::full_name() const { return parent_ == nullptr ? name_ : parent_->full_name() + " " + name_; }

Option* Options::find(std::string_view name) {
  const std::string wanted = with_dashes(name);
  for (Options* at = this; at != nullptr; at = at->parent_)
    for (const auto& option : at->options_)
      if (!option->positional() && with_dashes(option->name()) == wanted) return option.get();
  return nullptr;
}

Options& Options::find_subcommand(const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& command : commands_) {
    if (command->name_ == name || (command->other_name_ == name && !name.empty())) return *command;
    names.push_back(command->name_);
  }
  if (parent_ == nullptr) names.insert(names.end(), {"help", "version"});
  const std::string_view nearest = nearest_word(name, names);
  throw UsageError(fmt::format(
      "there is no command {}; {}", in_quotes(name),
      nearest.empty() ? fmt::format("{} --help lists them", full_name()) : fmt::format("did you mean {}?", nearest)));
}

// Which positional argument `word` is.
Option* Options::next_positional(const std::string& word) {
  const Option* last = nullptr;
  for (const auto& option : options_) {
    if (!option->positional()) continue;
    if (!option->given() || option->repeats()) return option.get();
    last = option.get();
  }
  const bool recipe = find("--config") != nullptr && (word.ends_with(".toml") || word.ends_with(".json"));
  if (last == nullptr)
    throw UsageError(fmt::format("only options can follow; found {}{}", in_quotes(word),
                                 recipe ? " (--config reads a recipe)" : ""));
  throw UsageError(fmt::format("only options can follow {}; found {}{}", last->name(), in_quotes(word),
                               last->name() == "TEXT" ? " (put a text of several words in quotes)" : ""));
}

// The full name of the command that `name` is an option of; empty where there is none. Commands that `words` name are
// asked first, then the others in their order.
std::string Options::command_with(const std::string& name, std::span<const std::string> words) const {
  for (const bool named : {true, false}) {
    for (const auto& command : commands_) {
      if (named && std::find(words.begin(), words.end(), command->name_) == words.end()) continue;
      for (const auto& option : command->options_)
        if (!option->positional() && with_dashes(option->name()) == with_dashes(name)) return command->full_name();
      if (std::string below = command->command_with(name, words); !below.empty()) return below;
    }
  }
  return {};
}

void Options::refuse_unknown(const std::string& name, std::span<const std::string> words) const {
  if (const std::string command = command_with(name, words); !command.empty())
    throw UsageError(fmt::format("{} stands after the command: {} {}", escaped(name), command, escaped(name)));
  std::vector<std::string_view> names = {"--help"};
  for (const Options* at = this; at != nullptr; at = at->parent_) {
    for (const auto& option : at->options_)
      if (!option->positional()) names.push_back(option->name());
  }
  if (parent_ == nullptr) names.emplace_back("--version");
  std::string meant(nearest_word(with_dashes(name), names));
  if (meant.empty()) meant = longer_names(with_dashes(name), names);
  throw UsageError(fmt::format(
      "there is no option {}; {}", escaped(name),
      meant.empty() ? fmt::format("{} --help lists them", full_name()) : fmt::format("did you mean {}?", meant)));
}

void Options::check_complete() const {
  const auto is_given = [&](std::string_view name) {
    return std::ranges::any_of(options_, [&](const auto& option) { return option->name() == name && option->given(); });
  };
  for (const Options* at = this; at != nullptr; at = at->parent_)
    for (const auto& option : at->options_) option->check_given(is_given);
}

Options::Parsed Options::parse(std::span<const std::string> words,
                               const std::function<void(const Options&)>& on_command) {
  Options* at = this;
  on_command(*at);
  bool options_end = false;  // after "--" no word is an option
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (options_end || !looks_like_option(word)) {
      if (at->accepts_anything_) continue;
      if (at->commands_.empty()) {
        at->next_positional(word)->set(word);
      } else {
        at = &at->find_subcommand(word);
        on_command(*at);
      }
      continue;
    }
    if (word == "--") {
      options_end = true;
      continue;
    }
    if (word == "--help" || word == "-h") return {.command = at, .wants_help = true};
    if (at->accepts_anything_) continue;
    if (at == this && (word == "--version" || word == "-V")) return {.command = at, .wants_version = true};
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    Option* const option = at->find(name);
    if (option == nullptr) at->refuse_unknown(name, words);
    if (option->is_flag()) {
      if (equals != std::string::npos)
        throw UsageError(fmt::format("{} takes no value; found {}", name, escaped(word)));
      option->set("");
    } else if (equals != std::string::npos) {
      option->set(word.substr(equals + 1));
    } else {
      if (i + 1 == words.size()) option->refuse("nothing");
      if (words[i + 1].starts_with("--") && words[i + 1].size() > 2)
        option->refuse(fmt::format("the option {} (write {}=VALUE for a value that begins with --)",
                                   escaped(words[i + 1]), option->name()));
      option->set(words[++i]);
    }
  }
  if (!at->commands_.empty()) return {.command = at, .lacks_command = true};
  at->check_complete();
  return {.command = at};
}

std::string Options::usage() const {
  std::string out = "Usage: " + full_name();
  if (!commands_.empty()) return out + " COMMAND [options]";
  for (const auto& option : options_)
    if (option->positional()) out += option->is_required() ? " " + option->heading() : " [" + option->heading() + "]";
  for (const auto& option : options_)
    if (!option->positional() && option->is_required()) out += " " + option->heading();
  return out + " [options]";
}

std::string Options::help() const {
  std::string out = help_ + "\n\n" + usage() + "\n";
  if (!commands_.empty()) out += "\nCommands:\n";
  for (const auto& command : commands_) append_entry(out, command->name_, command->help_);
  std::vector<std::pair<std::string, std::string>> groups;  // in the order of their first options
  for (const Options* at = this; at != nullptr; at = at->parent_) {
    for (const auto& option : at->options_) {
      if (option->name() == "--json" && at != this && !has_json_ && commands_.empty()) continue;  // it would be refused
      const std::string title = option->positional() ? "Arguments" : option->group();
      auto place = std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == title; });
      if (place == groups.end()) place = groups.insert(groups.end(), {title, ""});
      append_entry(place->second, option->heading(), option->description());
    }
  }
  for (const auto& [title, entries] : groups) out += "\n" + title + ":\n" + entries;
  return footer_.empty() ? out : out + "\n" + footer_;
}

}  // namespace heed::cli
