#include "cli/line_job.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "cli/errors.h"
#include "cli/input_lines.h"
#include "cli/line_output.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/warnings.h"
#include "distributed/agreement.h"
#include "heed/error.h"
#include "heed/io.h"
#include "models/weights.h"

namespace heed::cli {
namespace {

// The command line without what may differ among ranks.
std::string options_to_compare(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--threads") {
      ++i;
    } else if (word != "--quiet" && !word.starts_with("--threads=")) {
      text += word + '\n';
    }
  }
  return text;
}

std::string command_line(const Context& context) {
  std::string text = "heed";
  for (const std::string& word : context.words) text += " " + for_shell(word);
  return mpirun_command(text);
}

// Where lines come from: an input, or one text.
class LineSource {
 public:
  explicit LineSource(const LineJob& job) : text_name_(job.text_name) {
    if (job.text) {
      text_ = *job.text;
    } else {
      input_.emplace(job.input);
    }
  }
  [[nodiscard]] std::vector<std::string> read(size_t most, bool wait) {
    if (input_) return input_->next(most, wait);
    if (!text_) return {};
    std::vector<std::string> one = {*text_};
    text_.reset();
    return one;
  }
  [[nodiscard]] bool ended() const { return input_ ? input_->ended() : !text_; }
  [[nodiscard]] bool is_terminal() const { return input_ && input_->is_terminal(); }
  [[nodiscard]] std::string name() const { return input_ ? input_->name() : text_name_; }

 private:
  std::optional<InputLines> input_;
  std::optional<std::string> text_;
  std::string text_name_;
};

// "standard input, line 3". Only rank 0 has opened the input, and all ranks can say where a text stands.
std::string name_of_line(const LineJob& job, int64_t line) {
  if (job.text) return job.text_name;
  const std::string name = job.input.empty() || job.input == "-" ? "standard input" : job.input;
  return fmt::format("{}, line {}", name, line + 1);
}

// What is written must not become the input.
void require_another_file(const LineJob& job, const LineOptions& o) {
  if (o.resume_output.empty() || job.text) return;
  const std::string input = job.input.empty() || job.input == "-" ? "/dev/stdin" : job.input;
  std::error_code ignored;
  if (std::filesystem::equivalent(input, o.resume_output, ignored))
    throw UsageError(fmt::format("--resume-output takes another file than the input; found {} for both",
                                 in_quotes(o.resume_output)));
}

// Passes over the lines that an earlier run has answered. Does the last ones again: they show whether this is the same
// work. (Nothing else is stored, and one batch takes no time.)
void skip_answered(const LineJob& job, LineSource& source, LineOutput& output) {
  constexpr size_t kAtOnce = 4096;
  const int64_t answered = output.lines_before();
  pipelines::LineBatch last;
  int64_t count = 0;
  while (count < answered) {
    std::vector<std::string> lines = source.read(std::min(kAtOnce, static_cast<size_t>(answered - count)), true);
    if (lines.empty()) {
      if (stop_requested().load()) return;
      throw Error(fmt::format("{}: expected at most as many lines as {} has, {}; found {}", in_quotes(output.name()),
                              source.name(), count, answered));
    }
    count += static_cast<int64_t>(lines.size());
    last.lines.insert(last.lines.end(), lines.begin(), lines.end());
    const size_t kept = std::min(last.lines.size(), output.last_lines().size());
    last.lines.erase(last.lines.begin(), last.lines.end() - static_cast<std::ptrdiff_t>(kept));
  }
  last.first = answered - static_cast<int64_t>(last.lines.size());
  last.text = {.too_long = job.too_long, .on_warning = {}, .name = [&](int64_t place) {
                 return name_of_line(job, last.first + place);
               }};
  last.stop = [] { return stop_requested().load(); };
  last.on_done = [](int64_t) {};
  int64_t line = last.first;
  job.work(last, [&](const std::string& made) {
    if (last.stop()) return;
    if (made != output.last_lines()[static_cast<size_t>(line - last.first)])
      throw UsageError(fmt::format(
          "--resume-output: line {} of {} is not what this command makes of that line; was it begun with another "
          "input, model or options?",
          line + 1, in_quotes(output.name())));
    ++line;
  });
  if (line == answered) output.accept();
}

// Rank 0's side of a job: everything that one process does alone.
pipelines::SharedLines shared_lines(const LineJob& job, const LineOptions& o) {
  pipelines::SharedLines shared;
  shared.work = job.work;
  shared.too_long = job.too_long;
  shared.largest = job.largest;
  shared.patience = o.peer_timeout;
  shared.on_loss = [](const std::string& what) {
    warn(fmt::format("{}; other ranks do its work", plain_message(what)));
  };
  return shared;
}

}  // namespace

