#include "train/start.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/files.h"
#include "formats/json.h"
#include "generate/languages.h"
#include "generate/settings.h"
#include "generate/tokenizer_kind.h"
#include "heed/error.h"
#include "models/families/classifier.h"
#include "models/families/rounded.h"
#include "models/families/weights.h"
#include "models/sentence_folder.h"
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

// " (the model had NEGATIVE, POSITIVE)", of a head that is replaced.
std::string classes_before(const models::Config& config) {
  if (config.labels.empty()) return "";
  const bool usual = config.head != models::Head::text_class || config.scores == models::Scores::probabilities;
  const std::string kind =
      usual ? "" : ", and \"problem_type\" \"" + std::string(models::problem_type(config.scores)) + "\"";
  return " (the model had " + list_of(config.labels) + kind + ")";
}

// The model with classes for the labels of the training text. A head that has them all stays as it is; `note` says what
// another one is replaced by.
std::unique_ptr<models::Model> with_classes_of(const Recipe& recipe, std::unique_ptr<models::Model> model,
                                               const fs::path& folder, std::string& note) {
  require(!recipe.train_source.empty(), "train", "train_source, a text; found none");
  const std::vector<std::string> labels = labels_of(read_examples(recipe.train_source));
  const std::vector<std::string>& there = model->config().labels;
  const std::set<std::string> known(there.begin(), there.end());
  const auto is_there = [&](const std::string& label) { return known.contains(label); };
  if (models::tells_one_class(*model) && std::ranges::all_of(labels, is_there)) return model;
  note = "a new head for " + std::to_string(labels.size()) + " classes: " + list_of(labels) +
         classes_before(model->config());
  return models::with_text_classes(*model, folder, labels, recipe.seed);
}

// The model with one number as its head's output. config.json of others says which kind of number it is in two places,
// for transformers and for CrossEncoder; the one of the start may say it in one.
std::unique_ptr<models::Model> with_score_of(const Recipe& recipe, std::unique_ptr<models::Model> model,
                                             const fs::path& folder, std::string& note) {
  const models::Config& there = model->config();
  const bool plain = recipe.loss == "squared_error";
  const bool same = models::gives_score(*model) && (there.scores == models::Scores::raw) == plain;
  if (same && model->origin() == nullptr) return model;
  if (!models::gives_score(*model)) note = "a new head for one score" + classes_before(there);
  return models::with_text_score(*model, folder, plain, recipe.seed);
}

