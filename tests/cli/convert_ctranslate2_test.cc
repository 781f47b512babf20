// heed convert from CTranslate2's folders: beside what CTranslate2 translates with them (tools/golden_ctranslate2.py).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/program.h"

namespace heed::cli::test {
namespace {

const fs::path kGolden = fs::path(HEED_SOURCE_DIR) / "tests" / "data" / "ctranslate2";

std::string lines_of(const nlohmann::json& texts) {
  std::string lines;
  for (const std::string text : texts) lines += text + "\n";
  return lines;
}

std::vector<nlohmann::json> tokens_of(const std::string& model, const std::string& input, const char* most) {
  const Result r = run({"translate", model, "--beam", "1", "--max-length", most, "--length-factor", "0", "--json"},
                       {.input = input});
  EXPECT_EQ(r.status, 0) << r.err;
  std::vector<nlohmann::json> tokens;
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);)
    tokens.push_back(nlohmann::json::parse(line)["translations"][0]["tokens"]);
  return tokens;
}

TEST(ConvertCtranslate2, TranslatesAsCtranslate2Does) {
  const auto expected = nlohmann::json::parse(read(kGolden / "expected.json"));
  for (const char* const kind : {"f32", "f16", "int8"}) {
    for (const char* const layout : {"heed", "huggingface"}) {
      SCOPED_TRACE(std::string(kind) + " " + layout);
      const Folder folder;
      const std::string model = (folder / "model").string();
      const Result r =
          run({"convert", (kGolden / kind).string(), model, "--layout", layout, "--tokenizers", kGolden.string()});
      ASSERT_EQ(r.status, 0) << r.err;
      // The generation_config.json of a Marian forces the end as the last token.
      const auto found = tokens_of(model, lines_of(expected["texts"]), layout[1] == 'u' ? "25" : "24");
      ASSERT_EQ(found.size(), expected[kind].size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], expected[kind][i]) << i;
      const auto config = nlohmann::json::parse(read(fs::path(model) / "config.json"));
      EXPECT_EQ(config.contains("model_type") ? config["model_type"] : "", layout[1] == 'u' ? "marian" : "");
    }
  }
}

TEST(ConvertCtranslate2, Int8IsThatOfHeed) {
  const Folder folder;
  const std::string wide = (folder / "wide").string(), narrow = (folder / "narrow").string();
  const std::string tokenizers = kGolden.string(), model = (kGolden / "f32").string();
  ASSERT_EQ(run({"convert", model, wide, "--tokenizers", tokenizers}).status, 0);
  const Result r = run({"convert", model, narrow, "--tokenizers", tokenizers, "--weights", "int8"});
  ASSERT_EQ(r.status, 0) << r.err;
  const std::string text = "Alice was beginning to get very tired";
  EXPECT_EQ(run({"translate", narrow, text}).out, run({"translate", wide, text, "--weights", "int8"}).out);
}

// A folder with the golden model, in which something is changed.
std::string changed(const Folder& folder, const std::string& file, const std::string& from, const std::string& to) {
  const fs::path copy = folder / "changed";
  fs::remove_all(copy);
  fs::copy(kGolden / "f32", copy);
  fs::copy(kGolden / "source.spm", copy / "source.spm");
  fs::copy(kGolden / "target.spm", copy / "target.spm");
  std::string bytes = read(copy / file);
  const size_t at = bytes.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  bytes.replace(at, from.size(), to);
  (void)folder.write("changed/" + file, bytes);
  return copy.string();
}

// "scale_embeddings" is a flag if it is a byte, and else the factor: here the root of 16.
TEST(ConvertCtranslate2, ReadsTheFactorOfTheEmbeddings) {
  const Folder folder;
  const std::string model = changed(folder, "config.json", "false", "false"), out = (folder / "out").string();
  const auto scaled_by = [&](const std::string& factor, const std::string& before) {
    std::string bytes = read(fs::path(model) / "model.bin");
    const auto field = [](const std::string& kind_and_value) { return "scale_embeddings" + kind_and_value; };
    int found = 0;
    for (size_t at = bytes.find(field(before)); at != std::string::npos; at = bytes.find(field(before), at + 1)) {
      bytes.replace(at, field(before).size(), field(factor));
      ++found;
    }
    EXPECT_EQ(found, 2);
    (void)folder.write("changed/model.bin", bytes);
    return run({"convert", model, out, "--force"});
  };
  const auto number = [](const char* bytes) { return std::string("\0\0\0\4\0\0\0", 7) + std::string(bytes, 4); };
  const std::string four = number("\0\0\x80\x40"), one = number("\0\0\x80\x3f"), three = number("\0\0\x40\x40");
  const auto scales = [&] { return nlohmann::json::parse(read(fs::path(out) / "config.json"))["scale_embedding"]; };
  EXPECT_EQ(scaled_by(four, four).status, 0);
  EXPECT_EQ(scales(), true);
  EXPECT_EQ(scaled_by(one, four).status, 0);
  EXPECT_EQ(scales(), false);
  const Result r = scaled_by(three, one);
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("a factor of the embeddings of 1 or 4"), std::string::npos) << r.err;
}

TEST(ConvertCtranslate2, RefusesByName) {
  const Folder folder;
  const std::string out = (folder / "out").string();
  const auto refused = [&](const std::string& model, const std::string& reason) {
    const Result r = run({"convert", model, out});
    EXPECT_EQ(r.status, 1) << reason;
    EXPECT_NE(r.err.find(reason), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(fs::path(out) / "model.safetensors"));
  };
  EXPECT_EQ(run({"convert", changed(folder, "config.json", "false", "false"), out, "--force"}).status, 0);
  fs::remove_all(out);
  refused((kGolden / "f32").string(), "--tokenizers; found no source.spm");
  refused(changed(folder, "model.bin", "TransformerSpec", "TransformerSpeX"), "found TransformerSpeX");
  refused(changed(folder, "model.bin", "decoder/alignment_heads", "decoder/alignment_heaXs"),
          "found 'decoder/alignment_heaXs'");
  refused(changed(folder, "model.bin", "encoder/layer_1/ffn/linear_0/weight", "encoder/layer_1/ffn/linear_0/Weight"),
          "encoder/layer_1/ffn/linear_0/weight");
  refused(changed(folder, "model.bin", std::string("encoder/activation\0\0\1", 21),
                  std::string("encoder/activation\0\0\7", 21)),
          "type 0 to 5");
  refused(changed(folder, "config.json", "\"add_source_bos\": false", "\"add_source_bos\": true"),
          "add_source_bos false");
  refused(changed(folder, "config.json", "\"eos_token\": \"</s>\"", "\"eos_token\": \"</x>\""), "found </x>");
  refused(changed(folder, "config.json", "{", "["), "config.json");
  refused(changed(folder, "shared_vocabulary.json", "\"<unk>\",", ""), "vocabularies of 93 and 93 tokens");
  refused(changed(folder, "shared_vocabulary.json", "\"<unk>\"", "7"), "a list of tokens; found 7");
  refused(changed(folder, "shared_vocabulary.json", "\"<unk>\"", "\"</s>\""), "an unk_token");
  const Result other =
      run({"convert", (fs::path(HEED_SOURCE_DIR) / "demo" / "en-zh").string(), out, "--tokenizers", kGolden.string()});
  EXPECT_EQ(other.status, 2);
}

}  // namespace
}  // namespace heed::cli::test
