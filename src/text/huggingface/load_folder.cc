#include "text/huggingface/load_folder.h"

#include "base/files.h"
#include "text/huggingface/read_tokenizer.h"

namespace heed::text {

namespace {

// A path as the folder and the name of a file in it.
std::pair<huggingface::TokenizerFiles, std::string> folder_and_name(const std::filesystem::path& file) {
  return {huggingface::TokenizerFiles(file.parent_path()), file.filename().string()};
}

}  // namespace

namespace huggingface {

namespace {

constexpr const char* kFairseqModel = "sentencepiece.bpe.model";

// The class decides how a text is cut, and which ids the pieces have. With those of another class, results would be
// wrong without an error.
void refuse_class(const TokenizerFiles& files, std::string_view known, const Configuration& configuration) {
  const std::string& named = configuration.tokenizer_class;
  fail(
      "load_tokenizer", configuration.class_file, ": a \"tokenizer_class\" that is known without a ",
      "tokenizer.json (", known, "); found ", files::quoted(named.empty() ? usual_class(files, configuration) : named),
      ". AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers writes a tokenizer.json, if the "
      "class has one");
}

std::shared_ptr<const Tokenizer> read_vocab_txt(TokenizerFiles& files, const Configuration& configuration) {
  const std::string name = usual_class(files, configuration);
  const bool is_mpnet = name == "MPNetTokenizer";
  if (!name.empty() && !is_mpnet && !is_bert_class(name))
    refuse_class(files, "BertTokenizer, DistilBertTokenizer, ElectraTokenizer, MPNetTokenizer", configuration);
  return read_wordpiece(files, "vocab.txt", configuration, is_mpnet ? WordPieceKind::mpnet : WordPieceKind::bert);
}

std::shared_ptr<const Tokenizer> read_vocab_and_merges(TokenizerFiles& files, const Configuration& configuration) {
  const std::string name = usual_class(files, configuration);
  BpeKind kind = BpeKind::by_vocabulary;
  if (name == "GPT2Tokenizer") kind = BpeKind::gpt2;
  if (is_roberta_class(name)) kind = BpeKind::roberta;
  if (!name.empty() && kind == BpeKind::by_vocabulary)
    refuse_class(files, "BartTokenizer, GPT2Tokenizer, RobertaTokenizer", configuration);
  return read_byte_level_bpe(files, "vocab.json", "merges.txt", configuration, kind);
}

std::shared_ptr<const Tokenizer> read_fairseq(TokenizerFiles& files, const Configuration& configuration) {
  const std::string name = class_name(configuration);
  require(!name.empty() || files.in_config("model_type") != "mbart", "load_tokenizer",
          files.quoted("tokenizer_config.json"),
          ": a \"tokenizer_class\", MBartTokenizer or MBart50Tokenizer, because their languages differ; found none");
  if (name == "M2M100Tokenizer" || (name.empty() && files.has("vocab.json")))
    return read_m2m100(files, kFairseqModel, configuration);
  if (name == "MBartTokenizer") return read_mbart(files, kFairseqModel, MBartKind::of_25_languages, configuration);
  if (name == "MBart50Tokenizer") return read_mbart(files, kFairseqModel, MBartKind::of_50_languages, configuration);
  const bool is_camembert = (name.empty() ? usual_class(files, configuration) : name) == "CamembertTokenizer";
  if (is_camembert) return read_camembert(files, kFairseqModel, configuration);
  if (!name.empty() && name != "XLMRobertaTokenizer") {
    refuse_class(files, "CamembertTokenizer, M2M100Tokenizer, MBartTokenizer, MBart50Tokenizer, XLMRobertaTokenizer",
                 configuration);
  }
  return read_xlm_roberta(files, kFairseqModel, configuration);
}

bool is_marian(const TokenizerFiles& files) {
  return !files.has("tokenizer.json") && files.has("source.spm") && files.has("target.spm") && files.has("vocab.json");
}

std::shared_ptr<const Tokenizer> read_folder(TokenizerFiles& files, Side side) {
  if (files.has("tokenizer.json")) return read_tokenizer_json(files, "tokenizer.json");
  const Configuration configuration = read_configuration(files);
  if (is_marian(files)) return read_marian(files, side, configuration);
  if (files.has("vocab.txt")) return read_vocab_txt(files, configuration);
  if (files.has("vocab.json") && files.has("merges.txt")) return read_vocab_and_merges(files, configuration);
  if (files.has(kFairseqModel)) return read_fairseq(files, configuration);
  if (files.has("spiece.model")) {
    if (const std::string name = class_name(configuration);
        !name.empty() && name != "T5Tokenizer" && name != "MT5Tokenizer")
      refuse_class(files, "T5Tokenizer", configuration);
    // Others, as Pegasus, move the ids.
    if (const std::string type = files.in_config("model_type"); class_name(configuration).empty() && !type.empty())
      require(type.ends_with("t5"), "load_tokenizer", files.quoted("tokenizer_config.json"),
              ": a \"tokenizer_class\", T5Tokenizer, for spiece.model of a model that is no T5; found none");
    return read_plain_sentencepiece(files, "spiece.model", configuration);
  }
  if (class_name(configuration) == "ByT5Tokenizer")  // which has no file
    refuse_class(files, "T5Tokenizer for such a model", configuration);
  return nullptr;
}

}  // namespace

std::shared_ptr<const Tokenizer> load_folder(const std::filesystem::path& folder, Side side) {
  TokenizerFiles files(folder);
  return read_folder(files, side);
}

TokenizerPair load_folder(const std::filesystem::path& folder) {
  TokenizerFiles files(folder);  // each file is parsed once
  const auto source = read_folder(files, Side::source);
  return {source, is_marian(files) ? read_folder(files, Side::target) : source};
}

}  // namespace huggingface

std::shared_ptr<const Tokenizer> load_tokenizer_json(const std::filesystem::path& file) {
  auto [files, name] = folder_and_name(file);
  return huggingface::read_tokenizer_json(files, name);
}

std::shared_ptr<const Tokenizer> load_wordpiece(const std::filesystem::path& vocabulary,
                                                const WordPieceOptions& options) {
  auto [files, name] = folder_and_name(vocabulary);
  huggingface::Configuration configuration;
  configuration.lowercase = options.lowercase;
  configuration.strip_accents = options.strip_accents;
  configuration.split_chinese = options.split_chinese;
  return huggingface::read_wordpiece(files, name, configuration);
}

std::shared_ptr<const Tokenizer> load_byte_level_bpe(const std::filesystem::path& vocabulary,
                                                     const std::filesystem::path& merges,
                                                     const ByteLevelBpeOptions& options) {
  require(vocabulary.parent_path() == merges.parent_path(), "load_tokenizer",
          "a vocabulary and its merges in one folder; found two folders");
  auto [files, name] = folder_and_name(vocabulary);
  huggingface::Configuration configuration;
  configuration.add_prefix_space = options.add_prefix_space;
  return huggingface::read_byte_level_bpe(files, name, merges.filename().string(), configuration);
}

}  // namespace heed::text
