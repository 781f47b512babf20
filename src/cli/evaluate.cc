// heed evaluate: loss and perplexity of a model, and BLEU of its translations or of any others.
#include <fmt/core.h>

#include "base/files.h"
#include "cli/command.h"
#include "cli/float_types.h"
#include "cli/json.h"
#include "cli/ranks.h"
#include "cli/translation_job.h"
#include "cli/warnings.h"
#include "distributed/agreement.h"
#include "heed/error.h"
#include "heed/pipelines.h"
#include "heed/train.h"
#include "text/huggingface/characters.h"
#include "text/sentences.h"

namespace heed::cli {
namespace {

struct EvaluateCommand {
  std::string model, source, text, pairs, hypotheses, output;
  std::vector<std::string> targets;
  train::BleuOptions bleu;
  train::EvaluateOptions loss;
  TranslatorOptions translate;
  WeightFormat weights = WeightFormat::f32;
  LineOptions lines;
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
      throw Error(fmt::format("{}: expected {}, as many as {} has; found {}", escaped(file),
                              counted(static_cast<int64_t>(expected), "line", "lines"), escaped(first),
                              set.references.back().size()));
  }
  return set;
}

JsonObject to_json(const train::Bleu& bleu) {
  const std::vector<double> precisions(std::begin(bleu.precisions), std::end(bleu.precisions));
  JsonObject object;
  object.add("score", bleu.score).add("precisions", precisions).add("brevity_penalty", bleu.brevity_penalty);
  return object.add("system_length", bleu.system_length).add("reference_length", bleu.reference_length);
}

// Joins the pieces that end in "@@": BLEU scores words.
std::string undo_pieces(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 3) == "@@ ") {
      i += 2;
    } else if (text.substr(i) == "@@") {
      break;
    } else {
      out += text[i];
    }
  }
  return out;
}

class Report {
 public:
  void add_loss(const train::Evaluation& e) {
    json_.add("loss", e.loss);
    if (e.accuracy) {
      json_.add("accuracy", *e.accuracy).add("texts", e.sentences);
      text_ += fmt::format("loss {:.4f}  accuracy {:.4f}  texts {}\n", e.loss, *e.accuracy, with_commas(e.sentences));
      return;
    }
    if (e.pearson && e.spearman) {
      json_.add("pearson", *e.pearson).add("spearman", *e.spearman).add("texts", e.sentences);
      text_ += fmt::format("loss {:.4f}  Pearson {:.4f}  Spearman {:.4f}  texts {}\n", e.loss, *e.pearson, *e.spearman,
                           with_commas(e.sentences));
      return;
    }
    json_.add("perplexity", e.perplexity).add("tokens", e.tokens);
    json_.add("sentences", e.sentences).add("left_out", e.left_out);
    text_ += fmt::format("loss {:.4f}  perplexity {:.3f}  tokens {}  sentences {}\n", e.loss, e.perplexity,
                         with_commas(e.tokens), with_commas(e.sentences));
    if (e.left_out > 0) text_ += fmt::format("left out, empty or too long: {}\n", with_commas(e.left_out));
  }
  void add_bleu(const train::Bleu& bleu) {
    json_.add("bleu", to_json(bleu));
    text_ += train::to_string(bleu) + "\n";
  }
  void write(const Context& context) const { print(text(context)); }
  // To standard error, where standard output has the translations. --quiet leaves results alone.
  void write_beside(const Context& context) const { message({}, text(context)); }

 private:
  [[nodiscard]] std::string text(const Context& context) const { return context.json ? json_.text() + "\n" : text_; }

  JsonObject json_;
  std::string text_;
};

train::Bleu score(const EvaluateCommand& o, std::vector<std::string> system,
                  std::vector<std::vector<std::string>> references, bool undo) {
  if (o.bleu.tokenize == "13a" && text::mostly_without_spaces(references[0]))
    warn("the references have no spaces between words; --tokenize zh cuts Chinese for BLEU, and char any text");
  if (undo) {
    for (std::string& line : system) line = undo_pieces(line);
    for (auto& set : references)
      for (std::string& line : set) line = undo_pieces(line);
  }
  return train::bleu(system, references, o.bleu);
}

// On rank 0; the others help.
std::vector<std::string> translate_all(const EvaluateCommand& o, const Translator& translator, const TestSet& set,
                                       const Context& context) {
  TranslatorOptions translate = o.translate;
  translate.search.scores = false;
  LineJob job = translation_job(
      translator, translate,
      [](const std::string&, const std::vector<Translation>& translations) { return one_line(translations[0].text); });
  job.too_long = TooLong::cut;
  const auto name = [](int64_t line) { return fmt::format("source line {}", line + 1); };
  return run_lines(job, set.sources, name, o.lines, context);
}

