// Loaded pipelines as folders: weights, configuration, tokenizers, and the small files beside them.
#include "pipelines/save.h"

#include <algorithm>
#include <system_error>

#include "formats/json.h"
#include "heed/error.h"
#include "heed/io.h"
#include "models/weights.h"
#include "pipelines/sentence_modules.h"

namespace heed::pipelines {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSaver = "save";

bool has_int8(const models::Model& model) {
  const auto parameters = model.named_parameters();
  return std::any_of(parameters.begin(), parameters.end(), [](const auto& parameter) {
    const auto packed = parameter.second.packed();
    return packed != nullptr && packed->format() == WeightFormat::int8;
  });
}

void write_own(const models::Model& model, const fs::path& folder) {
  const io::Tensors tensors = models::tensors_of(model);
  io::write_safetensors(folder / "model.safetensors", tensors,
                        {{"format", models::kFormat}, {models::kChecksumKey, models::checksum(tensors)}});
  io::write_file_atomically(folder / "config.json", models::to_json(model.config()));
}

// {"piece": id, ...}
std::string vocabulary_json(const text::Tokenizer& tokenizer) {
  io::Json object = io::Json::object();
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id) object[tokenizer.piece(id)] = id;
  return io::json_text(object) + "\n";
}

// A SentencePiece model under another name: Tokenizer::save() names it after its side.
void save_spm(const text::Tokenizer& tokenizer, const fs::path& folder, text::Side side, const char* name) {
  require(tokenizer.kind() == "sentencepiece", kSaver,
          "SentencePiece models, as Marian has them; found a tokenizer of ", "kind \"", tokenizer.kind(), "\"");
  tokenizer.save(folder, side);
  const fs::path own = folder / (side == text::Side::source ? "source.model" : "target.model");
  std::error_code error;
  fs::rename(own, folder / name, error);
  require(!error, kSaver, (folder / name).string(), ": a file that can be written; ", error.message());
}

// A heed translator's tokenizers as those of a Marian: two SentencePiece models, and the ids of their pieces.
void save_marian_tokenizers(const text::Tokenizer& source, const text::Tokenizer& target, const models::Config& config,
                            const fs::path& folder) {
  save_spm(source, folder, text::Side::source, "source.spm");
  save_spm(target, folder, text::Side::target, "target.spm");
  io::write_file_atomically(folder / "vocab.json", vocabulary_json(source));
  io::Json settings = io::Json::object();
  settings["tokenizer_class"] = "MarianTokenizer";
  if (!config.share_embeddings) {
    io::write_file_atomically(folder / "target_vocab.json", vocabulary_json(target));
    settings["separate_vocabs"] = true;
  }
  settings["eos_token"] = source.piece(source.special().end);
  settings["unk_token"] = source.piece(source.special().unknown);
  settings["pad_token"] = source.piece(source.special().padding);
  settings["model_max_length"] = config.max_length;
  io::write_file_atomically(folder / "tokenizer_config.json", io::json_text(settings) + "\n");
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, kSaver, "a folder at ", folder.string(), "; found: ", error.message());
}

// Whether the folder that save_model() writes is read as heed's own.
bool becomes_own(const models::Model& model, Layout layout) {
  const bool own = model.origin() == nullptr;
  return layout == Layout::heed || has_int8(model) || (own && layout == Layout::same);
}

void save_model(const models::Model& model, const fs::path& folder, Layout layout) {
  require(layout != Layout::huggingface || !has_int8(model), kSaver,
          "weights in f32 for the layout of Hugging Face; found weights in int8, which heed's own layout holds");
  make_folder(folder);
  if (becomes_own(model, layout)) {
    write_own(model, folder);
  } else if (model.origin() == nullptr) {
    models::save_huggingface(model, folder);
  } else {
    models::save(model, folder);
  }
}

// Those of these files that are there.
void copy_files(const fs::path& from, const fs::path& to, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    std::error_code ignored;
    if (!fs::exists(from / name, ignored) || fs::equivalent(from / name, to / name, ignored)) continue;
    io::write_file_atomically(to / name, io::read_file(from / name));
  }
}

// A folder in heed's own layout has as many tokens as rows.
void require_all_tokens(const text::Tokenizer& tokenizer, int64_t rows) {
  require(tokenizer.vocabulary() == rows, kSaver, "a tokenizer of ", rows,
          " tokens, as many as the model has rows, for heed's own layout; found ", tokenizer.vocabulary());
}

}  // namespace

void save(const Translator& translator, const fs::path& from, const fs::path& to, Layout layout) {
  const models::Model& model = translator.model();
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
  save_model(model, to, layout);
  if (own && !will_be_own) return save_marian_tokenizers(source, target, model.config(), to);
  source.save(to, text::Side::source);
  target.save(to, text::Side::target);
  copy_files(from, to, {"generation_config.json"});
}

void save(const Generator& generator, const fs::path& from, const fs::path& to, Layout layout) {
  save_model(generator.model(), to, layout);
  generator.tokenizer().save(to, text::Side::target);
  copy_files(from, to, {"generation_config.json"});
}

void save(const Encoder& encoder, const fs::path& from, const fs::path& to, Layout layout) {
  const models::Model& model = encoder.model();
  const text::Tokenizer& tokenizer = encoder.tokenizer();
  const std::vector<fs::path> folders = SentenceModules::folders(from);  // the encoder's first
  const auto place = [&](const fs::path& folder) { return (to / folder.lexically_relative(from)).lexically_normal(); };
  if (model.origin() != nullptr && becomes_own(model, layout)) {
    const text::Ids one = tokenizer.tokens("a").ids;
    const text::SpecialIds special = tokenizer.special();
    require(one.size() >= 2 && one.front() == special.begin && one.back() == special.end, kSaver,
            "a model that reads texts between a begin and an end id, for heed's own layout; found another one");
    require_all_tokens(tokenizer, model.config().source_vocabulary);
  }
  save_model(model, place(folders.front()), layout);
  tokenizer.save(place(folders.front()), text::Side::source);
  copy_files(folders.front(), place(folders.front()),
             {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
              "sentence_camembert_config.json", "sentence_xlm-roberta_config.json"});
  copy_files(from, to, {"modules.json", "config_sentence_transformers.json"});
  for (size_t i = 1; i < folders.size(); ++i) {
    make_folder(place(folders[i]));
    copy_files(folders[i], place(folders[i]), {"config.json", "model.safetensors"});
  }
}

}  // namespace heed::pipelines
