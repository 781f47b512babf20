// heed evaluate: loss and perplexity of a model, and BLEU of its translations or of any others.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/model_folder.h"
#include "cli/progress.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/train.h"

namespace heed::cli {
namespace {

struct EvaluateCommand {
  std::string model, source, text, pairs, hypotheses, output;
  std::vector<std::string> targets;
  train::BleuOptions bleu;
  train::EvaluateOptions loss;
  generate::TranslateOptions translate;
  bool no_bleu = false, undo_pieces = false;
};

// Sentences with all their references: references[r][i], empty where sentence i has fewer.
struct TestSet {
  std::vector<std::string> sources;
  std::vector<std::vector<std::string>> references;
};

TestSet read_test_set(const EvaluateCommand& o) {
  TestSet set;
  if (!o.pairs.empty()) {
    train::Pairs pairs = train::read_pairs(o.pairs);
    set.sources = std::move(pairs.sources);
    for (size_t i = 0; i < set.sources.size(); ++i)
      for (size_t r = 0; r < pairs.targets[i].size(); ++r) {
        if (r == set.references.size()) set.references.emplace_back(set.sources.size());
        set.references[r][i] = std::move(pairs.targets[i][r]);
      }
    return set;
  }
  if (!o.source.empty()) set.sources = text::read_lines(o.source);
  for (const std::string& file : o.targets) {
    set.references.push_back(text::read_lines(file));
    const std::string& first = o.source.empty() ? o.targets[0] : o.source;
    const size_t expected = o.source.empty() ? set.references[0].size() : set.sources.size();
    if (set.references.back().size() != expected)
      throw Error(fmt::format("{}: {} lines were expected, as in {}; found {}", file, expected, first,
                              set.references.back().size()));
  }
  return set;
}

nlohmann::json to_json(const train::Bleu& bleu) {
  return {{"score", bleu.score},
          {"precisions", bleu.precisions},
          {"brevity_penalty", bleu.brevity_penalty},
          {"system_length", bleu.system_length},
          {"reference_length", bleu.reference_length}};
}

class Report {
 public:
  void add_loss(const train::Evaluation& e) {
    json_["loss"] = e.loss;
    json_["perplexity"] = e.perplexity;
    json_["tokens"] = e.tokens;
    json_["sentences"] = e.sentences;
    json_["left_out"] = e.left_out;
    text_ += fmt::format("loss {:.4f}  perplexity {:.3f}  tokens {}  sentences {}\n", e.loss, e.perplexity,
                         with_commas(e.tokens), with_commas(e.sentences));
    if (e.left_out > 0) text_ += fmt::format("left out, empty or too long: {}\n", with_commas(e.left_out));
  }
  void add_bleu(const train::Bleu& bleu) {
    json_["bleu"] = to_json(bleu);
    text_ += train::to_string(bleu) + "\n";
  }
  void write(const Context& context) const { print(context.json ? json_.dump() + "\n" : text_); }