// Files that ranks have read must be the same everywhere.
void require_same_text(const std::string& what, std::span<const std::vector<std::string>* const> texts) {
  uint32_t sum = 0;
  for (const auto* lines : texts)
    for (const std::string& line : *lines) sum = files::crc32("\n", files::crc32(line, sum));
  distributed::require_agreement(ranks(), what, sum);
}

void evaluate_translation(const EvaluateCommand& o, Context& context) {
  if (o.pairs.empty() && (o.source.empty() || o.targets.empty()))
    throw UsageError("this model needs --source and --target, or --pairs");
  const Translator translator = Translator::load(o.model, o.weights);
  const text::Tokenizer &source = translator.source_tokenizer(), &target = translator.target_tokenizer();
  const TestSet set = read_test_set(o);
  require_same_work(translator.model(), {&source, &target}, o.lines, context);
  std::vector<const std::vector<std::string>*> texts = {&set.sources};
  for (const auto& references : set.references) texts.push_back(&references);
  require_same_text("test set", texts);
  const std::string& file = o.pairs.empty() ? o.source : o.pairs;
  if (leads()) warn_of_unknown(source, set.sources, escaped(file));
  Report report;
  std::vector<text::Ids> sources, targets;
  for (const auto& references : set.references)
    for (size_t i = 0; i < references.size(); ++i) {
      // Beside other references, an empty one is none. A line without any counts as left out.
      const bool is_only = std::ranges::all_of(set.references, [&](const auto& others) { return others[i].empty(); });
      if (references[i].empty() && !(is_only && &references == &set.references.front())) continue;
      sources.push_back(source.encode(set.sources[i]));
      targets.push_back(target.encode(references[i]));
    }
  train::EvaluateOptions loss = o.loss;
  loss.ranks = &ranks();
  loss.source_language = o.translate.source_language;
  loss.target_language = o.translate.target_language;
  report.add_loss(train::evaluate(translator.model(), source, target, sources, targets, loss));
  if (!o.no_bleu) {
    if (leads()) warn_of_samples(o.model);
    std::vector<std::string> system = translate_all(o, translator, set, context);
    if (!leads()) return;
    if (!o.output.empty()) {
      std::string lines;
      for (const std::string& line : system) lines += line + "\n";
      write_result(o.output, lines);
    }
    report.add_bleu(score(o, std::move(system), set.references, o.undo_pieces || target.kind() == "pieces"));
  }
  if (!leads()) return;
  if (o.output == "-") {
    report.write_beside(context);
  } else {
    report.write(context);
  }
}

void evaluate_hypotheses(const EvaluateCommand& o, Context& context) {
  const TestSet set = read_test_set(o);
  if (set.references.empty()) throw UsageError("--hypotheses needs --target or --pairs");
  std::vector<std::string> system = text::read_lines(o.hypotheses);
  if (system.size() != set.references[0].size())
    throw Error(fmt::format("{}: expected {}, as many as references; found {}", escaped(o.hypotheses),
                            counted(std::ssize(set.references[0]), "line", "lines"), system.size()));
  Report report;
  report.add_bleu(score(o, std::move(system), set.references, o.undo_pieces));
  report.write(context);
}

void evaluate_text(const EvaluateCommand& o, Context& context) {
  const auto model = models::load(o.model, {.packed = true, .weights = o.weights});
  const models::Architecture architecture = model->config().architecture;
  if (architecture == models::Architecture::encoder_decoder)
    throw UsageError("an encoder-decoder needs --source and --target, or --pairs; found --text");
  const bool decodes = architecture == models::Architecture::decoder_only;
  const auto tokenizer = text::Tokenizer::load(o.model, decodes ? text::Side::target : text::Side::source);
  require_same_work(*model, {tokenizer.get()}, o.lines, context);
  const std::vector<std::string> lines = text::read_lines(o.text);
  const std::vector<std::string>* const texts[] = {&lines};
  require_same_text("text", texts);
  const bool has_labels = model->config().head == models::Head::text_class;
  if (leads() && !has_labels) warn_of_unknown(*tokenizer, lines, escaped(o.text));
  train::EvaluateOptions loss = o.loss;
  loss.ranks = &ranks();
  if (context.seed) loss.seed = *context.seed;
  Report report;
  report.add_loss(train::evaluate(*model, o.model, o.text, {}, loss));
  if (leads()) report.write(context);
}

