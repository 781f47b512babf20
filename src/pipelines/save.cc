// Loaded pipelines as folders: weights, configuration, tokenizers, and the small files beside them.
#include "pipelines/save.h"

#include <algorithm>
#include <array>
#include <span>
#include <sstream>
#include <system_error>

#include "base/files.h"
#include "formats/json.h"
#include "formats/weights.h"
#include "generate/settings.h"
#include "heed/error.h"
#include "heed/io.h"
#include "models/sentence_folder.h"
#include "models/sentence_settings.h"
#include "models/weights.h"
#include "pipelines/marian_files.h"
#include "pipelines/sentence_modules.h"
#include "text/huggingface/write_tokenizer.h"
#include "text/tokenizers.h"

namespace heed::pipelines {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSaver = "save";

constexpr std::string_view kSearchSettings = "generation_config.json";
constexpr const char* kSideFiles[] = {kSearchSettings.data(), "modules.json", "config_sentence_transformers.json"};
// What a model may be used for: a README.md of Hugging Face names the licence.
constexpr std::string_view kCard = "README.md";
constexpr const char* kLicences[] = {kCard.data(), "MODEL_CARD.md", "LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE"};

// `special`: of an encoder's tokenizer. Models of others leave these ids to it.
void write_own(const models::Model& model, const fs::path& folder, const text::SpecialIds& special) {
  models::Config config = model.config();
  if (config.architecture == models::Architecture::encoder_only && model.origin() != nullptr) {
    config.begin_id = special.begin;
    config.end_id = special.end;
    config.unknown_id = special.unknown;
  }
  const io::Tensors tensors = models::tensors_of(model);
  io::write_safetensors(folder / "model.safetensors", tensors,
                        {{"format", models::kFormat}, {models::kChecksumKey, models::checksum(tensors)}});
  io::write_file_atomically(folder / "config.json", models::to_json(config));
}

// Settings and modules are copied from `from`. `weights`: the folder of its weights.
void require_source(const models::Model& model, const fs::path& from, const fs::path& weights, const fs::path& to) {
  std::error_code ignored;
  require(fs::is_directory(from, ignored), kSaver, "the folder that the model was loaded from, ", files::quoted(from),
          ", whose settings are copied; found none");
  if (!fs::equivalent(from, to, ignored)) return;
  for (const auto& [format, stored] : {std::pair{WeightFormat::int8, DType::i8}, {WeightFormat::bf16, DType::bf16}}) {
    if (!model.packed_as(format)) continue;
    const fs::path one = weights / "model.safetensors";
    const io::Tensors tensors =
        fs::exists(one, ignored) ? io::read_safetensors(one).tensors : io::read_weights(weights).tensors;
    require(std::ranges::any_of(tensors, [&](const auto& entry) { return entry.second.dtype() == stored; }), kSaver,
            "another folder than ", files::quoted(from), ", because its weights were rounded to ", to_string(stored),
            " and would be lost; found the same one");
  }
}

// Before anything is written.
void require_sentencepiece(const text::Tokenizer& tokenizer) {
  require(tokenizer.kind() == "sentencepiece", kSaver,
          "SentencePiece models, as Marian has them; found a tokenizer of kind \"", tokenizer.kind(), "\"");
}

// A SentencePiece model under another name: Tokenizer::save() names it after its side.
void save_spm(const text::Tokenizer& tokenizer, const fs::path& folder, text::Side side, const char* name) {
  tokenizer.save(folder, side);
  const fs::path own = folder / (side == text::Side::source ? "source.model" : "target.model");
  std::error_code error;
  if (!fs::exists(own, error) && fs::exists(folder / name, error)) return;  // it came from a Marian
  fs::rename(own, folder / name, error);
  require(!error, kSaver, (folder / name).string(), ": a file that can be written; ", error.message());
}

// A heed translator's tokenizers as those of a Marian.
void save_marian_tokenizers(const text::Tokenizer& source, const text::Tokenizer& target, const models::Config& config,
                            const fs::path& folder) {
  save_spm(source, folder, text::Side::source, "source.spm");
  save_spm(target, folder, text::Side::target, "target.spm");
  const auto pieces_of = [](const text::Tokenizer& tokenizer) {
    std::vector<std::string> pieces;
    for (int32_t id = 0; id < tokenizer.vocabulary(); ++id) pieces.push_back(tokenizer.piece(id));
    return pieces;
  };
  write_marian_files({.source = pieces_of(source),
                      .target = config.share_embeddings ? std::vector<std::string>() : pieces_of(target),
                      .end = source.piece(source.special().end),
                      .unknown = source.piece(source.special().unknown),
                      .padding = source.piece(source.special().padding),
                      .longest = config.max_length},
                     folder);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, kSaver, "a folder at ", folder.string(), "; found: ", error.message());
}

// Whether the folder that save_model() writes is read as heed's own.
bool becomes_own(const models::Model& model, Layout layout) {
  return layout == Layout::heed || (layout == Layout::same && model.origin() == nullptr);
}

