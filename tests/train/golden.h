// Batches and gradients of tests/data/finetuning.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "foreign.h"
#include "heed/models.h"
#include "models/families/weights.h"
#include "train/objective.h"

namespace heed::train {

// The inputs of a folder of tests/data/families with what is to be predicted of its texts.
inline Batch golden_batch(const std::string& name, bool with_types, const Tensor& output) {
  const io::Tensors golden =
      io::read_safetensors(heed::test::test_data("families") / name / "golden.safetensors").tensors;
  const Tensor mask = golden.at("attention_mask").to(DType::i32);
  Batch batch;
  batch.source = golden.at("input_ids").to(DType::i32);
  if (with_types) batch.types = golden.at("token_type_ids").to(DType::i32);
  batch.source_lengths = Tensor::zeros({mask.size(0)}, DType::i32);
  for (int64_t b = 0; b < mask.size(0); ++b) {
    for (int64_t l = 0; l < mask.size(1); ++l) {
      batch.source_lengths.data<int32_t>()[b] += static_cast<int32_t>(mask.at({b, l}));
    }
  }
  batch.output = output.to(DType::i32);
  batch.padding_id = -1;
  batch.tokens = batch.sentences = mask.size(0);
  return batch;
}

// What transformers found for the gradients, under our names.
inline io::Tensors golden_gradients(const models::Model& model, const io::Tensors& finetuning) {
  io::Tensors theirs;
  constexpr std::string_view kPrefix = "gradient.";
  for (const auto& [name, tensor] : finetuning) {
    if (name.starts_with(kPrefix)) theirs[name.substr(kPrefix.size())] = tensor;
  }
  return models::own_weights(model, model.origin()->design, theirs, "golden");
}

inline void expect_near(const Tensor& found, const Tensor& expected, double tolerance, const std::string& what,
                        double least = 1e-3) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const Tensor a = found.contiguous(), b = expected.contiguous();
  double largest = least, difference = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const auto x = static_cast<double>(a.data<float>()[i]), y = static_cast<double>(b.data<float>()[i]);
    largest = std::max(largest, std::abs(y));
    difference = std::max(difference, std::abs(x - y));
  }
  EXPECT_LE(difference, tolerance * largest) << what;
}

inline bool equal_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

}  // namespace heed::train
