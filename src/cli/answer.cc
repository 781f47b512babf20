// heed answer: where a text answers a question.
#include <fmt/core.h>

#include "cli/command.h"
#include "cli/encoder_job.h"
#include "cli/float_types.h"
#include "cli/json.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/pipelines.h"

namespace heed::cli {
namespace {

struct AnswerCommand {
  std::string model, context_file;
  std::optional<std::string> context;
  TextSource source{.name = "QUESTION"};
  AnswerOptions answer;
  WeightFormat weights = WeightFormat::f32;
  LineOptions lines;
};

// A question, and the text that is to answer it.
struct Asked {
  std::string question, context;
};

Asked asked_in(const AnswerCommand& o, const std::string& line, const std::string& name) {
  if (o.context) return {line, *o.context};
  const size_t tab = line.find('\t');
  require(tab != std::string::npos, "answer", name,
          ": a question and a text with a tab between them, or a question and --context; found no tab");
  return {line.substr(0, tab), line.substr(tab + 1)};
}

std::string as_json(const Asked& asked, const std::vector<Answer>& answers) {
  std::vector<JsonObject> list;
  for (const Answer& one : answers)
    list.push_back(JsonObject()
                       .add("answer", one.text)
                       .add("begin", one.span.begin)
                       .add("end", one.span.end)
                       .add("score", one.score));
  return JsonObject().add("question", asked.question).add("answers", list).text() + '\n';
}

std::string as_lines(const std::vector<Answer>& answers) {
  std::string lines;
  for (const Answer& one : answers) lines += fmt::format("{}\t{:.6f}\n", one_field(one.text), one.score);
  return lines;
}

// Thrown between two windows of a long text.
struct Stopped {};

std::string answer_line(const AnswerCommand& o, const Encoder& encoder, const std::string& line, std::string name,
                        bool json) {
  if (is_blank(line)) {
    const std::string question = o.context ? line : line.substr(0, line.find('\t'));
    return json ? as_json({.question = question, .context = ""}, {}) : "\n";
  }
  const Asked asked = asked_in(o, line, name);
  AnswerOptions options = o.answer;
  options.text.name = [&](int64_t text) {
    if (text == 0) return name + ", the question";
    if (!o.context) return name + ", the text";
    return o.context_file.empty() ? std::string("the context") : o.context_file;
  };
  options.on_window = [] {
    if (stop_requested().load()) throw Stopped();
  };
  const std::vector<Answer> answers = encoder.answer(asked.question, asked.context, options);
  return json ? as_json(asked, answers) : as_lines(answers);
}

int run_answer(AnswerCommand& o, Context& context) {
  check_text_source(o.source);
  if (o.context && !o.context_file.empty()) throw UsageError("--context or --context-file can be given; found both");
  if (!o.lines.resume_output.empty() && o.answer.count > 1 && !context.json)
    throw UsageError(
        fmt::format("--resume-output counts a line a question; found --top {} (--json writes one)", o.answer.count));
  if (!o.context_file.empty()) o.context = io::read_file(o.context_file);
  const Encoder encoder = Encoder::load(o.model, o.weights);
  encoder.require_answers();
  require_same_work(encoder.model(), {&encoder.tokenizer()}, o.lines, context);
  LineJob job = encoder_job(o.source, [&](std::span<const std::string> lines, const TextOptions& text) {
    std::vector<std::string> made;
    try {
      for (const std::string& line : lines)
        made.push_back(answer_line(o, encoder, line, text.name(std::ssize(made)), context.json));
    } catch (const Stopped&) {
    }
    return made;
  });
  job.largest = 1;  // nothing is computed for several questions together, and a text may be long
  return run_lines(job, o.lines, context);
}

}  // namespace

void add_answer_command(Options& options) {
  auto o = std::make_shared<AnswerCommand>();
  options.add("MODEL", o->model, "Folder of a model that finds answers, or its name in Hugging Face's cache")
      .takes("DIR")
      .required();
  options.add("QUESTION", o->source.text, "The question; without it, the lines of standard input");
  options.add("--input", o->source.input, "Read this file instead of standard input").takes("FILE");
  options
      .add("--context", o->context,
           "The text that has the answer; without it, each line is QUESTION, a tab, and the text")
      .takes("TEXT");
  options.add("--context-file", o->context_file, "The same from a file").takes("FILE");
  options.add("--top", o->answer.count, "Write so many answers to each question").range(1);
  options.add("--longest-answer", o->answer.longest_answer, "Most tokens of an answer").range(1);
  options.flag("--may-be-none", o->answer.may_be_none,
               "The text may have no answer, which is then written as an empty one");
  options.choose("--weights", o->weights, kWeightFormats, kWeightsHelp);
  add_line_options(options, o->lines);
  options.footer(
      "Writes the answer and its probability, with a tab between them. With --json, each\n"
      "question is an object that also has the answers' places in the text, in bytes. A\n"
      "long text is read in windows that overlap. Blank lines become empty.\n"
      "Examples:\n"
      "  heed answer models/squad 'Who wrote it?' --context 'Ada Lovelace wrote it.'\n"
      "  heed answer models/squad --context-file book.txt < questions.txt\n"
      "  heed answer models/squad --may-be-none --json < questions-and-texts.tsv\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_answer(*o, c); });
}

}  // namespace heed::cli
