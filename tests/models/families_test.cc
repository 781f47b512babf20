// Models of others: small ones that transformers wrote, against what transformers computed with them
// (tests/data/families, written by tools/golden_models.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/data.h"
#include "base/message.h"
#include "base/scratch.h"
#include "formats/json.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/probe.h"
#include "models/helpers.h"

namespace heed::models::test {
namespace {

namespace fs = std::filesystem;
using heed::test::test_data;

constexpr double kTolerance = 1e-4;  // of values around 1; what transformers computed is in f32 as well

// Every folder that has an answer to compare with, and the largest deviation in it.
std::vector<std::string> folders() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(test_data("families"))) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Tensor ids_of(const Tensor& golden) {  // i64 -> i32
  const Tensor ids = Tensor::empty(golden.shape(), DType::i32);
  for (int64_t i = 0; i < golden.numel(); ++i) ids.data<int32_t>()[i] = static_cast<int32_t>(golden.data<int64_t>()[i]);
  return ids;
}

Tensor lengths_of(const Tensor& mask) {
  const Tensor lengths = Tensor::empty({mask.size(0)}, DType::i32);
  for (int64_t b = 0; b < mask.size(0); ++b) {
    int32_t length = 0;
    for (int64_t l = 0; l < mask.size(1); ++l) length += static_cast<int32_t>(mask.at({b, l}));
    lengths.data<int32_t>()[b] = length;
  }
  return lengths;
}

struct Case {
  explicit Case(const std::string& name)
      : model(load(test_data("families") / name)),
        golden(io::read_safetensors(test_data("families") / name / "golden.safetensors").tensors),
        ids(ids_of(golden.at("input_ids"))),
        lengths(lengths_of(golden.at("attention_mask"))),
        types(golden.contains("token_type_ids") ? ids_of(golden.at("token_type_ids")) : Tensor()) {}

  std::unique_ptr<Model> model;
  io::Tensors golden;
  Tensor ids, lengths, types;

  [[nodiscard]] int64_t length(int64_t b) const { return static_cast<int64_t>(lengths.at({b})); }
  // Row b without its padding.
  [[nodiscard]] Tensor row(const Tensor& all, int64_t b) const {
    return all.defined() ? all.slice(0, b, b + 1).slice(1, 0, length(b)).contiguous() : Tensor();
  }
  [[nodiscard]] Tensor one_length(int64_t b) const { return lengths.slice(0, b, b + 1).contiguous(); }
};

// The largest |got - want|, where `want` is cut to the shape of `got`, beside 1 or, where that is more, the largest
// number there: states of pre-norm models grow.
double deviation(const Tensor& got, const Tensor& golden) {
  Tensor want = golden;
  for (int axis = 0; axis < got.rank(); ++axis) want = want.slice(axis, 0, got.size(axis));
  const Tensor a = got.contiguous(), b = want.contiguous();
  EXPECT_EQ(a.shape(), b.shape());
  double most = 0, largest = 1;
  for (int64_t i = 0; i < a.numel(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b.data<float>()[i])));
    const double difference =
        std::abs(static_cast<double>(a.data<float>()[i]) - static_cast<double>(b.data<float>()[i]));
    most = std::isnan(difference) ? INFINITY : std::max(most, difference);
  }
  return most / largest;
}

// States and weights, by the names that the golden file has for them.
struct Seen : nn::Probe, nn::AttentionObserver {
  std::map<std::string, Tensor> seen;

  static std::string name_of(std::string_view path, bool only_encoder, const char* what) {
    const size_t at = path.find("layers.");
    const std::string number =
        at == std::string_view::npos ? "" : std::string(path.substr(at + 7, path.find('.', at + 7) - at - 7));
    const std::string stack = only_encoder ? "" : std::string(path.substr(0, path.find('.'))) + "_";
    return (path.ends_with("cross_attention") ? "cross_" : stack) + what + number;
  }
  bool only_encoder = true;

  Tensor on_state(std::string_view path, const Tensor& state) override {
    if (path.ends_with("embedding")) seen[name_of(path, only_encoder, "hidden_states.") + "0"] = state.clone();
    if (path.ends_with("feed_forward")) {
      const std::string name = name_of(path, only_encoder, "hidden_states.");
      const size_t dot = name.rfind('.');
      seen[name.substr(0, dot + 1) + std::to_string(std::stoi(name.substr(dot + 1)) + 1)] = state.clone();
    }
    return state;
  }
  void on_attention(std::string_view path, const Tensor& weights) override {
    seen[name_of(path, only_encoder, "attentions.")] = weights.clone();
  }
  using nn::Probe::on_attention;
};

// Compares what was seen of row b; the last state of a stack with a final norm is compared by the caller.
void compare_seen(const Seen& watch, const Case& c, int64_t b, double& worst) {
  for (const auto& [name, tensor] : watch.seen) {
    const auto want = c.golden.find(name);
    if (want == c.golden.end()) continue;
    const size_t dot = name.rfind('.');
    const bool last_state =
        name.find("hidden_states") != std::string::npos &&
        !c.golden.contains(name.substr(0, dot + 1) + std::to_string(std::stoi(name.substr(dot + 1)) + 1));
    if (last_state && c.model->config().final_norm) continue;
    const double off = deviation(tensor, want->second.slice(0, b, b + 1));
    EXPECT_LT(off, kTolerance) << name << " of text " << b;
    worst = std::max(worst, off);
  }
}

