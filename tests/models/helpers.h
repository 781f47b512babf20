// What the tests of the models share: small configurations, ids, and the oracle made from a model's weights.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "heed/models.h"
#include "oracle/transformer_oracle.h"

namespace heed::models::test {

using Ids = std::vector<int32_t>;

// Padded on the right with `padding`.
[[nodiscard]] inline Tensor batch(const std::vector<Ids>& rows, int32_t padding = 0) {
  size_t longest = 0;
  for (const Ids& row : rows) longest = std::max(longest, row.size());
  Tensor out = Tensor::empty({static_cast<int64_t>(rows.size()), static_cast<int64_t>(longest)}, DType::i32);
  int32_t* to = out.data<int32_t>();
  for (const Ids& row : rows) {
    for (size_t l = 0; l < longest; ++l) *to++ = l < row.size() ? row[l] : padding;
  }
  return out;
}

[[nodiscard]] inline Tensor lengths(const std::vector<Ids>& rows) {
  Tensor out = Tensor::empty({static_cast<int64_t>(rows.size())}, DType::i32);
  for (size_t r = 0; r < rows.size(); ++r) out.data<int32_t>()[r] = static_cast<int32_t>(rows[r].size());
  return out;
}

[[nodiscard]] inline Ids random_ids(int64_t count, int64_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  Ids ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary));
  return ids;
}

// Tensors seldom start where tests would see a mistake: biases and gains are moved away from 0 and 1.
inline void shake(const nn::Module& model, uint32_t seed = 11) {
  std::mt19937 random(seed);
  for (const auto& [path, value] : model.named_parameters()) {
    if (value.data().rank() != 1) continue;
    for (int64_t i = 0; i < value.data().numel(); ++i) {
      value.data().data<float>()[i] += static_cast<float>(random() % 1001) / 2500.0f - 0.2f;
    }
  }
}

[[nodiscard]] inline oracle::Transformer oracle_of(const Model& model) {
  const Config& c = model.config();
  oracle::Transformer t;
  t.width = c.width;
  t.heads = c.heads;
  t.key_value_heads = c.key_value_heads != 0 ? c.key_value_heads : c.heads;
  t.head_size = c.head_size != 0 ? c.head_size : c.width / c.heads;
  t.value_size = c.value_size != 0 ? c.value_size : t.head_size;
  t.encoder_layers = c.encoder_layers;
  t.decoder_layers = c.decoder_layers;
  t.activation = to_string(c.activation);
  t.positions = c.positions == Positions::sinusoidal ? "sinusoidal"
                : c.positions == Positions::learned  ? "learned"
                : c.positions == Positions::alibi    ? "alibi"
                                                     : "";
  t.pre_norm = c.norm_placement == NormPlacement::pre;
  t.rms = c.norm == nn::NormKind::rms_norm;
  t.halves = c.position_layout == nn::PositionLayout::halves;
  t.scale_embedding = c.scale_embedding;
  t.first_position = c.first_position;
  t.padding_id = c.padding_id;
  t.epsilon = c.norm_epsilon;
  for (const auto& [path, value] : model.named_parameters()) {
    oracle::Matrix m(value.data().rank() == 1 ? 1 : value.size(0), value.size(-1));
    const Tensor dense = value.data().contiguous();
    for (size_t i = 0; i < m.values.size(); ++i) m.values[i] = dense.data<float>()[i];
    t.weights[path] = m;
  }
  return t;
}

// got (rows, columns) of want, which may have fewer rows.
inline void expect_near(const Tensor& got, const oracle::Matrix& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(-1), want.columns) << what;
  ASSERT_GE(got.size(0), want.rows) << what;
  double largest = 0;
  for (const double value : want.values) largest = std::max(largest, std::abs(value));
  for (int64_t i = 0; i < want.rows; ++i) {
    for (int64_t j = 0; j < want.columns; ++j) {
      ASSERT_NEAR(got.at({i, j}), want.at(i, j), tolerance * std::max(largest, 1.0))
          << what << " at " << i << ", " << j;
    }
  }
}

[[nodiscard]] inline bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.shape() == y.shape() && std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.nbytes())) == 0;
}

