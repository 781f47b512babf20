#include "train/start.h"

#include <algorithm>
#include <set>

#include "base/files.h"
#include "formats/json.h"
#include "generate/languages.h"
#include "generate/tokenizer_kind.h"
#include "heed/error.h"
#include "models/families/classifier.h"
#include "models/families/rounded.h"
#include "models/families/weights.h"
#include "models/sentence_settings.h"
#include "models/weights.h"
#include "text/language_tokens.h"
#include "train/average.h"
#include "train/examples.h"
#include "train/recipe_fields.h"
#include "train/sentence_files.h"
#include "train/sentence_model.h"
#include "train/sentence_modules.h"

namespace heed::train {

namespace {

namespace fs = std::filesystem;
using io::Json;

struct Rate {
  const char* key;
  float models::Config::*member;
};
constexpr Rate kRates[] = {{"dropout", &models::Config::dropout},
                           {"attention_dropout", &models::Config::attention_dropout},
                           {"activation_dropout", &models::Config::activation_dropout}};

// The folder's configuration with the rates among the recipe's [model] keys; its other keys must be as they are there.
models::Config config_for(const Recipe& recipe, models::Config config) {
  const Json there = io::parse_json(models::to_json(config)).value;
  const Json keys = io::parse_json(recipe.model_keys).value;
  for (const auto& [key, value] : keys.items()) {
    const auto* const rate =
        std::ranges::find(kRates, std::string_view(key), [](const Rate& r) { return std::string_view(r.key); });
    if (rate != std::end(kRates)) {
      config.*(rate->member) = value.get<float>();
      continue;
    }
    const Json found = there.value(key, Json());
    require(value == found, "train", "model.", key, ": ", io::json_text(found), ", as the model of from has; found ",
            io::json_text(value));
  }
  config.validate();
  return config;
}

// The same weights in a model that drops what `config` says. Reading makes a model of the folder's own rates.
std::unique_ptr<models::Model> with_config(const models::Model& read, const models::Config& config, uint64_t seed) {
  std::unique_ptr<models::Model> model;
  {
    const nn::Initializer::Skipped no_initial_weights;
    model = models::create(config, seed);
  }
  const auto from = read.named_parameters(), to = model->named_parameters();
  require(from.size() == to.size(), "train", "a model with the parameters of its configuration, ", to.size(),
          "; found ", from.size());
  for (size_t i = 0; i < to.size(); ++i) to[i].second.data().copy_from(from[i].second.data());
  if (read.origin() == nullptr) return model;
  auto origin = models::with_f32_files(*read.origin());
  if (config.begin_id != read.config().begin_id) origin = models::with_first_token(*origin, config.begin_id);
  model->set_origin(std::move(origin));
  return model;
}

// What the tokenizer puts around any one text.
Frame around(const text::Tokenizer& tokenizer) {
  const text::Tokens tokens = tokenizer.tokens("a");
  Frame frame;
  size_t at = 0;
  for (; at < tokens.ids.size() && tokens.special[at] != 0; ++at) frame.before.push_back(tokens.ids[at]);
  while (at < tokens.ids.size() && tokens.special[at] == 0) ++at;
  for (; at < tokens.ids.size(); ++at) frame.after.push_back(tokens.ids[at]);
  return frame;
}

bool same_tokens(const text::Tokenizer& a, const text::Tokenizer& b) {
  if (a.vocabulary() != b.vocabulary()) return false;
  for (int32_t id = 0; id < a.vocabulary(); ++id) {
    if (a.piece(id) != b.piece(id)) return false;
  }
  return true;
}

// Tokenizers that recipes know are heed's own ones.
bool is_recipe_word(const std::string& kind) { return find_field("tokenizer")->allowed.holds(std::string_view(kind)); }

void settle_tokenizer(Recipe& recipe, const Start& start) {
  const Recipe defaults;
  const text::Tokenizer& tokenizer = start.source ? *start.source : *start.target;
  const std::string kind = tokenizer.kind();
  require(recipe.tokenizer == defaults.tokenizer || recipe.tokenizer == kind, "train", "tokenizer: ", kind,
          ", as the model of from has; found ", recipe.tokenizer);
  if (is_recipe_word(kind)) recipe.tokenizer = kind;

  const auto has = [&](const auto& side) { return side && side->vocabulary() == recipe.vocabulary; };
  require(recipe.vocabulary == defaults.vocabulary || has(start.source) || has(start.target), "train",
          "vocabulary: ", tokenizer.vocabulary(), ", as the model of from has; found ", recipe.vocabulary);
  recipe.vocabulary = tokenizer.vocabulary();

  const bool shared = start.source && start.target && same_tokens(*start.source, *start.target);
  require(!recipe.shared_vocabulary || shared || !start.target, "train",
          "shared_vocabulary: false, as the model of from has; found true");
  recipe.shared_vocabulary = shared;
}

// The model with classes for the labels of the training text. A head that has them all stays as it is.
std::unique_ptr<models::Model> with_classes_of(const Recipe& recipe, std::unique_ptr<models::Model> model,
                                               const fs::path& folder) {
  require(!recipe.train_source.empty(), "train", "train_source, a text; found none");
  const std::vector<std::string> labels = labels_of(read_examples(recipe.train_source));
  const std::vector<std::string>& there = model->config().labels;
  const std::set<std::string> known(there.begin(), there.end());
  const auto is_there = [&](const std::string& label) { return known.contains(label); };
  if (models::tells_one_class(*model) && std::ranges::all_of(labels, is_there)) return model;
  return models::with_text_classes(*model, folder, labels, recipe.seed);
}

// The model with one number as its head's output. config.json of others says which kind of number it is in two places,
// for transformers and for CrossEncoder; the one of the start may say it in one.
std::unique_ptr<models::Model> with_score_of(const Recipe& recipe, std::unique_ptr<models::Model> model,
                                             const fs::path& folder) {
  const models::Config& there = model->config();
  const bool plain = recipe.loss == "squared_error";
  const bool same = models::gives_score(*model) && (there.scores == models::Scores::raw) == plain;
  if (same && model->origin() == nullptr) return model;
  return models::with_text_score(*model, folder, plain, recipe.seed);
}

void check_start(const Recipe& recipe, const Start& start, const std::string& where) {
  const models::Config& config = start.model->config();
  const auto fits = [&](const std::shared_ptr<const text::Tokenizer>& tokenizer, int64_t vocabulary) {
    // Models of others may have more rows than there are tokens; those that heed has trained, one more for the mask.
    const bool masks = start.model->origin() == nullptr && config.mask_id == tokenizer->vocabulary();
    const int64_t found = tokenizer->vocabulary() + (masks ? 1 : 0);
    require(found == vocabulary || (found < vocabulary && start.model->origin() != nullptr), "train", where,
            ": a tokenizer of ", vocabulary, " tokens, as many as the model has; found ", found);
    generate::require_kind_of_tokenizer(*tokenizer, *start.model, where, "train");
  };
  if (start.source) fits(start.source, config.source_vocabulary);
  if (start.target) fits(start.target, config.target_vocabulary);
  if (recipe.task == "masked_language_model") {
    require(config.head == models::Head::masked_token, "train", where,
            ": a model that guesses masked tokens; found one with another head");
    require(start.frames.mask_id >= 0, "train", where, ": a tokenizer with [MASK] or <mask>; found neither");
  }
  require(recipe.task != "language_model" || config.positions == models::Positions::none ||
              recipe.context <= config.max_length,
          "train", "context: at most the max_length of the model of from, ", config.max_length, "; found ",
          recipe.context);
}

// A model of these families that was made for one pair of languages may have no tokens for them.
bool names_languages(const models::Model& model, const text::Tokenizer& target) {
  if (!generate::is_of_many_languages(model)) return false;
  for (int64_t id = 0; id < target.vocabulary(); ++id) {
    if (text::looks_like_language(target, id)) return true;
  }
  return false;
}

bool language_is_behind(const Frame& source) { return source.before.empty() && source.after.size() == 2; }

bool begins_with_language(const models::Model& model, const Frame& source, const text::Tokenizer& target) {
  return generate::begins_with_language(model, target, model.config().begin_id, language_is_behind(source));
}

// A model that begins with a language can be trained to write any of them: its first token becomes that language, as in
// transformers' scripts. In other models the first token stays.
int64_t first_token(const Recipe& recipe, const models::Model& model, const Start& start) {
  const int64_t usual = model.config().begin_id;
  if (!start.source || !start.target || !begins_with_language(model, around(*start.source), *start.target))
    return usual;
  const auto language = text::language_id(*start.target, recipe.target_language);
  return language ? *language : usual;  // frames_of() refuses a language that is missing or unknown
}

// The language stands before a text, or behind its end: in mBART's first models, whose decoder begins with it, and
// where NLLB's tokenizer keeps its "legacy_behaviour", whose decoder writes it first all the same (Liu et al. 2020, Fan
// et al. 2020, Tang et al. 2020).
void put_languages(const models::Model& model, const text::Tokenizer& source, const text::Tokenizer& target,
                   const Languages& languages, Frames& frames) {
  constexpr const char* kName = "languages";
  require(!languages.source.empty() && !languages.target.empty(), kName,
          "source_language and target_language, because the model knows several; found ",
          languages.source.empty() && languages.target.empty() ? "neither" : "one of them");
  const int32_t from = text::known_language(source, languages.source, kName);
  const int32_t to = text::known_language(target, languages.target, kName);
  const models::Config& config = model.config();
  const auto end = static_cast<int32_t>(config.end_id);
  const bool behind = language_is_behind(frames.source);
  frames.source.before = behind ? Ids() : Ids{from};
  frames.source.after = behind ? Ids{end, from} : Ids{end};
  frames.target.before = behind ? Ids() : Ids{to};
  frames.target.after = behind ? Ids{end, to} : Ids{end};
  if (begins_with_language(model, frames.source, target)) {
    frames.target.begin = to;
  } else {
    frames.prefix = {to};
  }
}

}  // namespace

text::SpecialIds special_of(const models::Config& config) {
  return {.padding = static_cast<int32_t>(config.padding_id),
          .begin = static_cast<int32_t>(config.begin_id),
          .end = static_cast<int32_t>(config.end_id),
          .unknown = static_cast<int32_t>(config.unknown_id)};
}

Frames frames_of(const models::Model& model, const text::Tokenizer& source, const text::Tokenizer* target,
                 const Languages& languages) {
  const models::Config& config = model.config();
  const bool several = target != nullptr && names_languages(model, *target);
  require(several || (languages.source.empty() && languages.target.empty()), "languages",
          "no source_language and no target_language, because the model does not name its languages; found ",
          languages.source.empty() ? languages.target : languages.source);
  Frames frames;
  if (model.origin() == nullptr) {
    // Tokenizers of a translator that was converted may say something else of what begins and ends a text.
    frames.source = target != nullptr ? source_frame(special_of(config)) : masked_frame(source.special());
    if (target != nullptr) frames.target = target_frame(special_of(config));
    frames.mask_id = static_cast<int32_t>(config.mask_id);
    return frames;
  }
  frames.first_drawn = 0;  // their special ids may be anywhere
  frames.source = around(source);
  frames.source.padding = static_cast<int32_t>(config.padding_id);
  if (target != nullptr) {
    const auto end = static_cast<int32_t>(config.end_id);
    frames.target = around(*target);
    if (frames.target.after.empty() || frames.target.after.back() != end) frames.target.after.push_back(end);
    frames.target.begin = static_cast<int32_t>(config.begin_id);
    frames.target.padding = static_cast<int32_t>(config.padding_id);
    if (several) put_languages(model, source, *target, languages, frames);
  } else {
    if (config.mask_id == source.vocabulary()) frames.mask_id = static_cast<int32_t>(config.mask_id);
    for (const char* const token : {"[MASK]", "<mask>"}) {
      if (const auto id = source.id_of(token); id && frames.mask_id < 0) frames.mask_id = *id;
    }
  }
  return frames;
}

namespace {

// The most tokens of a text that is a whole: as many as `heed embed` and `heed classify` will read. Refuses what they
// refuse, and lower case, in which training reads no text.
int64_t longest_text(const Recipe& recipe, const models::Model& model, const fs::path& folder) {
  const bool is_whole =
      is_classification(recipe) || recipe.task == "sequence_regression" || recipe.task == "sentence_embedding";
  if (!is_whole) return model.config().max_length;
  const models::SentenceSettings settings = models::read_sentence_settings(folder, folder);
  require(!settings.lowercase || recipe.task != "sentence_embedding", "train", folder.string(),
          ": \"do_lower_case\" false, because training reads texts as they are; found true");
  return models::longest_text(settings, folder, model.config(), model.origin() != nullptr, "train");
}

}  // namespace

Start load_start(Recipe& recipe, const fs::path& folder, const fs::path& tokenizers) {
  Start start;
  auto read = models::load(folder);
  require(!models::was_rounded(*read), "train", folder.string(),
          ": weights in f32, f16 or bf16; found int8 (train the folder that they were rounded from)");
  const models::Architecture found = read->config().architecture;
  require(found == architecture_of(recipe.task), "train", "from: a model that fits the task, ", recipe.task,
          "; found one that is ", models::to_string(found));
  if (is_classification(recipe)) read = with_classes_of(recipe, std::move(read), folder);
  if (recipe.task == "sequence_regression") read = with_score_of(recipe, std::move(read), folder);
  models::Config config = config_for(recipe, read->config());
  if (found != models::Architecture::decoder_only) {
    start.source = text::Tokenizer::load(tokenizers, text::Side::source);
  }
  if (found != models::Architecture::encoder_only) {
    start.target = text::Tokenizer::load(tokenizers, text::Side::target);
  }
  config.begin_id = first_token(recipe, *read, start);
  start.model = with_config(*read, config, recipe.seed);
  const Languages languages{.source = recipe.source_language, .target = recipe.target_language};
  if (start.source) start.frames = frames_of(*start.model, *start.source, start.target.get(), languages);
  check_start(recipe, start, folder.string());
  start.longest = std::min(recipe.max_tokens_per_sentence, longest_text(recipe, *start.model, tokenizers));
  if (recipe.task == "sentence_embedding") read_modules(recipe, tokenizers, start);
  settle_tokenizer(recipe, start);
  recipe.model = config;
  return start;
}

fs::path start_folder(const Recipe& recipe) {
  try {
    return io::find_model_folder(recipe.from);
  } catch (const Error& error) {
    fail("train", "from: ", error.what());
  }
}

namespace {

// The first token of these settings takes precedence over that of config.json. The model begins as it was trained.
void set_first_token(const models::Model& model, const fs::path& from, const fs::path& settings) {
  static constexpr const char* kKey = "decoder_start_token_id";
  std::error_code ignored;
  if (model.origin() == nullptr || !fs::exists(settings, ignored)) return;
  const auto first_token_of = [](const std::string& config) {
    return io::parse_json(config).value.value(kKey, Json());
  };
  const bool changed =
      first_token_of(io::read_file(from / "config.json", 1 << 20)) != first_token_of(model.origin()->config_json);
  Json said = io::parse_json(io::read_file(settings, 1 << 20)).value;
  if (!said.is_object()) return;
  Json first = said.value(kKey, Json());
  if (first.is_null()) first = said.value("bos_token_id", Json());
  if (!changed && (first.is_null() || first == model.config().begin_id)) return;
  said[kKey] = model.config().begin_id;
  files::write_atomically(settings, io::json_text(said, 2) + "\n", "train");
}

// The languages of the training text become those that a tokenizer takes where nobody names any.
void set_languages(const Recipe& recipe, const fs::path& settings) {
  std::error_code ignored;
  if (!fs::exists(settings, ignored)) return;
  Json said = io::parse_json(io::read_file(settings, 1 << 20)).value;
  if (!said.is_object()) return;
  bool changed = false;
  for (const auto& [key, language] :
       {std::pair{"src_lang", &recipe.source_language}, {"tgt_lang", &recipe.target_language}}) {
    if (language->empty() || !said.contains(key) || said[key] == *language) continue;
    said[key] = *language;
    changed = true;
  }
  if (changed) files::write_atomically(settings, io::json_text(said, 2) + "\n", "train");
}

}  // namespace

void copy_beside_model(const Recipe& recipe, const models::Model& model, const fs::path& to) {
  const fs::path from = start_folder(recipe);
  copy_tokenizer(from, to);
  set_first_token(model, from, to / "generation_config.json");
  set_languages(recipe, to / "tokenizer_config.json");
  if (recipe.task == "sentence_embedding") write_modules(model, from, to);
  if (is_classification(recipe) || recipe.task == "sequence_regression") write_cross_encoder(from, to);
  // What reads the trained model, and what goes on with the training, cuts texts as the training does.
  const int64_t longest = longest_text(recipe, model, from);
  if (longest != longest_text(recipe, model, to)) models::keep_longest(longest, to, "train");
}

void require_same_start(const Recipe& recipe, const std::string& recorded) {
  const Json from = value_at(io::parse_json(recorded).value, "from");
  const bool before = from.is_string() && !from.get<std::string>().empty(), now = !recipe.from.empty();
  require(before == now, "train", "the recipe that this run was begun with, ", before ? "with" : "without",
          " from; found one ", now ? "with" : "without", " it");
}

std::string config_text(const models::Model& model) {
  return model.origin() != nullptr ? model.origin()->config_json : models::to_json(model.config());
}

io::Tensors tensors_in_file(const models::Model& model) {
  if (const auto* sentence = dynamic_cast<const SentenceModel*>(&model)) {
    io::Tensors all = tensors_in_file(sentence->encoder());
    all.merge(sentence->dense_tensors());
    return all;
  }
  if (model.origin() != nullptr) return models::weights_of(model, *model.origin());
  io::Tensors tensors;
  for (const auto& [path, parameter] : model.named_parameters()) tensors.emplace(path, parameter.data());
  return tensors;
}

io::Tensors own_tensors(const models::Model& model, io::Tensors in_file, const std::string& where) {
  if (const auto* sentence = dynamic_cast<const SentenceModel*>(&model)) {
    ModelParts parts = parts_of_model(in_file);
    io::Tensors own;
    for (auto& [path, tensor] : own_tensors(sentence->encoder(), std::move(parts.encoder), where)) {
      own["encoder." + path] = tensor;
    }
    for (const auto& [name, tensor] : parts.dense) {  // "2_Dense/linear.weight"
      const size_t slash = name.rfind('/');
      own["modules." + name.substr(0, slash) + "." + name.substr(slash + 1)] = tensor;
    }
    return own;
  }
  return model.origin() != nullptr ? models::own_weights(model, model.origin()->design, in_file, where)
                                   : std::move(in_file);
}

void save_model(const models::Model& model, const fs::path& folder) {
  if (const auto* sentence = dynamic_cast<const SentenceModel*>(&model)) return sentence->save(folder);
  models::save(model, folder);
}

std::string file_format(const models::Model& model) { return model.origin() != nullptr ? "pt" : models::kFormat; }

}  // namespace heed::train
