// heed translate: standard input to standard output, a line for a line.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/input_lines.h"
#include "cli/model_folder.h"
#include "cli/progress.h"
#include "heed/error.h"

namespace heed::cli {
namespace {

struct TranslateCommand {
  std::string model, input;
  generate::TranslateOptions translate;
  bool scores = false;
  TooLong too_long = TooLong::refuse;
};

std::string as_json(const std::string& source, const std::vector<generate::Hypothesis>& hypotheses,
                    const text::Tokenizer& target) {
  nlohmann::json translations = nlohmann::json::array();
  for (const generate::Hypothesis& h : hypotheses) {
    nlohmann::json tokens = nlohmann::json::array();
    for (const int32_t id : h.ids) tokens.push_back(target.piece(id));
    translations.push_back({{"text", target.decode(h.ids)},
                            {"score", h.score},
                            {"finished", h.finished},
                            {"tokens", std::move(tokens)},
                            {"log_probs", h.log_probs}});
  }
  return nlohmann::json{{"source", source}, {"translations", std::move(translations)}}.dump();
}

int run_translate(const TranslateCommand& o, Context& context) {
  // Lines taken together so that batches can be made of equal lengths; a slow writer is answered line by line.
  constexpr size_t kLinesAtOnce = 4096;
  if (o.translate.search.n_best > o.translate.search.beam)
    throw UsageError(fmt::format("--n-best takes at most the beam of {}; found {}", o.translate.search.beam,
                                 o.translate.search.n_best));
  const TranslationModel m = load_translation_model(o.model);
  install_signal_handlers();
  InputLines input(o.input);
  int64_t line_number = 0;
  while (true) {
    const std::vector<std::string> lines = input.next(kLinesAtOnce);
    if (lines.empty()) break;
    std::vector<std::vector<int32_t>> sources;
    std::exception_ptr bad_line;  // what comes before it is translated first
    for (const std::string& line : lines) {
      try {
        sources.push_back(encode_source(m, line, o.too_long, fmt::format("{}, line {}", input.name(), ++line_number)));
      } catch (const Error&) {
        bad_line = std::current_exception();
        break;
      }
    }
    ProgressBar bar(static_cast<int64_t>(sources.size()), context.quiet);
    const auto results = generate::translate(*m.model, sources, o.translate, [&](int64_t done, int64_t) {
      if (sources.size() > 1) bar.update(done, "sentences");
    });
    for (size_t i = 0; i < results.size(); ++i) {
      if (context.json) {
        print_line(as_json(lines[i], results[i], *m.target));
        continue;
      }
      int64_t rank = 0;
      for (const generate::Hypothesis& h : results[i]) {
        std::string line;
        if (o.translate.search.n_best > 1) line += fmt::format("{}\t", ++rank);
        if (o.scores || o.translate.search.n_best > 1) line += fmt::format("{:.6f}\t", h.score);
        print_line(line + one_line(m.target->decode(h.ids)));
      }
    }
    flush_output();
    if (bad_line) std::rethrow_exception(bad_line);
    if (stop_requested().load()) break;
  }
  return stop_requested().load() ? interrupted_status() : kSuccess;
}

}  // namespace

void add_translate_command(CLI::App& command, Context& context) {
  auto o = std::make_shared<TranslateCommand>();
  generate::BeamOptions& search = o->translate.search;
  command.add_option("model", o->model, "Folder of an encoder-decoder model")->required()->type_name("MODEL");
  command.add_option("--input", o->input, "Read this file instead of standard input")->type_name("FILE");
  command.add_option("--beam", search.beam, "Hypotheses kept; 1: greedy")
      ->check(between(1, 1000))
      ->capture_default_str();
  command.add_option("--n-best", search.n_best, "Write this many translations: rank, score and text, tabs between")
      ->check(between(1, 1000))
      ->capture_default_str();
  command.add_flag("--scores", o->scores, "Write the score before the text, a tab between");
  command.add_option("--length-penalty", search.length_penalty, "Scores are divided by length^this")
      ->capture_default_str();
  command.add_flag("--gnmt", search.gnmt, "Divide by ((5 + length) / 6)^penalty instead");
  command.add_option("--max-length", search.max_length, "Longest translation, tokens")
      ->check(between(int64_t{1}, kMany))
      ->capture_default_str();
  command.add_option("--min-length", search.min_length, "Shortest translation, tokens")
      ->check(between(int64_t{0}, kMany))
      ->capture_default_str();
  command
      .add_option("--length-factor", search.length_factor, "And at most this times the source's tokens + 20; 0: any")
      ->check(between(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--batch-tokens", o->translate.batch_tokens, "Tokens in a batch, padding and beam included")
      ->check(between(int64_t{1}, kMany))
      ->capture_default_str();
  command.add_option("--too-long", o->too_long, "Lines longer than the model can read: cut or refuse")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, TooLong>{{"cut", TooLong::cut}, {"refuse", TooLong::refuse}})
              .description(""))
      ->type_name("cut|refuse")
      ->default_str("refuse");
  command.footer(
      "Empty lines give empty lines. With --json, one object a line with tokens and log probabilities.\n"
      "Examples:\n"
      "  echo 'Where is the station?' | heed translate demo/en-zh\n"
      "  heed translate demo/en-zh --beam 1 < english.txt > chinese.txt\n"
      "  heed translate demo/en-zh --n-best 5 --input english.txt\n");
  context.on_run(command, [o](Context& c) { return run_translate(*o, c); });
}

}  // namespace heed::cli
