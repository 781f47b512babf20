// heed's own decoders in the layouts of others, computed from the files by the oracle, which reads them as transformers
// does: GPT2LMHeadModel and MptForCausalLM.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/data.h"
#include "base/message.h"
#include "base/scratch.h"
#include "heed/error.h"
#include "heed/io.h"
#include "models/helpers.h"

namespace heed::models::test {
namespace {

using heed::test::contents_of;
using heed::test::Scratch;
using heed::testing::message_of;
using nlohmann::json;
using oracle::Matrix;

const Ids kText = {1, 6, 3, 4, 10, 2, 7};

class Folder {
 public:
  explicit Folder(const std::filesystem::path& path)
      : config_(json::parse(contents_of(path / "config.json"))),
        tensors_(io::read_safetensors(path / "model.safetensors").tensors) {}

  [[nodiscard]] const json& config() const { return config_; }

  // Vectors are one row.
  Matrix take(const std::string& name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      ADD_FAILURE() << "no tensor " << name;
      return {};
    }
    const Tensor dense = found->second.contiguous();
    Matrix m(dense.rank() == 1 ? 1 : dense.size(0), dense.size(-1));
    for (size_t i = 0; i < m.values.size(); ++i) m.values[i] = dense.data<float>()[i];
    tensors_.erase(found);
    return m;
  }
  [[nodiscard]] size_t left() const { return tensors_.size(); }

 private:
  json config_;
  io::Tensors tensors_;
};

Matrix transposed(const Matrix& m) {
  Matrix t(m.columns, m.rows);
  for (int64_t i = 0; i < m.rows; ++i) {
    for (int64_t j = 0; j < m.columns; ++j) t.at(j, i) = m.at(i, j);
  }
  return t;
}

Matrix rows_of(const Matrix& m, int64_t first, int64_t count) {
  Matrix part(count, m.columns);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < m.columns; ++j) part.at(i, j) = m.at(first + i, j);
  }
  return part;
}

// (1, 3 E) as three rows.
Matrix thirds(const Matrix& row) {
  Matrix three(3, row.columns / 3);
  three.values = row.values;
  return three;
}

std::string our_word(const std::string& activation) { return activation == "gelu_new" ? "gelu_tanh" : activation; }

oracle::Transformer gpt2(Folder& folder) {
  const json& c = folder.config();
  oracle::Transformer t;
  t.width = c["n_embd"];
  t.heads = t.key_value_heads = c["n_head"];
  t.head_size = t.value_size = t.width / t.heads;
  t.decoder_layers = c["n_layer"];
  t.activation = our_word(c["activation_function"]);
  t.positions = "learned";
  t.pre_norm = true;
  t.scale_embedding = false;
  t.epsilon = c["layer_norm_epsilon"];
  t.weights["decoder.embedding.tokens.weight"] = folder.take("transformer.wte.weight");
  t.weights["decoder.embedding.positions"] = folder.take("transformer.wpe.weight");
  EXPECT_EQ(t.weights["decoder.embedding.tokens.weight"].rows, c["vocab_size"]);
  EXPECT_EQ(t.weights["decoder.embedding.positions"].rows, c["n_positions"]);
  const auto norm = [&](const std::string& ours, const std::string& theirs) {
    t.weights[ours + ".gain"] = folder.take(theirs + ".weight");
    t.weights[ours + ".bias"] = folder.take(theirs + ".bias");
  };
  const auto linear = [&](const std::string& ours, const std::string& theirs) {
    t.weights[ours + ".weight"] = transposed(folder.take(theirs + ".weight"));
    t.weights[ours + ".bias"] = folder.take(theirs + ".bias");
  };
  for (int64_t i = 0; i < t.decoder_layers; ++i) {
    const std::string ours = "decoder.layers." + std::to_string(i) + ".",
                      theirs = "transformer.h." + std::to_string(i) + ".";
    norm(ours + "self_attention_norm", theirs + "ln_1");
    norm(ours + "feed_forward_norm", theirs + "ln_2");
    const Matrix weight = transposed(folder.take(theirs + "attn.c_attn.weight"));
    const Matrix bias = thirds(folder.take(theirs + "attn.c_attn.bias"));
    for (int64_t part = 0; part < 3; ++part) {
      const std::string name =
          ours + "self_attention." + std::vector<std::string>{"query", "key", "value"}[static_cast<size_t>(part)];
      t.weights[name + ".weight"] = rows_of(weight, part * t.width, t.width);
      t.weights[name + ".bias"] = rows_of(bias, part, 1);
    }
    linear(ours + "self_attention.output", theirs + "attn.c_proj");
    linear(ours + "feed_forward.inner", theirs + "mlp.c_fc");
    linear(ours + "feed_forward.outer", theirs + "mlp.c_proj");
  }
  norm("decoder.norm", "transformer.ln_f");
  if (!c["tie_word_embeddings"]) t.weights["output.weight"] = folder.take("lm_head.weight");
  return t;
}