 private:
  nlohmann::json json_ = nlohmann::json::object();
  std::string text_;
};

train::Bleu score(const EvaluateCommand& o, std::vector<std::string> system,
                  std::vector<std::vector<std::string>> references, bool undo) {
  if (undo) {
    for (std::string& line : system) line = undo_pieces(line);
    for (auto& set : references)
      for (std::string& line : set) line = undo_pieces(line);
  }
  return train::bleu(system, references, o.bleu);
}

std::vector<std::string> translate_all(const EvaluateCommand& o, const TranslationModel& m, const TestSet& set,
                                       const Context& context) {
  std::vector<std::vector<int32_t>> sources;
  for (size_t i = 0; i < set.sources.size(); ++i)
    sources.push_back(encode_source(m, set.sources[i], TooLong::cut, fmt::format("source line {}", i + 1)));
  ProgressBar bar(static_cast<int64_t>(sources.size()), context.quiet);
  const auto found = generate::translate(*m.model, sources, o.translate,
                                         [&](int64_t done, int64_t) { bar.update(done, "sentences"); });
  std::vector<std::string> system;
  for (const auto& list : found) system.push_back(one_line(m.target->decode(list[0].ids)));
  return system;
}

void evaluate_translation(const EvaluateCommand& o, Context& context) {
  if (o.pairs.empty() && (o.source.empty() || o.targets.empty()))
    throw UsageError("evaluate needs --source and --target, or --pairs, for this model");
  const TranslationModel m = load_translation_model(o.model);
  const TestSet set = read_test_set(o);
  Report report;
  std::vector<std::vector<int32_t>> sources, targets;
  for (const auto& references : set.references)
    for (size_t i = 0; i < references.size(); ++i) {
      if (references[i].empty()) continue;
      sources.push_back(m.source->encode(set.sources[i]));
      targets.push_back(m.target->encode(references[i]));
    }
  report.add_loss(train::evaluate(*m.model, sources, targets, o.loss));
  if (!o.no_bleu) {
    std::vector<std::string> system = translate_all(o, m, set, context);
    if (!o.output.empty()) {
      std::string lines;
      for (const std::string& line : system) lines += line + "\n";
      io::write_file_atomically(o.output, lines);
    }
    report.add_bleu(score(o, std::move(system), set.references, o.undo_pieces || m.target->kind() == "pieces"));
  }
  report.write(context);
}

int run_evaluate(const EvaluateCommand& o, Context& context) {
  if (o.pairs.empty() == (o.source.empty() && o.text.empty() && o.targets.empty()))
    throw UsageError("evaluate needs either --pairs, or --source and --target, or --text");
  if (!o.hypotheses.empty()) {
    if (!o.model.empty()) throw UsageError("evaluate takes a model or --hypotheses, not both");
    const TestSet set = read_test_set(o);
    if (set.references.empty()) throw UsageError("evaluate --hypotheses needs --target or --pairs");
    std::vector<std::string> system = text::read_lines(o.hypotheses);
    if (system.size() != set.references[0].size())
      throw Error(fmt::format("{}: {} lines were expected, as many as references; found {}", o.hypotheses,
                              set.references[0].size(), system.size()));
    Report report;
    report.add_bleu(score(o, std::move(system), set.references, o.undo_pieces));
    report.write(context);
    return kSuccess;
  }
  if (o.model.empty()) throw UsageError("evaluate needs a model or --hypotheses");
  if (o.text.empty()) {
    evaluate_translation(o, context);
    return kSuccess;
  }
  const auto model = models::load(o.model);
  if (model->config().architecture == models::Architecture::encoder_decoder)
    throw UsageError("an encoder-decoder is evaluated with --source and --target, or --pairs; found --text");
  train::EvaluateOptions loss = o.loss;
  if (context.seed) loss.seed = *context.seed;
  Report report;
  report.add_loss(train::evaluate(*model, o.model, o.text, {}, loss));
  report.write(context);
  return kSuccess;
}

}  // namespace

void add_evaluate_command(CLI::App& command, Context& context) {
  auto o = std::make_shared<EvaluateCommand>();
  const auto positive = between(int64_t{1}, kMany);
  command.add_option("model", o->model, "Folder of a model (not with --hypotheses)")->type_name("MODEL");
  command.add_option("--source", o->source, "Sentences, one a line")->type_name("FILE");
  command.add_option("--target", o->targets, "Their translations; several times: several references")
      ->type_name("FILE");
  command.add_option("--pairs", o->pairs, "Or both in one file: source, tab, target; equal sources are one sentence")
      ->type_name("TSV");
  command.add_option("--text", o->text, "Text for a language model")->type_name("FILE");
  command.add_option("--hypotheses", o->hypotheses, "Score these translations, without a model")->type_name("FILE");
  command.add_option("--output", o->output, "Write the model's translations here")->type_name("FILE");
  command.add_option("--tokenize", o->bleu.tokenize, "Of BLEU, as sacreBLEU has them")
      ->check(CLI::IsMember({"13a", "zh", "char", "none"}).description(""))
      ->type_name("13a|zh|char|none")
      ->capture_default_str();
  command.add_flag("--lowercase", o->bleu.lowercase, "BLEU of lower-case text");
  command.add_flag("--undo-pieces", o->undo_pieces,
                   "Join \"@@ \" in translations and references (a model of pieces does)");
  command.add_flag("--no-bleu", o->no_bleu, "Loss and perplexity only");
  command.add_option("--beam", o->translate.search.beam, "Of the translations that BLEU scores")
      ->check(between(1, 1000))
      ->capture_default_str();
  command.add_option("--length-penalty", o->translate.search.length_penalty, "Scores are divided by length^this")
      ->capture_default_str();
  command.add_option("--batch-tokens", o->loss.batch_tokens, "Tokens in a batch, padding included")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--context", o->loss.context, "Window of a language model; 0: the model's longest")
      ->check(between(int64_t{0}, kMany))
      ->capture_default_str();
  command.footer(
      "Examples:\n"
      "  heed evaluate runs/en-de --source test.en --target test.de --lowercase\n"
      "  heed evaluate demo/en-zh --pairs heldout.tsv --tokenize zh\n"
      "  heed evaluate --hypotheses out.de --target test.de\n"
      "  heed evaluate runs/shakespeare --text valid.txt\n");
  context.on_run(command, [o](Context& c) { return run_evaluate(*o, c); });
}

}  // namespace heed::cli
