// heed's own models in the layouts of others, loaded again as models of others: the same numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "base/message.h"
#include "base/scratch.h"
#include "heed/error.h"
#include "heed/models.h"
#include "models/helpers.h"

namespace heed::models::test {
namespace {

using heed::test::Scratch;
using heed::testing::message_of;

Tensor some_ids(int64_t rows, int64_t length, int64_t vocabulary) {
  const Tensor ids = Tensor::empty({rows, length}, DType::i32);
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.data<int32_t>()[i] = static_cast<int32_t>(4 + (7 * i + i / 3) % (vocabulary - 4));
  return ids;
}

Tensor full_lengths(int64_t rows, int64_t length) {
  const Tensor lengths = Tensor::empty({rows}, DType::i32);
  for (int64_t b = 0; b < rows; ++b) lengths.data<int32_t>()[b] = static_cast<int32_t>(length);
  return lengths;
}

double apart(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double most = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    most = std::max(most,
                    std::abs(static_cast<double>(a.contiguous().data<float>()[i] - b.contiguous().data<float>()[i])));
  }
  return most;
}

// Biases and norms that are not those of a new model.
void stir(const Model& model) {
  nn::Initializer init(77);
  for (const auto& [path, value] : model.named_parameters()) {
    const Tensor noise = init.normal(value.shape(), 0.2f);
    const Tensor changed = value.data().clone();
    for (int64_t i = 0; i < changed.numel(); ++i) changed.data<float>()[i] += noise.data<float>()[i];
    value.set_data(changed);
  }
}

TEST(SaveHuggingface, ATranslatorIsAMarian) {
  for (const bool shared : {false, true}) {
    for (const bool tied : {true, false}) {
      Config config = small(Architecture::encoder_decoder);
      config.positions = Positions::sinusoidal;
      config.position_layout = nn::PositionLayout::interleaved;
      config.norm_placement = NormPlacement::post;
      config.final_norm = false;
      config.share_embeddings = shared;
      config.tie_output = tied;
      if (shared) config.target_vocabulary = config.source_vocabulary;
      const Transformer model(config, 5);
      stir(model);
      const Scratch folder;
      save_huggingface(model, folder.path());
      const auto back = load(folder.path());
      ASSERT_NE(back->origin(), nullptr);
      const NoGradScope no_grad;
      const Tensor source = some_ids(2, 5, config.source_vocabulary), target = some_ids(2, 4, config.target_vocabulary);
      const Tensor lengths = full_lengths(2, 5);
      EXPECT_LT(apart(model.forward(source, lengths, target).data(),
                      dynamic_cast<const Transformer&>(*back).forward(source, lengths, target).data()),
                1e-4);
    }
  }
}

TEST(SaveHuggingface, AnEncoderIsABert) {
  Config config = small(Architecture::encoder_only);
  config.positions = Positions::learned;
  config.norm_placement = NormPlacement::post;
  config.final_norm = false;
  config.scale_embedding = false;
  const Bert model(config, 6);
  stir(model);
  const Scratch folder;
  save_huggingface(model, folder.path());
  const auto back = load(folder.path());
  const NoGradScope no_grad;
  const Tensor ids = some_ids(2, 5, config.source_vocabulary), lengths = full_lengths(2, 5);
  EXPECT_LT(apart(model.forward(ids, lengths).data(), dynamic_cast<const Bert&>(*back).forward(ids, lengths).data()),
            1e-5);
}

TEST(SaveHuggingface, NamesWhatOthersCannotExpress) {
  const auto message = [](void (*change)(Config&), Architecture architecture) {
    Config config = small(architecture);
    change(config);
    const auto model = create(config);
    const Scratch folder;
    return message_of([&] { save_huggingface(*model, folder / "out"); });
  };
  EXPECT_NE(
      message([](Config& c) { c.norm = nn::NormKind::rms_norm; }, Architecture::encoder_decoder).find("layer_norm"),
      std::string::npos);
  EXPECT_NE(message([](Config& c) { c.norm_placement = NormPlacement::pre; }, Architecture::encoder_decoder)
                .find("norm_placement post"),
            std::string::npos);
  EXPECT_NE(message([](Config& c) { c.positions = Positions::alibi; }, Architecture::decoder_only).find("GPT-2"),
            std::string::npos);
}

}  // namespace
}  // namespace heed::models::test
