// heed train: trains what a recipe and options say, into a folder.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "base/files.h"
#include "base/nearest_word.h"
#include "cli/command.h"
#include "cli/errors.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/train.h"

namespace heed::cli {
namespace {

constexpr double kUsualTimeout = 300;  // seconds

struct TrainCommand {
  std::string config, output, data;
  std::vector<std::string> set;
  std::vector<std::pair<std::string, std::string>> keys;  // given as options of their own
  double peer_timeout = kUsualTimeout;
  int64_t context_ranks = 0;
  bool resume = false;
  bool print_recipe = false;
};

struct Change {
  std::string key, value;
  bool own_option = false;  // --batch-tokens, not --set batch_tokens=

  // As it was typed.
  [[nodiscard]] std::string name() const {
    if (!own_option) return "--set " + key;
    std::string name = "--" + key;
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
  }
};

// A message that begins with the key of `change` begins with what was typed instead.
std::string with_typed_name(const std::string& text, const Change& change) {
  return text.starts_with(change.key + ": ") ? change.name() + text.substr(change.key.size()) : text;
}

// What to say where the library refuses `change`: the library names keys, the user typed options.
[[noreturn]] void refuse(const Change& change, const Error& error) {
  const std::vector<train::RecipeField> fields = train::recipe_fields();
  const auto field = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.key == change.key; });
  if (field != fields.end()) {
    std::string expected = field->type == "number" ? "a number" : field->type == "integer" ? "a whole number" : "";
    if (!field->allowed.empty()) expected += (expected.empty() ? "" : ", ") + field->allowed;
    throw UsageError(fmt::format("{} takes {}; found {}", change.name(), expected, in_quotes(change.value)));
  }
  if (std::string_view(error.what()).find("unknown key") == std::string_view::npos)
    throw UsageError(with_typed_name(plain_message(error.what()), change));
  std::vector<std::string_view> keys;
  for (const train::RecipeField& known : fields) keys.emplace_back(known.key);
  const std::string_view nearest = nearest_word(change.key, keys);
  throw UsageError(
      fmt::format("{}: a recipe has no such key; {}", escaped(change.name()),
                  nearest.empty() ? "heed train --help lists them" : fmt::format("did you mean {}?", nearest)));
}

// Says which options give the text. The library asks for keys of a recipe.
void require_text(const train::Recipe& recipe) {
  const bool source = !recipe.train_source.empty(), target = !recipe.train_target.empty();
  if (recipe.task != "translation" && recipe.task != "sentence_embedding") {
    if (!source) throw UsageError("no training text: give --train-source FILE, or a recipe with --config");
  } else if (recipe.pairs.empty() && !source && !target) {
    throw UsageError(
        "no training text: give --pairs FILE, or --train-source and --train-target, or a recipe with --config");
  } else if (recipe.pairs.empty() && source != target) {
    throw UsageError(fmt::format("--train-source and --train-target go together; found only --train-{}",
                                 source ? "source" : "target"));
  }
}

std::vector<Change> changes_of(const TrainCommand& o, const Context& context) {
  std::vector<Change> changes;
  for (const std::string& assignment : o.set) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(fmt::format("--set takes key=value; found {}", in_quotes(assignment)));
    changes.push_back({.key = assignment.substr(0, equals), .value = assignment.substr(equals + 1)});
  }
  for (const auto& [key, value] : o.keys) changes.push_back({.key = key, .value = value, .own_option = true});
  if (context.seed) changes.push_back({.key = "seed", .value = std::to_string(*context.seed), .own_option = true});
  // The task and the preset decide what the model's keys change, so they come first.
  std::stable_partition(changes.begin(), changes.end(),
                        [](const Change& change) { return change.key == "task" || change.key == "preset"; });
  return changes;
}

// Throws where keys do not go together, and one of them was given as an option, which it names.
void check_options(const train::Recipe& recipe, const std::vector<Change>& changes) {
  try {
    train::validate(recipe);
  } catch (const Error& error) {
    const std::string text = plain_message(error.what());
    for (const Change& change : changes)
      if (text.starts_with(change.key + ": ")) throw UsageError(with_typed_name(text, change));
  }
}

train::Recipe make_recipe(const TrainCommand& o, const std::vector<Change>& changes) {
  const auto apply = [&](train::Recipe& recipe) {
    for (const Change& change : changes) {
      try {
        train::set_option(recipe, change.key, change.value);
      } catch (const Error& error) {
        refuse(change, error);
      }
    }
    if (!o.print_recipe || !o.config.empty()) check_options(recipe, changes);
  };
  const auto recorded = std::filesystem::path(o.output) / "recipe.json";
  std::error_code ignored;
  if (!o.config.empty()) return train::read_recipe(o.config, o.data, apply);
  if (o.resume && std::filesystem::exists(recorded, ignored))  // its paths were relative to the current folder
    return train::read_recipe(recorded, o.data.empty() ? "." : o.data, apply);
  if (o.resume && changes.empty() && std::filesystem::exists(std::filesystem::path(o.output) / ".lock", ignored)) {
    throw Error(
        fmt::format("[train] {}: a training with its recipe; found one that ended before it wrote recipe.json: give "
                    "its options again",
                    files::quoted(o.output)));
  }
  train::Recipe recipe;
  train::set_option(recipe, "preset", recipe.preset);  // the preset's sizes become the model's
  apply(recipe);
  return recipe;
}

