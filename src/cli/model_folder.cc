#include "cli/model_folder.h"

#include <fmt/format.h>

#include "cli/command.h"
#include "heed/error.h"

namespace heed::cli {
namespace {

void check_vocabulary(const std::filesystem::path& folder, const char* side, int64_t tokenizer, int64_t model) {
  if (tokenizer != model)
    throw Error(fmt::format("{}: the {} tokenizer has {} tokens where the model has {}", folder.string(), side,
                            tokenizer, model));
}

template <class Wanted>
const Wanted* as(const models::Model& model, const std::filesystem::path& folder, const char* wanted,
                 const char* instead) {
  const auto* found = dynamic_cast<const Wanted*>(&model);
  if (found == nullptr)
    throw Error(fmt::format("{}: {} was expected; found a model of kind {}{}", folder.string(), wanted,
                            to_string(model.config().architecture), instead));
  return found;
}

}  // namespace

TranslationModel load_translation_model(const std::filesystem::path& folder) {
  TranslationModel result;
  result.owner = models::load(folder);
  result.model = as<models::Transformer>(*result.owner, folder, "an encoder-decoder", "");
  result.source = text::Tokenizer::load(folder, text::Side::source);
  result.target = text::Tokenizer::load(folder, text::Side::target);
  check_vocabulary(folder, "source", result.source->vocabulary(), result.model->config().source_vocabulary);
  check_vocabulary(folder, "target", result.target->vocabulary(), result.model->config().target_vocabulary);
  return result;
}

TextModel load_text_model(const std::filesystem::path& folder) {
  TextModel result;
  result.owner = models::load(folder);
  result.model =
      as<models::Gpt>(*result.owner, folder, "a decoder-only model", " (heed translate runs encoder-decoders)");
  result.tokenizer = text::Tokenizer::load(folder, text::Side::target);
  check_vocabulary(folder, "target", result.tokenizer->vocabulary(), result.model->config().target_vocabulary);
  return result;
}

std::vector<int32_t> encode_line(const text::Tokenizer& tokenizer, std::string_view line, int64_t longest,
                                 TooLong too_long, const std::string& where) {
  const size_t valid = text::valid_utf8_prefix(line);
  if (valid != line.size())
    throw Error(fmt::format("{}: valid UTF-8 was expected; byte {} is 0x{:02x}", where, valid + 1,
                            static_cast<unsigned char>(line[valid])));
  std::vector<int32_t> ids = tokenizer.encode(line);
  if (static_cast<int64_t>(ids.size()) > longest) {
    if (too_long == TooLong::refuse)
      throw Error(fmt::format("{}: at most {} tokens were expected; found {} (--too-long cut translates the beginning)",
                              where, longest, ids.size()));
    warn(fmt::format("{}: {} tokens, cut to {}", where, ids.size(), longest));
    ids.resize(static_cast<size_t>(longest));
  }
  return ids;
}

std::vector<int32_t> encode_source(const TranslationModel& model, std::string_view line, TooLong too_long,
                                   const std::string& where) {
  std::vector<int32_t> ids = encode_line(*model.source, line, model.model->config().max_length - 1, too_long, where);
  if (!ids.empty()) ids.push_back(model.source->special().end);
  return ids;
}

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

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

}  // namespace heed::cli