oracle::Transformer mpt(Folder& folder) {
  const json& c = folder.config();
  oracle::Transformer t;
  t.width = c["d_model"];
  t.heads = t.key_value_heads = c["n_heads"];
  t.head_size = t.value_size = t.width / t.heads;
  t.decoder_layers = c["n_layers"];
  t.activation = "gelu";
  t.positions = "alibi";
  t.pre_norm = true;
  t.scale_embedding = false;
  t.epsilon = c["layer_norm_epsilon"];
  EXPECT_TRUE(c["attn_config"]["alibi"]);
  EXPECT_EQ(c["attn_config"]["alibi_bias_max"], 8);
  t.weights["decoder.embedding.tokens.weight"] = folder.take("transformer.wte.weight");
  EXPECT_EQ(t.weights["decoder.embedding.tokens.weight"].rows, c["vocab_size"]);
  for (int64_t i = 0; i < t.decoder_layers; ++i) {
    const std::string ours = "decoder.layers." + std::to_string(i) + ".",
                      theirs = "transformer.blocks." + std::to_string(i) + ".";
    t.weights[ours + "self_attention_norm.gain"] = folder.take(theirs + "norm_1.weight");
    t.weights[ours + "feed_forward_norm.gain"] = folder.take(theirs + "norm_2.weight");
    const Matrix weight = folder.take(theirs + "attn.Wqkv.weight");
    t.weights[ours + "self_attention.query.weight"] = rows_of(weight, 0, t.width);
    t.weights[ours + "self_attention.key.weight"] = rows_of(weight, t.width, t.width);
    t.weights[ours + "self_attention.value.weight"] = rows_of(weight, 2 * t.width, t.width);
    t.weights[ours + "self_attention.output.weight"] = folder.take(theirs + "attn.out_proj.weight");
    t.weights[ours + "feed_forward.inner.weight"] = folder.take(theirs + "ffn.up_proj.weight");
    t.weights[ours + "feed_forward.outer.weight"] = folder.take(theirs + "ffn.down_proj.weight");
    EXPECT_EQ(t.weights[ours + "feed_forward.inner.weight"].rows, t.width * c["expansion_ratio"].get<int64_t>());
  }
  t.weights["decoder.norm.gain"] = folder.take("transformer.norm_f.weight");
  if (!c["tie_word_embeddings"]) t.weights["output.weight"] = folder.take("lm_head.weight");
  return t;
}

Config own_decoder() {
  Config config = small(Architecture::decoder_only);
  config.norm_placement = NormPlacement::pre;
  config.final_norm = true;
  config.activation = Activation::gelu;
  config.positions = Positions::learned;
  config.scale_embedding = false;
  return config;
}

void expect_same(const std::string& name, const Config& config, oracle::Transformer (*read)(Folder&)) {
  SCOPED_TRACE(name);
  const Gpt model(config, 4);
  shake(model);
  const Scratch scratch;
  save_huggingface(model, scratch.path());
  Folder folder(scratch.path());
  const oracle::Transformer plain = read(folder);
  EXPECT_EQ(folder.left(), 0u);
  const NoGradScope no_grad;
  expect_near(model.forward(batch({kText})).data().select(0, 0), plain.gpt(kText), 1e-5, name);
}

TEST(SaveHuggingface, ADecoderIsAGpt2) {
  const std::vector<std::pair<std::string, void (*)(Config&)>> cases = {
      {"as it is", [](Config&) {}},
      {"untied", [](Config& c) { c.tie_output = false; }},
      {"no biases", [](Config& c) { c.bias = false; }},
      {"first position 3", [](Config& c) { c.first_position = 3; }},
      {"no positions", [](Config& c) { c.positions = Positions::none; }},
      {"one head of keys and values", [](Config& c) { c.key_value_heads = 1; }},
      {"gelu_tanh", [](Config& c) { c.activation = Activation::gelu_tanh; }},
      {"relu", [](Config& c) { c.activation = Activation::relu; }},
      {"scaled", [](Config& c) { c.scale_embedding = true; }},
      {"scaled and untied",
       [](Config& c) {
         c.scale_embedding = true;
         c.tie_output = false;
       }},
      {"sinusoidal",
       [](Config& c) {
         c.positions = Positions::sinusoidal;
         c.first_position = 2;
       }},
      {"sinusoidal in halves",
       [](Config& c) {
         c.positions = Positions::sinusoidal;
         c.position_layout = nn::PositionLayout::halves;
       }},
  };
  for (const auto& [name, change] : cases) {
    Config config = own_decoder();
    change(config);
    expect_same(name, config, gpt2);
  }
}

TEST(SaveHuggingface, ADecoderWithAlibiIsAnMpt) {
  Config config = own_decoder();
  config.positions = Positions::alibi;
  config.bias = false;
  config.feed_forward = 4 * config.width;
  expect_same("as it is", config, mpt);
  config.scale_embedding = true;
  expect_same("scaled", config, mpt);
  config.tie_output = false;
  expect_same("scaled and untied", config, mpt);
  config.key_value_heads = 1;
  expect_same("one head of keys and values", config, mpt);
}

TEST(SaveHuggingface, NamesWhatNoDecoderOfOthersHas) {
  const auto message = [](void (*change)(Config&)) {
    Config config = own_decoder();
    change(config);
    const Scratch folder;
    return message_of([&] { save_huggingface(Gpt(config, 1), folder / "out"); });
  };
  const auto alibi = [](Config& c) {
    c.positions = Positions::alibi;
    c.feed_forward = 4 * c.width;
  };
  EXPECT_EQ(
      message(alibi),
      "[save_huggingface] layers without biases (bias = false), as an MPT has; found a model with something else");
  EXPECT_NE(message([](Config& c) {
              c.positions = Positions::alibi;
              c.bias = false;
            }).find("feed_forward of 4 width and gelu, as an MPT has"),
            std::string::npos);
  EXPECT_NE(message([](Config& c) { c.positions = Positions::rotary; }).find("learned, sinusoidal or none, as a GPT-2"),
            std::string::npos);
  EXPECT_NE(message([](Config& c) { c.norm_placement = NormPlacement::post; }).find("norm_placement pre"),
            std::string::npos);
  EXPECT_NE(message([](Config& c) { c.output_bias = true; }).find("an output without a bias"), std::string::npos);
  EXPECT_NE(message([](Config& c) { c.norm = nn::NormKind::rms_norm; }).find("layer_norm"), std::string::npos);
}

}  // namespace
}  // namespace heed::models::test