// The options that are no keys of a recipe.
std::string common_options(const TrainCommand& o, const Context& context) {
  std::string text;
  if (context.threads) text += fmt::format(" --threads {}", *context.threads);
  if (context.quiet) text += " --quiet";
  if (context.json) text += " --json";
  if (o.peer_timeout != kUsualTimeout) text += fmt::format(" --peer-timeout {}", o.peer_timeout);
  if (o.context_ranks > 0) text += fmt::format(" --context-ranks {}", o.context_ranks);
  return text;
}

// The options of a new training, for the command that goes on with it.
std::string as_typed(const TrainCommand& o, const std::vector<Change>& changes) {
  std::string text;
  if (!o.config.empty()) text += " --config " + for_shell(o.config);
  if (!o.data.empty()) text += " --data " + for_shell(o.data);
  for (const Change& change : changes) {
    text += change.own_option ? fmt::format(" {} {}", change.name(), for_shell(change.value))
                              : fmt::format(" --set {}", for_shell(change.key + "=" + change.value));
  }
  return text + " --output " + for_shell(o.output);
}

// The share of the time in which this process waits for others; nothing where it is alone.
std::string waiting_text(const train::Progress& p) {
  return several_processes() ? fmt::format("  waiting {:.0f} %", 100 * p.waiting) : std::string();
}

// "1,234 tokens/s"; the targets of classifiers and regressions are texts.
std::string speed_text(const train::Progress& p, const train::Recipe& recipe) {
  return fmt::format("{} {}/s", with_commas(static_cast<int64_t>(p.tokens_per_second)),
                     recipe.task.starts_with("sequence_")  ? "texts"
                     : recipe.task == "sentence_embedding" ? "pairs"
                                                           : "tokens");
}

// A report beside the bar.
std::string bar_text(const train::Progress& p, const train::Recipe& recipe) {
  return fmt::format("epoch {}  loss {:.4f}  {}", p.epoch, p.loss, speed_text(p, recipe)) + waiting_text(p);
}

// A report on a line of its own.
std::string train_text(const train::Progress& p, const train::Recipe& recipe) {
  std::string text =
      fmt::format("epoch {}  update {}  loss {:.4f}  rate {:.2e}  norm {:.2f}  {}", p.epoch, with_commas(p.update),
                  p.loss, p.learning_rate, p.gradient_norm, speed_text(p, recipe));
  text += waiting_text(p);
  if (several_processes()) text += fmt::format("  sent {:.1f} MB an update", p.bytes_an_update / 1e6);
  return text;
}

std::string valid_text(const train::Progress& p) {
  std::string text = fmt::format("epoch {}  update {}  validation", p.epoch, with_commas(p.update));
  if (p.valid_loss) text += fmt::format("  loss {:.4f}", *p.valid_loss);
  if (p.valid_accuracy) text += fmt::format("  accuracy {:.4f}", *p.valid_accuracy);
  if (p.valid_pearson) text += fmt::format("  Pearson {:.4f}", *p.valid_pearson);
  if (p.valid_spearman) text += fmt::format("  Spearman {:.4f}", *p.valid_spearman);
  if (p.valid_bleu) text += fmt::format("  BLEU {:.2f}", *p.valid_bleu);
  text += fmt::format("  after {}", duration_text(p.seconds));
  if (p.best) text += "  (best so far)";
  return text;
}

std::string_view name_of(train::Outcome outcome) {
  switch (outcome) {
    case train::Outcome::finished: return "finished";
    case train::Outcome::stopped_early: return "stopped_early";
    case train::Outcome::interrupted: return "interrupted";
  }
  return "";
}

// The number of updates of a training that has ended. Its log has it; reports come only every few updates.
int64_t last_update(const std::filesystem::path& folder, int64_t reported) {
  const std::string log = io::read_file(folder / "log.jsonl");
  constexpr std::string_view kKey = "\"update\":";
  const size_t key = log.rfind(kKey);
  int64_t update = reported;
  if (key != std::string::npos) std::from_chars(log.data() + key + kKey.size(), log.data() + log.size(), update);
  return update;
}

