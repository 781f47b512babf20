// heed generate: continues a text, and writes it as it is made.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/model_folder.h"
#include "heed/error.h"
#include "heed/io.h"

namespace heed::cli {
namespace {

struct GenerateCommand {
  std::string model, prompt, prompt_file;
  generate::SamplingOptions sampling;
  int64_t count = 1;
  bool ignore_end = false;
};

// The text of growing ids, a piece at a time. Bytes of a character that is not whole yet wait for the rest of it.
class Stream {
 public:
  Stream(const text::Tokenizer& tokenizer, std::vector<int32_t> ids) : tokenizer_(tokenizer), ids_(std::move(ids)) {
    shown_ = tokenizer_.decode(ids_).size();
  }
  std::string add(int32_t id) {
    ids_.push_back(id);
    std::string text = tokenizer_.decode(ids_);
    const std::string_view replacement = "\xEF\xBF\xBD";
    while (text.ends_with(replacement)) text.resize(text.size() - replacement.size());
    if (text.size() <= shown_) return {};
    std::string fresh = text.substr(shown_);
    shown_ = text.size();
    return fresh;
  }
  std::string rest() const {
    const std::string text = tokenizer_.decode(ids_);
    return text.size() > shown_ ? text.substr(shown_) : std::string();
  }

 private:
  const text::Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;
  size_t shown_ = 0;
};

std::vector<int32_t> encode_prompt(const TextModel& m, const std::string& prompt) {
  std::vector<int32_t> ids = encode_line(*m.tokenizer, prompt, kMany, TooLong::refuse, "the prompt");
  if (!ids.empty()) return ids;
  // Nothing to go on from: what stands between two texts of the training.
  if (m.tokenizer->kind() == "characters") ids = m.tokenizer->encode("\n");
  if (ids.empty()) ids.push_back(static_cast<int32_t>(m.model->config().end_id));
  return ids;
}

int run_generate(const GenerateCommand& o, Context& context) {
  const TextModel m = load_text_model(o.model);
  const std::string prompt = o.prompt_file.empty() ? o.prompt : io::read_file(o.prompt_file, int64_t{1} << 26);
  const std::vector<int32_t> ids = encode_prompt(m, prompt);
  install_signal_handlers();
  generate::SamplingOptions sampling = o.sampling;
  const auto end_id = static_cast<int32_t>(m.model->config().end_id);
  if (!o.ignore_end && end_id >= 0) sampling.stop_ids.push_back(end_id);
  for (int64_t n = 0; n < o.count && !stop_requested().load(); ++n) {
    sampling.seed = context.seed.value_or(0) + static_cast<uint64_t>(n);
    if (context.json) {
      const auto result =
          generate::sample_text(*m.model, ids, sampling, [](int32_t) { return !stop_requested().load(); });
      nlohmann::json tokens = nlohmann::json::array();
      for (const int32_t id : result.ids) tokens.push_back(m.tokenizer->piece(id));
      print_line(nlohmann::json{{"prompt", prompt},
                                {"text", m.tokenizer->decode(result.ids)},
                                {"tokens", std::move(tokens)},
                                {"log_probs", result.log_probs},
                                {"finished", result.finished},
                                {"seed", sampling.seed}}
                     .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
      flush_output();
      continue;
    }
    Stream stream(*m.tokenizer, ids);
    print(prompt);
    const auto result = generate::sample_text(*m.model, ids, sampling, [&](int32_t id) {
      print(stream.add(id));
      flush_output();
      return !stop_requested().load();
    });
    print_line(stream.rest());
    flush_output();
  }
  return stop_requested().load() ? interrupted_status() : kSuccess;
}

}  // namespace

void add_generate_command(CLI::App& command, Context& context) {
  auto o = std::make_shared<GenerateCommand>();
  generate::SamplingOptions& s = o->sampling;
  const auto count = between(int64_t{0}, kMany);
  command.add_option("model", o->model, "Folder of a decoder-only model")->required()->type_name("MODEL");
  auto* prompt = command.add_option("--prompt", o->prompt, "Text to continue");
  command.add_option("--prompt-file", o->prompt_file, "A file that holds it")->type_name("FILE")->excludes(prompt);
  command.add_option("--max-tokens", s.max_tokens, "Tokens to add at most")->check(count)->capture_default_str();
  command.add_option("--temperature", s.temperature, "Below 1: more likely tokens; 0: always the likeliest")
      ->check(between(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--top-k", s.top_k, "Choose among this many tokens; 0: all")->check(count)->capture_default_str();
  command.add_option("--top-p", s.top_p, "Choose among the likeliest tokens with this probability together")
      ->check(between(1e-12, 1.0))
      ->capture_default_str();
  command.add_option("--min-p", s.min_p, "And with at least this share of the likeliest one's probability")
      ->check(between(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--count", o->count, "Texts to make; each has the next seed")
      ->check(between(int64_t{1}, kMany))
      ->capture_default_str();
  command.add_flag("--ignore-end", o->ignore_end, "Go on where the model ends the text");
  command.footer(
      "The same seed (0 if not given) gives the same text.\n"
      "Examples:\n"
      "  heed generate runs/shakespeare --prompt 'ROMEO:' --max-tokens 500 --temperature 0.8\n"
      "  heed generate runs/shakespeare --top-k 20 --seed 7 --count 3 --json\n");
  context.on_run(command, [o](Context& c) { return run_generate(*o, c); });
}

}  // namespace heed::cli