double check_encoder(const Case& c) {
  const auto& model = dynamic_cast<const Bert&>(*c.model);
  double worst = 0;
  const auto compare = [&](const Tensor& got, const char* name, int64_t b) {
    const auto want = c.golden.find(name);
    if (want == c.golden.end()) return;
    const double off = deviation(got, want->second.slice(0, b, b + 1));
    EXPECT_LT(off, kTolerance) << name << " of text " << b;
    worst = std::max(worst, off);
  };
  const std::string last = "hidden_states." + std::to_string(model.config().encoder_layers);
  const NoGradScope no_grad;
  for (int64_t b = 0; b < c.ids.size(0); ++b) {
    const Tensor ids = c.row(c.ids, b), types = c.row(c.types, b), length = c.one_length(b);
    Seen watch;
    {
      const nn::ProbeScope probe(watch);
      const nn::ObserverScope observer(watch);
      compare(model.encode(ids, length, types).data(), last.c_str(), b);
    }
    compare_seen(watch, c, b, worst);
    if (model.config().head != Head::none) {
      const Tensor logits = model.forward(ids, length, types).data();
      compare(logits, "logits", b);
      if (c.golden.contains("start_logits")) {
        compare(logits.select(2, 0), "start_logits", b);
        compare(logits.select(2, 1), "end_logits", b);
      }
    } else if (model.config().head_hidden) {
      compare(model.pooled(ids, length, types).data(), "pooler_output", b);
    }
  }
  // In a batch every text has the bits that it has alone.
  const Tensor states = model.encode(c.ids, c.lengths, c.types).data();
  for (int64_t b = 0; b < c.ids.size(0); ++b) {
    const Tensor alone = model.encode(c.row(c.ids, b), c.one_length(b), c.row(c.types, b)).data();
    EXPECT_TRUE(same_bits(alone.contiguous(), c.row(states, b)));
  }
  return worst;
}

double check_translator(const Case& c) {
  const auto& model = dynamic_cast<const Transformer&>(*c.model);
  const Tensor target = ids_of(c.golden.at("decoder_input_ids"));
  double worst = 0;
  const NoGradScope no_grad;
  for (int64_t b = 0; b < c.ids.size(0); ++b) {
    Seen watch;
    watch.only_encoder = false;
    Tensor logits;
    {
      const nn::ProbeScope probe(watch);
      const nn::ObserverScope observer(watch);
      logits = model.forward(c.row(c.ids, b), c.one_length(b), target.slice(0, b, b + 1).contiguous()).data();
    }
    compare_seen(watch, c, b, worst);
    const double off = deviation(logits, c.golden.at("logits").slice(0, b, b + 1));
    EXPECT_LT(off, kTolerance) << "logits of text " << b;
    worst = std::max(worst, off);
  }
  const Tensor together = model.forward(c.ids, c.lengths, target).data();
  for (int64_t b = 0; b < c.ids.size(0); ++b) {
    const Tensor alone = model.forward(c.row(c.ids, b), c.one_length(b), target.slice(0, b, b + 1).contiguous()).data();
    EXPECT_TRUE(same_bits(alone.contiguous(), together.slice(0, b, b + 1).contiguous()));
  }
  return worst;
}

TEST(Families, ComputeWhatTransformersComputes) {
  const std::vector<std::string> names = folders();
  ASSERT_GE(names.size(), 40u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    try {
      const Case c(name);
      const bool encoder = c.model->config().architecture == Architecture::encoder_only;
      const double worst = encoder ? check_encoder(c) : check_translator(c);
      std::printf("%-28s largest deviation %.1e\n", name.c_str(), worst);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(Families, AreWrittenAsTheyCame) {
  for (const std::string& name : folders()) {
    SCOPED_TRACE(name);
    const fs::path from = test_data("families") / name;
    const heed::test::Scratch scratch;
    save(*load(from), scratch.path());
    const io::Tensors before = io::read_weights(from).tensors;
    const io::Tensors after = io::read_weights(scratch.path()).tensors;
    for (const auto& [tensor, value] : after) {
      if (name == "bert-old-names" && !before.contains(tensor)) continue;  // gamma is weight now
      ASSERT_TRUE(before.contains(tensor)) << tensor;
      const Tensor& was = before.at(tensor);
      EXPECT_EQ(was.dtype(), value.dtype()) << tensor;
      EXPECT_EQ(was.shape(), value.shape()) << tensor;
      EXPECT_EQ(std::memcmp(was.raw(), value.raw(), static_cast<size_t>(value.nbytes())), 0) << tensor;
    }
    EXPECT_EQ(io::read_file(scratch.path() / "config.json"), io::read_file(from / "config.json"));
  }
}

}  // namespace
}  // namespace heed::models::test