int run_train(const TrainCommand& o, Context& context) {
  const std::vector<Change> changes = changes_of(o, context);
  const train::Recipe recipe = make_recipe(o, changes);
  if (o.print_recipe) {
    if (leads()) print_line(train::to_json(recipe));
    return kSuccess;
  }
  if (o.output.empty()) throw UsageError("--output is missing: the folder to train into");
  train::validate(recipe);
  if (!o.resume) require_text(recipe);
  install_signal_handlers(several_processes());
  std::optional<ProgressBar> bar;  // its length is known with the first report
  train::Progress last;
  train::Callbacks callbacks;
  callbacks.stop = &stop_requested();
  callbacks.message = [&](std::string_view text) { message(context, text); };
  callbacks.progress = [&](const train::Progress& p) {
    const bool validation = p.valid_loss || p.valid_bleu;
    last = p;
    if (!bar) bar.emplace(p.max_updates, context.quiet);
    if (validation) {
      message(context, valid_text(p));
    } else if (bar->shown()) {
      bar->update(p.update, bar_text(p, recipe));
    } else {
      message(context, train_text(p, recipe));
    }
  };
  const std::string common = common_options(o, context);
  const std::string resume_command =
      mpirun_command(fmt::format("heed train --output {}{} --resume", for_shell(o.output), common));
  if (several_processes()) {
    // A new run may be lost before it has written its recipe: what was typed goes on with either.
    set_way_to_go_on(o.resume ? resume_command
                              : mpirun_command("heed train" + as_typed(o, changes) + common + " --resume"));
    ranks().set_timeout(o.peer_timeout);
  }
  watch_ranks();
  const train::Outcome outcome =
      train::train(recipe, o.output, o.resume, callbacks, ranks(), static_cast<int>(o.context_ranks));
  if (outcome == train::Outcome::interrupted) {
    if (leads()) message(context, "interrupted, and saved; go on with: " + resume_command);
    return interrupted_status();
  }
  if (!leads()) return kSuccess;
  last.update = last_update(o.output, last.update);
  if (context.json) {
    JsonObject object;
    object.add("outcome", name_of(outcome)).add("folder", o.output).add("updates", last.update);
    print_line(object.add("epochs", last.epoch).add("seconds", last.seconds).text());
  } else {
    message(context,
            fmt::format("{} after {}, {}: {}", outcome == train::Outcome::finished ? "finished" : "stopped early",
                        counted(last.update, "update", "updates"), duration_text(last.seconds), o.output));
  }
  return kSuccess;
}

}  // namespace

void add_train_command(Options& options) {
  auto o = std::make_shared<TrainCommand>();
  options.add("--config", o->config, "Recipe, .toml or .json").takes("FILE");
  options.add("--output", o->output, "Folder that gets the model, its log and its checkpoints").takes("DIR");
  options.add("--data", o->data, "Folder that relative paths in the recipe start from")
      .takes("DIR")
      .shows("the recipe's");
  options.flag("--resume", o->resume, "Go on from the last checkpoint of a training that was begun in the folder");
  options.add("--set", o->set, "Change a key of the recipe; may be repeated").takes("KEY=VALUE");
  options.flag("--print-recipe", o->print_recipe, "Print the whole recipe as JSON and do nothing");
  options
      .add("--peer-timeout", o->peer_timeout,
           "With mpirun: seconds to wait for a process that does not answer. 0: for ever")
      .range(0);
  options
      .add("--context-ranks", o->context_ranks,
           "With mpirun and --context-parallel: how many processes share each sequence: 1, or one for each part. 0: "
           "one for each part where the number of processes allows it, else 1")
      .range(0, 1024);
  for (const train::RecipeField& field : train::recipe_fields()) {
    if (field.key == "seed") continue;  // one of the common options
    options.group(field.key.starts_with("model.")
                      ? "Keys of the model (defaults of the preset \"small\")"
                      : "Keys of the recipe (in a recipe file, write _ for each -: max_updates = 800)");
    std::string name = "--" + field.key;
    std::replace(name.begin(), name.end(), '_', '-');  // --batch_tokens, as recipes write it, is understood too
    const Action set = [o, key = field.key](const std::string& value) { o->keys.emplace_back(key, value); };
    const std::string takes = field.type == "text"      ? "TEXT"
                              : field.type == "integer" ? "N"
                              : field.type == "number"  ? "NUMBER"
                                                        : field.type;
    Option& option = options.add(name, Variable(set), field.help).takes(takes).shows(field.default_text);
    if (field.type != "true|false") option.allows(field.allowed);
  }
  options.footer(
      "Examples:\n"
      "  heed train --config recipes/multi30k-en-de-tiny.toml --output runs/en-de\n"
      "  heed train --output runs/en-de --resume\n"
      "  heed train --pairs cmn-eng.tsv --valid-fraction 0.02 --preset small --output runs/en-zh\n"
      "  heed train --config recipe.toml --output runs/b --schedule.peak 0.001 --set max_updates=500\n"
      "  mpirun -n 4 heed train --config recipe.toml --output runs/c --shards 4\n"
      "Ctrl-C saves and leaves; --resume goes on with the same bits.\n");
  options.shares_work();
  options.has_json();
  options.on_run([o](Context& c) { return run_train(*o, c); });
}

}  // namespace heed::cli