int run_evaluate(const EvaluateCommand& o, Context& context) {
  if (o.pairs.empty() == (o.source.empty() && o.text.empty() && o.targets.empty()))
    throw UsageError("either --pairs, or --source and --target, or --text is needed");
  if (o.hypotheses.empty() && o.model.empty()) throw UsageError("MODEL or --hypotheses is needed; found neither");
  const bool languages = !o.translate.source_language.empty() || !o.translate.target_language.empty();
  if (languages && (!o.hypotheses.empty() || !o.text.empty()))
    throw UsageError("--source-language and --target-language are for translations; found --hypotheses or --text");
  if (!o.hypotheses.empty() && !o.model.empty()) throw UsageError("MODEL or --hypotheses is needed; found both");
  if (!o.output.empty() && (!o.hypotheses.empty() || !o.text.empty() || o.no_bleu))
    throw UsageError("--output is for a model's translations; with --hypotheses, --text or --no-bleu there are none");
  std::vector<std::string> read = {o.pairs, o.source};
  read.insert(read.end(), o.targets.begin(), o.targets.end());
  require_inputs_kept(read, {{"--output", o.output}});
  if (leads()) require_writable({o.output});
  if (!o.hypotheses.empty()) {
    if (leads()) evaluate_hypotheses(o, context);  // there is no work to share
  } else if (!o.text.empty()) {
    evaluate_text(o, context);
  } else {
    evaluate_translation(o, context);
  }
  return kSuccess;
}

}  // namespace

void add_evaluate_command(Options& options) {
  auto o = std::make_shared<EvaluateCommand>();
  options.add("MODEL", o->model, "Folder of a model (not with --hypotheses)").takes("DIR");
  options.add("--source", o->source, "Sentences, one a line").takes("FILE");
  options.add("--target", o->targets, "Their translations; given several times, several references").takes("FILE");
  options.add("--pairs", o->pairs, "Both in one file: source, tab, target; equal sources are one sentence")
      .takes("TSV");
  options.add("--text", o->text, "Text for a language model or an encoder, or texts with their classes or scores")
      .takes("FILE");
  options.add("--hypotheses", o->hypotheses, "Score these translations, without a model").takes("FILE");
  options.add("--output", o->output, "Write the model's translations here; - is standard output").takes("FILE");
  options.add("--tokenize", o->bleu.tokenize, "How BLEU cuts text into words, as sacreBLEU does")
      .one_of({"13a", "zh", "char", "none"});
  options.flag("--lowercase", o->bleu.lowercase, "BLEU of lower-case text");
  options.flag("--undo-pieces", o->undo_pieces,
               "Join \"@@ \" in translations and references (always done for a model of pieces)");
  options.flag("--no-bleu", o->no_bleu, "Loss and perplexity only");
  options.add("--beam", o->translate.search.beam, "Hypotheses to keep while translating for BLEU")
      .range(1, 1000)
      .excludes({"--text", "--hypotheses", "--no-bleu"});
  options.add("--length-penalty", o->translate.search.length_penalty, "Divide scores by length^NUMBER")
      .shows("1, or what the model's folder says")
      .excludes({"--text", "--hypotheses", "--no-bleu"});
  options.add("--length-reward", o->translate.search.length_reward, "Add NUMBER to scores for each token")
      .excludes({"--text", "--hypotheses", "--no-bleu"});
  options
      .add("--source-language", o->translate.source_language,
           "The language of the source, for models of several languages, as the vocabulary spells it")
      .takes("CODE");
  options.add("--target-language", o->translate.target_language, "The language of the translations").takes("CODE");
  options.choose("--weights", o->weights, kWeightFormats, kWeightsHelp);
  options.add("--batch-tokens", o->loss.batch_tokens, "Tokens in a batch, padding included").range(1);
  options.add("--context", o->loss.context, "Window of a language model; 0 is the longest it has")
      .range(0)
      .needs("--text");
  add_peer_timeout(options, o->lines);
  options.footer(
      "Examples:\n"
      "  heed evaluate runs/en-de --source test.en --target test.de --lowercase\n"
      "  heed evaluate demo/en-zh --pairs demo/heldout.tsv --tokenize zh\n"
      "  heed evaluate --hypotheses out.de --target test.de\n"
      "  heed evaluate runs/shakespeare --text valid.txt\n"
      "  mpirun -n 4 heed evaluate runs/en-de --source test.en --target test.de\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_evaluate(*o, c); });
}

}  // namespace heed::cli
