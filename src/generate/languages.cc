#include "generate/languages.h"

#include "formats/json.h"
#include "models/families/weights.h"
#include "text/language_tokens.h"

namespace heed::generate {

namespace {

constexpr const char* kMBart = "mbart";

std::string type_of_model(const models::Model& model) {
  if (model.origin() == nullptr) return "";
  return io::parse_json(model.origin()->config_json).value.value("model_type", "");
}

}  // namespace

bool is_of_many_languages(const models::Model& model) {
  const std::string type = type_of_model(model);
  return type == kMBart || type == "m2m_100";
}

bool begins_with_language(const models::Model& model, const text::Tokenizer& target, int64_t begin, bool behind) {
  // mbart-large-cc25 knows 25 languages, and config.json names none. Trainings of such models put the language in front
  // of the target, whatever config.json says (shift_tokens_right of transformers).
  return text::looks_like_language(target, begin) || (behind && type_of_model(model) == kMBart);
}

}  // namespace heed::generate
