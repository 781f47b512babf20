// From token numbers to vectors: embedding, padding, sinusoidal positions, and one table for input and output.
// Run: make examples && build/release/examples/embeddings_and_positions
//
// Vaswani et al. 2017, sections 3.4 and 3.5: an embedding is multiplied by sqrt(E). Then the positions are added:
// PE(pos, 2i) = sin(pos / 10000^(2i/E)), PE(pos, 2i+1) = cos(pos / 10000^(2i/E)).
//
// Prints:
//   ids (2, 4) -> vectors (2, 4, 8); the vector of <pad> is zero: yes
//   the other vectors are multiplied by sqrt(8): yes
//   position 0:  0.0000  1.0000  0.0000  1.0000  0.0000  1.0000  0.0000  1.0000
//   position 1:  0.8415  0.5403  0.0998  0.9950  0.0100  0.9999  0.0010  1.0000
//   position 2:  0.9093 -0.4161  0.1987  0.9801  0.0200  0.9998  0.0020  1.0000
//   a sentence has the same bits alone and beside a longer sentence: yes
//   gradient of <pad>: 0
//   parameters with 3 tables, 2 tables and 1 table: 25984 24448 22912
#include <heed/heed.h>

#include <cmath>
#include <cstdio>
#include <cstring>

using namespace heed;

int main() {
  constexpr int64_t kWidth = 8, kPad = 0;
  nn::Initializer init(3);
  const nn::Embedding embedding(10, kWidth, kPad, true, init);
  const std::vector<int32_t> numbers = {5, 7, 2, 0, 4, 9, 8, 2};
  const Tensor ids = Tensor::from(std::span<const int32_t>(numbers), {2, 4});  // 3 tokens and a <pad>, 4 tokens
  const Value vectors = embedding(ids);
  bool zero = true, scaled = true;
  for (int64_t e = 0; e < kWidth; ++e) {
    zero = zero && vectors.data().at({0, 3, e}) == 0;
    const double expected = std::sqrt(8.0) * embedding.weight.data().at({5, e});
    scaled = scaled && std::abs(vectors.data().at({0, 0, e}) - expected) < 1e-6;
  }
  std::printf("ids (2, 4) -> vectors %s; the vector of <pad> is zero: %s\n", to_string(vectors.shape()).c_str(),
              zero ? "yes" : "no");
  std::printf("the other vectors are multiplied by sqrt(8): %s\n", scaled ? "yes" : "no");

  const Tensor positions = nn::sinusoidal_positions(3, kWidth, nn::PositionLayout::interleaved);
  for (int64_t p = 0; p < 3; ++p) {
    std::printf("position %d:", static_cast<int>(p));
    for (int64_t e = 0; e < kWidth; ++e) std::printf(" %7.4f", positions.at({p, e}));
    std::printf("\n");
  }

  // All layers mask the padding, so the length of the padding changes nothing.
  models::Config config = models::preset("tiny");
  config.source_vocabulary = config.target_vocabulary = 48;
  config.encoder_layers = config.decoder_layers = 1;
  config.width = 32;
  config.feed_forward = 64;
  config.heads = 2;
  const models::Transformer model(config, 1);
  const text::Padded alone = text::pad(std::vector<text::Ids>{{5, 7, 2}}, 0);
  const text::Padded together = text::pad(std::vector<text::Ids>{{5, 7, 2}, {4, 9, 8, 6, 2}}, 0);
  const Tensor a = model.encode(alone.ids, alone.lengths).data();
  const Tensor b = model.encode(together.ids, together.lengths).data();
  std::printf("a sentence has the same bits alone and beside a longer sentence: %s\n",
              std::memcmp(a.data<float>(), b.data<float>(), static_cast<size_t>(a.nbytes())) == 0 ? "yes" : "no");

  // The vector of <pad> gets no gradient, so it stays zero.
  const Value table(embedding.weight.data(), true);
  sum(heed::embedding(ids, table, {.padding_id = kPad})).backward();
  std::printf("gradient of <pad>: %g\n", table.grad().at({kPad, 0}));

  std::printf("parameters with 3 tables, 2 tables and 1 table:");
  for (const auto& [share, tie] : {std::pair{false, false}, {false, true}, {true, true}}) {
    config.share_embeddings = share;
    config.tie_output = tie;
    std::printf(" %lld", static_cast<long long>(models::Transformer(config, 1).parameter_count()));
  }
  std::printf("\n");
}
