// The options of a command, each declared once: its variable, its name, what it takes and what it means.
//
//   options.add("MODEL", o->model, "Folder of a model").required();
//   options.add("--beam", o->beam, "Hypotheses to keep; 1 is greedy search").range(1, 1000);
//   options.choose("--too-long", o->too_long, {{"cut", TooLong::cut}, {"refuse", TooLong::refuse}}, "Long lines");
//   options.flag("--scores", o->scores, "Write the score before the text");
//
// A name that begins with "--" is an option, any other name a positional argument. The value that the variable has when
// it is declared is the default, and the help shows it. "_" and "-" are the same in names of options.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace heed::cli {

struct Context;

// A command line that cannot be understood: exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr int64_t kMany = int64_t{1} << 30;  // more than anyone means

// One of a few words, which stand for values of some type.
struct Choice {
  std::vector<std::string> words;
  std::function<void(size_t)> set;  // the word of this number was chosen
};
using Action = std::function<void(const std::string& value)>;

// Where a value goes.
using Variable = std::variant<bool*, int*, int64_t*, float*, double*, std::string*, std::vector<std::string>*,
                              std::optional<int64_t>*, std::optional<uint64_t>*, std::optional<float>*,
                              std::optional<double>*, std::optional<std::string>*, Choice, Action>;

class Option {
 public:
  Option(std::string name, Variable variable, std::string help, std::string group);

  Option& required();
  Option& takes(std::string what);                   // the value's name in the help: FILE, DIR, TEXT
  Option& range(double least, double most = kMany);  // of a number, both included
  Option& one_of(std::vector<std::string> words);    // of a text
  Option& allows(std::string values);                // says in the help what another part of heed checks
  Option& shows(std::string default_text);           // as the default, instead of the variable's value
  // By their names: this option does nothing without that one, or with one of those, and is refused then.
  Option& needs(std::string other);
  Option& excludes(std::vector<std::string> others);

  // Throws UsageError unless `text` is a value of this option.
  void set(const std::string& text);
  // Throws UsageError where it is required and was not given, or was given and would do nothing.
  void check_given(const std::function<bool(std::string_view other)>& is_given) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& group() const { return group_; }
  [[nodiscard]] bool positional() const { return !name_.starts_with("--"); }
  [[nodiscard]] bool is_flag() const { return std::holds_alternative<bool*>(variable_); }
  [[nodiscard]] bool repeats() const { return std::holds_alternative<std::vector<std::string>*>(variable_); }
  [[nodiscard]] bool given() const { return given_; }
  [[nodiscard]] bool is_required() const { return required_; }
  [[nodiscard]] std::string heading() const;      // "--beam N"
  [[nodiscard]] std::string description() const;  // the help, the range and the default
  // "a whole number from 1 to 1000". The largest number of all, which is more than anyone means, is only named to those
  // who passed it.
  [[nodiscard]] std::string expected(bool names_the_most = false) const;
  // "--beam takes a whole number from 1 to 1000; found <found>"
  [[noreturn]] void refuse(std::string_view found, bool is_above = false) const;

 private:
  std::string name_, help_, group_, takes_, allowed_, default_, needs_;
  std::vector<std::string> excludes_;
  Variable variable_;
  std::vector<std::string> words_;
  double least_, most_;
  bool has_range_ = false, required_ = false, given_ = false;
};

// The options, the sub-commands and the help of one command.
class Options {
 public:
  Options(std::string name, std::string help, Options* parent = nullptr)
      : name_(std::move(name)), help_(std::move(help)), parent_(parent) {}

  // References stay valid.
  Option& add(std::string name, Variable variable, std::string help);
  template <class T>
  Option& add(std::string name, T& variable, std::string help) {
    return add(std::move(name), Variable(&variable), std::move(help));
  }
  Option& flag(std::string name, bool& variable, std::string help) {
    return add(std::move(name), Variable(&variable), std::move(help));
  }
  template <class E>
  Option& choose(std::string name, E& variable, std::initializer_list<std::pair<const char*, E>> choices,
                 std::string help) {
    Choice choice;
    std::string current;
    std::vector<E> values;
    for (const auto& [word, value] : choices) {
      choice.words.emplace_back(word);
      values.push_back(value);
      if (value == variable) current = word;
    }
    choice.set = [&variable, values](size_t chosen) { variable = values[chosen]; };
    return add(std::move(name), Variable(std::move(choice)), std::move(help)).shows(current);
  }
  void group(std::string title) { group_ = std::move(title); }  // of the options declared from here on
  void footer(std::string text) { footer_ = std::move(text); }
  void also_called(std::string name) { other_name_ = std::move(name); }  // another name, which the help does not list
  void accept_anything() { accepts_anything_ = true; }  // of a command that only says why it cannot run
  void shares_work() { shares_work_ = true; }           // several processes can run it together
  void has_json() { has_json_ = true; }                 // --json changes what the command writes
  void on_run(std::function<int(Context&)> run) { run_ = std::move(run); }
  Options& subcommand(std::string name, std::string help);

  struct Parsed {
    Options* command = nullptr;
    bool wants_help = false, wants_version = false;
    bool lacks_command = false;  // one of the command's own commands has to follow
  };
  // Sets the variables. Throws UsageError; `on_command` has then been told which command the words belong to.
  [[nodiscard]] Parsed parse(std::span<const std::string> words, const std::function<void(const Options&)>& on_command);

  [[nodiscard]] std::string help() const;
  [[nodiscard]] std::string full_name() const;  // "heed bench attention"
  [[nodiscard]] bool works_in_ranks() const { return shares_work_; }
  [[nodiscard]] bool writes_json() const { return has_json_; }
  [[nodiscard]] int run(Context& context) const { return run_(context); }

 private:
  [[nodiscard]] Option* find(std::string_view name);  // here, or among the common options of a parent
  [[nodiscard]] Options& find_subcommand(const std::string& name);
  [[nodiscard]] Option* next_positional(const std::string& word);
  [[nodiscard]] std::string usage() const;
  [[nodiscard]] std::string command_with(const std::string& name, std::span<const std::string> words) const;
  [[noreturn]] void refuse_unknown(const std::string& name, std::span<const std::string> words) const;
  void check_complete() const;

  std::string name_, other_name_, help_, footer_, group_ = "Options";
  Options* parent_;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<std::unique_ptr<Options>> commands_;
  std::function<int(Context&)> run_;
  bool shares_work_ = false, has_json_ = false, accepts_anything_ = false;
};

}  // namespace heed::cli