void check_start(const Recipe& recipe, const Start& start, const std::string& where) {
  const models::Config& config = start.model->config();
  const auto fits = [&](const std::shared_ptr<const text::Tokenizer>& tokenizer, int64_t vocabulary) {
    require(generate::fits_rows(*tokenizer, *start.model, vocabulary), "train", where, ": a tokenizer of ", vocabulary,
            " tokens, as many as the model has; found ", tokenizer->vocabulary());
    generate::require_kind_of_tokenizer(*tokenizer, *start.model, where, "train");
  };
  if (start.source) fits(start.source, config.source_vocabulary);
  if (start.target) fits(start.target, config.target_vocabulary);
  if (recipe.task == "masked_language_model") {
    require(config.head == models::Head::masked_token, "train", where, ": a model that guesses masked tokens; found ",
            models::words_for_head(*start.model));
    require(start.frames.mask_id >= 0, "train", where,
            ": a tokenizer with [MASK] or <mask>, and a row of the model for it; found none");
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

// Marian's models of several target languages are told by a token in front of the source.
std::optional<int32_t> arrow_of(const text::Tokenizer& source, const Languages& languages) {
  if (languages.target.empty()) return std::nullopt;
  const std::optional<int32_t> arrow = text::known_arrow(source, languages.target, "languages");
  require(!arrow || languages.source.empty(), "languages",
          "no source_language, because the model names only the languages that it writes; found ", languages.source);
  return arrow;
}

constexpr const char* kForced = "forced_bos_token_id";

// Puts a language in place of another one that settings force outputs to begin with. Returns whether it did.
bool replace_forced(Json& settings, const text::Tokenizer& target, int32_t language) {
  const Json forced = settings.is_object() ? settings.value(kForced, Json()) : Json();
  if (!forced.is_number_integer() || forced == language) return false;
  if (!text::looks_like_language(target, forced.get<int64_t>())) return false;
  settings[kForced] = language;
  return true;
}

// The same in the model's config.json.
void force_language(models::Model& model, const text::Tokenizer& target, int32_t language) {
  Json config = io::parse_json(model.origin()->config_json).value;
  if (!replace_forced(config, target, language)) return;
  auto origin = std::make_shared<models::Origin>(*model.origin());
  origin->config_json = io::json_text(config, 2) + "\n";
  model.set_origin(std::move(origin));
}

// The language of the training, where the model begins its output with one.
std::optional<int32_t> language_written(const Recipe& recipe, const models::Model& model, const Start& start) {
  if (!start.target || recipe.target_language.empty() || !names_languages(model, *start.target)) return std::nullopt;
  return text::language_id(*start.target, recipe.target_language);
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
  const std::optional<int32_t> arrow =
      target != nullptr && !several ? arrow_of(source, languages) : std::optional<int32_t>();
  require(several || arrow || (languages.source.empty() && languages.target.empty()), "languages",
          "no source_language and no target_language, because the model does not name its languages; found ",
          languages.source.empty() ? languages.target : languages.source);
  Frames frames;
  if (model.origin() == nullptr) {
    // Tokenizers of a translator that was converted may say something else of what begins and ends a text.
    frames.source = target != nullptr ? source_frame(special_of(config)) : masked_frame(source.special());
    if (target != nullptr) frames.target = target_frame(special_of(config));
    frames.mask_id = static_cast<int32_t>(config.mask_id);
    if (arrow) frames.source.before.insert(frames.source.before.begin(), *arrow);
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
    if (arrow) frames.source.before.insert(frames.source.before.begin(), *arrow);
  } else {
    const int32_t mask_id = generate::mask_token_of(model, source).id;
    if (mask_id < config.source_vocabulary) frames.mask_id = mask_id;
  }
  return frames;
}

namespace {

// How texts that are wholes are read: as `heed embed` and `heed classify` will read them. Refuses what they refuse, and
// lower case where pairs of texts are read.
Reading reading_for(const Recipe& recipe, const models::Model& model, const fs::path& folder) {
  const bool has_classes = is_classification(recipe) || recipe.task == "sequence_regression";
  if (!has_classes && recipe.task != "sentence_embedding") return {.longest = model.config().max_length};
  Reading reading = reading_of(model, folder, "train");
  if (has_classes && models::is_cross_encoder(folder)) return reading;
  require(!reading.lowercase || has_classes, "train", folder.string(),
          ": \"do_lower_case\" false, because a training of vectors reads texts as they are; found true");
  return {.longest = reading.longest};  // the new folder has no modules, or keeps its prompts for other texts
}

// What the folder says about a search, with the language of the training in place of another one.
std::optional<generate::BeamOptions> search_of(const Recipe& recipe, const Start& start, const fs::path& folder) {
  auto search = generate::settings_of_translator(folder, *start.model);
  const auto language = language_written(recipe, *start.model, start);
  if (search && language && !search->prefix.empty() &&
      text::looks_like_language(*start.target, search->prefix.front())) {
    search->prefix = {*language};
  }
  return search;
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
  if (is_classification(recipe)) read = with_classes_of(recipe, std::move(read), folder, start.note);
  if (recipe.task == "sequence_regression") read = with_score_of(recipe, std::move(read), folder, start.note);
  models::Config config = config_for(recipe, read->config());
  if (found != models::Architecture::decoder_only) {
    start.source = text::Tokenizer::load(tokenizers, text::Side::source);
  }
  if (found != models::Architecture::encoder_only) {
    start.target = text::Tokenizer::load(tokenizers, text::Side::target);
  }
  config.begin_id = first_token(recipe, *read, start);
  start.model = with_config(*read, config, recipe.seed);
  if (const auto language = language_written(recipe, *start.model, start))
    force_language(*start.model, *start.target, *language);
  const Languages languages{.source = recipe.source_language, .target = recipe.target_language};
  if (start.source) start.frames = frames_of(*start.model, *start.source, start.target.get(), languages);
  check_start(recipe, start, folder.string());
  start.reading = reading_for(recipe, *start.model, tokenizers);
  start.reading.longest = std::min(recipe.max_tokens_per_sentence, start.reading.longest);
  if (recipe.valid_beam > 0) start.search = search_of(recipe, start, tokenizers);
  if (recipe.task == "sentence_embedding") read_modules(recipe, tokenizers, start);
  settle_tokenizer(recipe, start);
  recipe.model = config;
  return start;
}

namespace {

// Others have it in a folder below.
void require_encoder_inside(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "config.json", ignored) || !models::has_sentence_modules(folder)) return;
  const fs::path encoder = models::read_sentence_modules(folder).front().folder.lexically_relative(folder);
  fail("train", folder.string(), ": the files of the encoder in the folder itself; found them in ", encoder.string(),
       ", as its modules.json says");
}

}  // namespace

fs::path start_folder(const Recipe& recipe) {
  fs::path folder;
  try {
    folder = io::find_model_folder(recipe.from);
  } catch (const Error& error) {
    fail("train", "from: ", error.what());
  }
  require_encoder_inside(folder);
  return folder;
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

void set_forced_language(const Recipe& recipe, const Start& start, const fs::path& settings) {
  std::error_code ignored;
  const auto language = language_written(recipe, *start.model, start);
  if (!language || !fs::exists(settings, ignored)) return;
  Json said = io::parse_json(io::read_file(settings, 1 << 20)).value;
  if (replace_forced(said, *start.target, *language))
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

void copy_beside_model(const Recipe& recipe, const Start& start, const fs::path& to) {
  const models::Model& model = *start.model;
  const fs::path from = start_folder(recipe);
  copy_tokenizer(from, to);
  set_first_token(model, from, to / "generation_config.json");
  set_forced_language(recipe, start, to / "generation_config.json");
  set_languages(recipe, to / "tokenizer_config.json");
  if (recipe.task == "sentence_embedding") write_modules(model, from, to);
  if (is_classification(recipe) || recipe.task == "sequence_regression") write_cross_encoder(from, to);
  // What reads the trained model, and what goes on with the training, cuts texts as the training does.
  const int64_t longest = reading_for(recipe, model, from).longest;
  if (longest != reading_for(recipe, model, to).longest) models::keep_longest(longest, to, "train");
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