void add_peer_timeout(Options& options, LineOptions& o) {
  options
      .add("--peer-timeout", o.peer_timeout,
           "With mpirun: seconds that a process may take for its part before another does it too. 0: for ever")
      .range(0);
  options.shares_work();
}

void add_line_options(Options& options, LineOptions& o) {
  options
      .add("--resume-output", o.resume_output,
           "Append to this file: if it has N lines, the first N lines of the input are skipped")
      .takes("FILE");
  add_peer_timeout(options, o);
}

void require_same_work(const models::Model& model, std::initializer_list<const text::Tokenizer*> tokenizers,
                       const LineOptions& o, const Context& context) {
  if (!several_processes()) return;
  distributed::Communicator& all = ranks();
  all.set_timeout(o.peer_timeout);
  set_way_to_go_on(o.resume_output.empty() ? "" : command_line(context));
  distributed::require_agreement(all, "version of heed", distributed::hash_of(HEED_VERSION));
  distributed::require_agreement(all, "options", distributed::hash_of(options_to_compare(context.words)));
  std::string folder = models::to_json(model.config()) + models::checksum(models::tensors_of(model));
  for (const text::Tokenizer* const tokenizer : tokenizers)
    for (int32_t id = 0; id < tokenizer->vocabulary(); ++id) folder += tokenizer->piece(id) + '\n';
  distributed::require_agreement(all, "model", distributed::hash_of(folder));
}

int run_lines(const LineJob& job, const LineOptions& o, const Context& context) {
  install_signal_handlers(several_processes());
  pipelines::SharedLines shared = shared_lines(job, o);
  shared.name = [&](int64_t line) { return name_of_line(job, line); };
  if (!leads()) {
    shared.stop = [] { return stop_requested().load(); };
    (void)pipelines::share_lines(ranks(), shared);
    return stop_requested().load() ? interrupted_status() : kSuccess;
  }
  if (o.resume_output == "-") throw UsageError("--resume-output takes a file; found -");
  LineSource source(job);
  if (source.is_terminal()) message(context, job.tells);
  require_another_file(job, o);
  LineOutput output(o.resume_output);
  TextWarnings warnings(shared.name);
  const TextOptions heard = warnings.options(job.too_long);
  ProgressBar bar(0, context.quiet);
  skip_answered(job, source, output);
  shared.first_line = output.lines_before();
  shared.read = [&](size_t most, bool wait) { return source.read(most, wait); };
  shared.ended = [&] { return source.ended(); };
  shared.stop = [&] { return stop_requested().load() || (!output.is_file() && output_is_abandoned()); };
  shared.on_warning = heard.on_warning;
  shared.progress = [&](int64_t done, int64_t read) {
    if (done == read) return hide_progress();
    bar.set_total(source.ended() ? read : 0);
    bar.update(done, job.unit);
  };
  shared.write = [&](int64_t, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) output.write(line);
  };
  if (pipelines::share_lines(ranks(), shared)) return kSuccess;
  if (output.is_file()) message(context, "interrupted; go on with: " + command_line(context));
  return !stop_requested().load() && !output.is_file() && output_is_abandoned() ? kBrokenPipe : interrupted_status();
}

std::vector<std::string> run_lines(const LineJob& job, const std::vector<std::string>& lines,
                                   const std::function<std::string(int64_t line)>& name, const LineOptions& o,
                                   const Context& context) {
  pipelines::SharedLines shared = shared_lines(job, o);
  shared.name = name;
  shared.stop = [] { return false; };
  TextWarnings warnings(name);
  const TextOptions heard = warnings.options(job.too_long);
  shared.on_warning = heard.on_warning;
  ProgressBar bar(static_cast<int64_t>(lines.size()), context.quiet || !leads());
  size_t taken = 0;
  shared.read = [&](size_t most, bool) {
    const size_t begin = taken;
    taken = std::min(lines.size(), taken + most);
    return std::vector<std::string>(lines.begin() + static_cast<std::ptrdiff_t>(begin),
                                    lines.begin() + static_cast<std::ptrdiff_t>(taken));
  };
  shared.ended = [&] { return taken == lines.size(); };
  shared.progress = [&](int64_t done, int64_t) { bar.update(done, job.unit); };
  std::vector<std::string> made;
  shared.write = [&](int64_t, const std::vector<std::string>& outputs) {
    made.insert(made.end(), outputs.begin(), outputs.end());
  };
  (void)pipelines::share_lines(ranks(), shared);
  return made;
}

}  // namespace heed::cli
