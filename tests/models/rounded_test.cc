// Folders of others whose weights are in int8: what was rounded when it was loaded, and what is read back, are the
// same.
#include "models/families/rounded.h"

#include <gtest/gtest.h>

#include <set>

#include "base/data.h"
#include "base/message.h"
#include "heed/error.h"
#include "heed/io.h"
#include "models/helpers.h"
#include "models/weights.h"

namespace heed::models::test {
namespace {

namespace fs = std::filesystem;
using heed::test::test_data;
using testing::message_of;

constexpr LoadOptions kRounding = {.packed = true, .weights = WeightFormat::int8};

// One for each way in which a family's weights stand in a file: fused, shared, tied, with and without a prefix.
const std::set<std::string> kFamilies = {"bart",
                                         "bert-classify",
                                         "bert-cross-encoder",
                                         "bert-masked-bf16",
                                         "bert-sharded",
                                         "bert-answer",
                                         "bert-tokens",
                                         "distilbert-classify",
                                         "m2m100",
                                         "marian",
                                         "marian-apart",
                                         "mbart",
                                         "modernbert-classify-cls",
                                         "modernbert-masked",
                                         "mpnet-masked",
                                         "mt5",
                                         "mt5-encoder",
                                         "nllb",
                                         "roberta-classify",
                                         "st-mean",
                                         "t5",
                                         "t5-v1.1",
                                         "xlm-roberta-masked"};

Tensor results_of(const Model& model) {
  const NoGradScope no_grad;
  const std::vector<Ids> rows = {random_ids(6, 11, 3), random_ids(4, 11, 4)};
  if (const auto* const bert = dynamic_cast<const Bert*>(&model)) {
    const bool states = model.config().head == Head::none;
    return (states ? bert->pooled(batch(rows), lengths(rows)) : bert->forward(batch(rows), lengths(rows))).data();
  }
  const auto& transformer = dynamic_cast<const Transformer&>(model);
  return transformer.forward(batch(rows), lengths(rows), batch(rows)).data();
}

struct Rounded {
  explicit Rounded(const std::string& family)
      : from(test_data("families") / family), model(load(from, kRounding)), folder(made / "rounded") {
    save(*model, folder);
  }
  [[nodiscard]] io::Json config() const { return io::parse_json(io::read_file(folder / "config.json")).value; }
  [[nodiscard]] std::string message() const {
    return message_of([&] { (void)load(folder, kRounding); });
  }

  TemporaryFolder made;
  fs::path from;
  std::unique_ptr<Model> model;
  fs::path folder;
};

TEST(RoundedFolder, OfEveryFamilyHasTheBitsOfRoundingWhenItIsLoaded) {
  for (const std::string& family : kFamilies) {
    SCOPED_TRACE(family);
    const Rounded rounded(family);
    ASSERT_TRUE(rounded.model->packed_as(WeightFormat::int8));
    const Tensor expected = results_of(*rounded.model);
    for (const WeightFormat asked : {WeightFormat::f32, WeightFormat::int8}) {
      const auto again = load(rounded.folder, {.packed = true, .weights = asked});
      EXPECT_TRUE(again->packed_as(WeightFormat::int8));
      EXPECT_EQ(to_json(again->config()), to_json(rounded.model->config()));
      EXPECT_TRUE(same_bits(results_of(*again), expected));
      EXPECT_TRUE(was_rounded(*again));
      save(*again, rounded.made / "again");
      for (const char* const file : {"config.json", "model.safetensors"})
        EXPECT_EQ(io::read_file(rounded.made / "again" / file), io::read_file(rounded.folder / file)) << file;
    }
    EXPECT_EQ(to_json(read_config(rounded.folder)), to_json(rounded.model->config()));
    io::Json config = rounded.config();
    EXPECT_EQ(config.at("quantization_config"), (io::Json{{"made_by", "heed"}, {"bits", 8}}));
    config.erase("quantization_config");
    EXPECT_EQ(config, io::parse_json(io::read_file(rounded.from / "config.json")).value);
  }
}

TEST(RoundedFolder, IsNotWrittenInF32) {
  const Rounded rounded("bert-masked");
  const auto plain = load(rounded.folder);
  EXPECT_FALSE(plain->packed_as(WeightFormat::int8));
  EXPECT_CONTAINS(message_of([&] { save(*plain, rounded.made / "plain"); }), "in int8; found them in f32");
}

// Nothing that config.json says is read again, so a change would have no effect.
TEST(RoundedFolder, RefusesAChangedConfiguration) {
  const Rounded rounded("bert-classify");
  const fs::path file = rounded.folder / "config.json";
  io::Json config = rounded.config();
  io::write_file_atomically(file, io::json_text(config));  // in one line: the same configuration
  EXPECT_NO_THROW((void)load(rounded.folder, kRounding));
  config["id2label"]["0"] = "happy";
  io::write_file_atomically(file, io::json_text(config, 2));
  for (const std::string& message : {rounded.message(), message_of([&] { (void)read_config(rounded.folder); })})
    EXPECT_CONTAINS(message, file.string() + ": what heed wrote beside the weights in int8; found another file");
}

TEST(RoundedFolder, RefusesOtherWeights) {
  const Rounded rounded("bert-classify");
  const fs::path file = rounded.folder / "model.safetensors";
  const io::SafetensorsFile written = io::read_safetensors(file);
  const std::string name = "encoder.layers.0.feed_forward.inner.weight";
  for (const char* const lost : {"heed.config", "heed.config_of"}) {
    auto metadata = written.metadata;
    ASSERT_EQ(metadata.erase(lost), 1u);
    io::write_safetensors(rounded.made / "other.safetensors", written.tensors, metadata);
    fs::rename(rounded.made / "other.safetensors", file);
    EXPECT_CONTAINS(rounded.message(), "metadata with \"heed.config\" and \"heed.config_of\"");
  }
  io::Tensors changed = written.tensors;
  ASSERT_EQ(changed.at(name).dtype(), DType::i8);
  changed.at(name) = changed.at(name).clone();
  *changed.at(name).data<int8_t>() ^= 1;
  io::write_safetensors(file, changed, written.metadata);
  EXPECT_CONTAINS(rounded.message(), "the file has changed since");
  auto metadata = written.metadata;
  metadata.at("heed.config") = "{\"width\": \"wide\"}";
  io::write_safetensors(file, written.tensors, metadata);
  EXPECT_CONTAINS(rounded.message(), file.string() + ", \"heed.config\"");
  fs::remove(file);
  EXPECT_CONTAINS(rounded.message(), "found no model.safetensors there");
}

// Weights that another tool has quantised are still refused.
TEST(RoundedFolder, IsOnlyWhatHeedHasWritten) {
  const Rounded rounded("bert-classify");
  for (const io::Json& other : {io::Json{{"quant_method", "heed"}}, io::Json{{"bits", 8}}, io::Json("heed")}) {
    io::Json config = rounded.config();
    config["quantization_config"] = other;
    io::write_file_atomically(rounded.folder / "config.json", io::json_text(config, 2));
    EXPECT_CONTAINS(rounded.message(), "weights that are not quantised");
  }
}

}  // namespace
}  // namespace heed::models::test