void save_model(const models::Model& model, const fs::path& folder, Layout layout, const text::SpecialIds& special) {
  require(layout != Layout::huggingface || !model.packed_as(WeightFormat::int8), kSaver,
          "weights in f32 for a folder that transformers reads; found weights in int8");
  make_folder(folder);
  if (becomes_own(model, layout)) {
    write_own(model, folder, special);
  } else if (model.origin() == nullptr) {
    models::save_huggingface(model, folder);
  } else {
    models::save(model, folder);
  }
}

// A README.md that begins as Hugging Face's model cards do: with lines between "---", one of which says whose it is.
bool is_model_card(const fs::path& file) {
  constexpr std::string_view kKeys[] = {"license:", "library_name:", "base_model:", "pipeline_tag:"};
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return false;
  std::istringstream lines(io::read_file(file));
  std::string line;
  const auto next = [&] {
    const bool found = static_cast<bool>(std::getline(lines, line));
    if (line.ends_with('\r')) line.pop_back();
    return found;
  };
  if (!next() || line != "---") return false;
  while (next() && line != "---")
    if (std::ranges::any_of(kKeys, [&](std::string_view key) { return line.starts_with(key); })) return true;
  return false;
}

}  // namespace

std::vector<fs::path> side_files(const fs::path& from, const fs::path& to, const fs::path& inner) {
  std::vector<fs::path> names;
  std::error_code ignored;
  const bool onto_itself = fs::equivalent(from, to, ignored);
  for (const fs::path& place : {fs::path(), inner}) {
    for (const fs::path& name : io::safetensors_shards(to / place)) names.push_back((place / name).lexically_normal());
    if (onto_itself) continue;
    for (const char* const name : text::tokenizer_files()) names.push_back((place / name).lexically_normal());
    for (const char* const name : kSideFiles) names.push_back((place / name).lexically_normal());
    for (const char* const name : models::sentence_settings_files()) names.push_back((place / name).lexically_normal());
  }
  if (!onto_itself && is_model_card(to / kCard)) names.emplace_back(kCard);
  return names;
}

namespace {

// Those of these files that are there.
template <class Names>
void copy_files(const fs::path& from, const fs::path& to, const Names& names) {
  for (const char* const name : names) {
    std::error_code ignored;
    if (!fs::exists(from / name, ignored) || fs::equivalent(from / name, to / name, ignored)) continue;
    io::write_file_atomically(to / name, io::read_file(from / name));
  }
}

// A module of sentence-transformers. Those of a Dense module are its only weights.
void copy_module(const fs::path& from, const fs::path& to) {
  constexpr const char* kFiles[] = {"config.json", "model.safetensors"};
  copy_files(from, to, kFiles);
  std::error_code ignored;
  if (fs::exists(from / "pytorch_model.bin", ignored) && !fs::exists(from / "model.safetensors", ignored))
    io::write_safetensors(to / "model.safetensors", io::read_weights(from).tensors, {{"format", "pt"}});
}

// Into `folder`, which becomes a part of `to`. What stands there already stays, but for a model card.
void copy_licences(const fs::path& from, const fs::path& folder, const fs::path& to) {
  std::error_code ignored;
  for (const char* const& name : kLicences)
    if (!fs::exists(to / name, ignored) || (name == kCard && is_model_card(to / name)))
      copy_files(from, folder, std::span(&name, 1));
}

// A tokenizer of one of heed's own kinds.
bool has_own_tokenizer(const fs::path& folder) {
  std::error_code ignored;
  return std::ranges::any_of(std::array{"source.model", "source.vocab", "target.model", "target.vocab"},
                             [&](const char* name) { return fs::exists(folder / name, ignored); });
}

// transformers has no class for heed's own tokenizers: it gets a tokenizer.json beside their files. Where that has no
// form for them it would take a tokenizer of the model's family, and read every text as unknown tokens; so the class
// gets a name that it refuses to load.
void write_for_transformers(const text::Tokenizer& tokenizer, const models::Config& config, int64_t longest,
                            const fs::path& folder) {
  if (!has_own_tokenizer(folder)) return;
  const bool decoder = config.architecture == models::Architecture::decoder_only;
  const bool masks = !decoder && config.mask_id == tokenizer.vocabulary();
  const bool has_form = text::huggingface::write_tokenizer(
      tokenizer, folder, decoder ? text::Side::target : text::Side::source,
      {.around = decoder ? text::Around::none : text::Around::both, .longest = longest, .mask = masks ? "[MASK]" : ""});
  if (!has_form)
    io::write_file_atomically(folder / "tokenizer_config.json", "{\n  \"tokenizer_class\": \"HeedTokenizer\"\n}\n");
}

// A folder in heed's own layout has as many tokens as rows; the mask's row may be behind them.
void require_all_tokens(const text::Tokenizer& tokenizer, int64_t rows, int64_t mask_id = -1) {
  const int64_t tokens = tokenizer.vocabulary();
  require(tokens == rows || (tokens == mask_id && tokens + 1 == rows), kSaver, "a tokenizer of ", rows,
          " tokens, as many as the model has rows, for heed's own layout; found ", tokenizer.vocabulary());
}

}  // namespace