// A folder of one test, gone with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-models-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A few-parameter configuration; every option that changes what is computed is set by some case.
[[nodiscard]] inline Config small(Architecture architecture) {
  Config c;
  c.architecture = architecture;
  c.source_vocabulary = architecture == Architecture::decoder_only ? 0 : 13;
  c.target_vocabulary = architecture == Architecture::encoder_only ? 0 : 11;
  c.encoder_layers = 2;
  c.decoder_layers = 2;
  c.width = 8;
  c.feed_forward = 12;
  c.heads = 2;
  c.max_length = 24;
  c.dropout = 0;
  return c;
}

struct NamedConfig {
  std::string name;
  Config config;
};

[[nodiscard]] inline std::vector<NamedConfig> variants(Architecture architecture) {
  std::vector<NamedConfig> all;
  const auto add = [&](const std::string& name, auto&& change) {
    Config c = small(architecture);
    change(c);
    all.push_back({name, c});
  };
  add("post-norm, as the paper", [](Config&) {});
  add("pre-norm, final norms, halves from 1", [](Config& c) {
    c.norm_placement = NormPlacement::pre;
    c.final_norm = true;
    c.position_layout = nn::PositionLayout::halves;
    c.first_position = 1;
    c.tie_output = false;
    c.output_bias = true;
  });
  add("learned positions, gelu, output bias, no padding id", [](Config& c) {
    c.positions = Positions::learned;
    c.activation = Activation::gelu;
    c.scale_embedding = false;
    c.output_bias = true;
    c.padding_id = -1;
  });
  add("grouped heads, no biases, rms, silu, pre-norm", [](Config& c) {
    c.heads = 4;
    c.key_value_heads = 2;
    c.bias = false;
    c.norm = nn::NormKind::rms_norm;
    c.activation = Activation::silu;
    c.norm_placement = NormPlacement::pre;
  });
  add("values of another size, shared embeddings, tanh gelu, no positions", [](Config& c) {
    c.head_size = 3;
    c.value_size = 5;
    if (c.architecture == Architecture::encoder_decoder) c.source_vocabulary = c.target_vocabulary;
    c.share_embeddings = true;
    c.activation = Activation::gelu_tanh;
    c.positions = Positions::none;
    c.norm_epsilon = 1e-3f;
  });
  if (architecture == Architecture::decoder_only) {
    add("ALiBi, pre-norm, four heads", [](Config& c) {
      c.heads = 4;
      c.positions = Positions::alibi;
      c.norm_placement = NormPlacement::pre;
    });
  }
  return all;
}

// d loss / d parameter for loss = mean over rows of -log softmax(logits)[target], with the loss from the oracle in
// double: central differences of a few elements of every parameter. `logits` runs a changed oracle.
template <class Run>
void expect_parameter_gradients(const Model& model, const oracle::Transformer& plain, const Ids& targets, Run&& logits,
                                const std::string& what) {
  const auto loss = [&](const oracle::Transformer& t) {
    const oracle::Matrix y = logits(t);
    double total = 0;
    for (int64_t i = 0; i < y.rows; ++i) {
      double sum = 0;
      for (int64_t v = 0; v < y.columns; ++v) sum += std::exp(y.at(i, v));
      total += (std::log(sum) - y.at(i, targets[static_cast<size_t>(i)])) / static_cast<double>(y.rows);
    }
    return total;
  };
  std::mt19937 random(5);
  for (const auto& [path, value] : model.named_parameters()) {
    ASSERT_TRUE(value.grad().defined()) << what << ": no gradient reached " << path;
    const Tensor gradient = value.grad().contiguous();
    for (int probe = 0; probe < 3; ++probe) {
      const size_t i = random() % static_cast<size_t>(gradient.numel());
      oracle::Transformer moved = plain;
      const double h = 1e-4;
      moved.weights[path].values[i] = plain.weights.at(path).values[i] + h;
      const double up = loss(moved);
      moved.weights[path].values[i] = plain.weights.at(path).values[i] - h;
      const double down = loss(moved);
      ASSERT_NEAR(gradient.data<float>()[i], (up - down) / (2 * h), 2e-5) << what << ": " << path << " element " << i;
    }
  }
}

}  // namespace heed::models::test