bool lacks_tokenizer_json(const fs::path& folder) {
  std::error_code ignored;
  const fs::path encoder = SentenceModules::folders(folder).front();
  return has_own_tokenizer(encoder) && !fs::exists(encoder / "tokenizer.json", ignored);
}

void save(const Translator& translator, const fs::path& from, const fs::path& to, Layout layout) {
  const models::Model& model = translator.model();
  require_source(model, from, from, to);
  const bool own = model.origin() == nullptr, will_be_own = becomes_own(model, layout);
  const text::Tokenizer &source = translator.source_tokenizer(), &target = translator.target_tokenizer();
  if (!own && will_be_own) {  // there the end id alone stands around a text
    text::Ids plain = source.encode("a");
    plain.push_back(static_cast<int32_t>(model.config().end_id));
    require(translator.encode("a") == plain, kSaver,
            "a model that reads a text and the end id, for heed's own layout; found other tokens around texts");
    require_all_tokens(source, model.config().source_vocabulary);
    require_all_tokens(target, model.config().target_vocabulary);
  }
  if (own && !will_be_own) {
    require_sentencepiece(source);
    require_sentencepiece(target);
  }
  files::write_folder(to, kSaver, side_files(from, to), [&](const fs::path& folder) {
    save_model(model, folder, layout, target.special());
    if (own && !will_be_own) {
      save_marian_tokenizers(source, target, model.config(), folder);
      return copy_licences(from, folder, to);
    }
    source.save(folder, text::Side::source);
    target.save(folder, text::Side::target);
    copy_files(from, folder, kSideFiles);
    std::error_code ignored;
    if (!own && will_be_own && !fs::exists(from / kSearchSettings, ignored))
      io::write_file_atomically(folder / kSearchSettings, generate::generation_config_of(from));
    copy_licences(from, folder, to);
  });
}

void save(const Generator& generator, const fs::path& from, const fs::path& to, Layout layout) {
  require_source(generator.model(), from, from, to);
  files::write_folder(to, kSaver, side_files(from, to), [&](const fs::path& folder) {
    save_model(generator.model(), folder, layout, generator.tokenizer().special());
    generator.tokenizer().save(folder, text::Side::target);
    if (layout == Layout::huggingface) {
      const models::Config& config = generator.model().config();
      write_for_transformers(generator.tokenizer(), config, config.max_length, folder);
    }
    copy_files(from, folder, kSideFiles);
    copy_licences(from, folder, to);
  });
}

void save(const Encoder& encoder, const fs::path& from, const fs::path& to, Layout layout) {
  const models::Model& model = encoder.model();
  const text::Tokenizer& tokenizer = encoder.tokenizer();
  const std::vector<fs::path> folders = SentenceModules::folders(from);  // the encoder's first
  require_source(model, from, folders.front(), to);
  const fs::path inner = folders.front().lexically_relative(from).lexically_normal();
  if (model.origin() != nullptr && becomes_own(model, layout)) {
    const text::Ids one = tokenizer.tokens("a").ids;
    const text::SpecialIds special = tokenizer.special();
    require(one.size() >= 2 && one.front() == special.begin && one.back() == special.end, kSaver,
            "a model that reads texts between a begin and an end id, for heed's own layout; found another one");
    require_all_tokens(tokenizer, model.config().source_vocabulary, model.config().mask_id);
    const bool has_own_mask = model.config().mask_id == tokenizer.vocabulary();
    require(model.config().head != models::Head::masked_token || has_own_mask, kSaver,
            "a model whose masked token is known, for heed's own layout; found one that fills masks of others");
  }
  files::write_folder(to, kSaver, side_files(from, to, inner), [&](const fs::path& top) {
    const auto place = [&](const fs::path& folder) {
      return (top / folder.lexically_relative(from)).lexically_normal();
    };
    const fs::path folder = place(folders.front());
    save_model(model, folder, layout, tokenizer.special());
    tokenizer.save(folder, text::Side::source);
    if (!becomes_own(model, layout)) write_for_transformers(tokenizer, model.config(), encoder.longest(), folder);
    copy_files(folders.front(), folder, models::sentence_settings_files());
    copy_files(from, top, kSideFiles);
    copy_licences(from, top, to);
    // Folders in heed's own layout have no tokenizer_config.json, which may have said it.
    const bool is_limited = encoder.longest() < model.config().max_length;
    if (is_limited && model.origin() != nullptr && becomes_own(model, layout))
      models::keep_longest(encoder.longest(), folder, kSaver);
    for (size_t i = 1; i < folders.size(); ++i) {
      if (place(folders[i]) == folder) continue;  // a module without files of its own
      make_folder(place(folders[i]));
      copy_module(folders[i], place(folders[i]));
      if (i == 1) models::keep_prompts_out(folders[i], place(folders[i]));  // the Pooling
    }
  });
}

}  // namespace heed::pipelines
