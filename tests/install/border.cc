// What crosses the border of a shared library besides calls: an exception, the type of a model, a class that the
// library calls back. And a call into each of the libraries that heed is built on, which a static heed needs at the
// link.
#include <heed/heed.h>

#include <cstdio>

namespace {

class Counter : public heed::nn::AttentionObserver {
 public:
  void on_attention(std::string_view, const heed::Tensor&) override { ++layers; }
  int layers = 0;
};

const char* caught() {
  const heed::Tensor none;
  try {
    return heed::attention(none, none, none).output.defined() ? "a result" : "no result";
  } catch (const heed::Error&) {
    return "an error";
  } catch (const std::exception&) {
    return "another error";
  }
}

// Every file is missing, so each call is an error; what matters is that the program links.
int missing_files() {
  int errors = 0;
  const auto count = [&errors](const auto& read) {
    try {
      read();
    } catch (const heed::Error&) {
      ++errors;
    }
  };
  count([] { (void)heed::train::read_recipe("missing.toml"); });
  count([] { (void)heed::text::load_sentencepiece("missing.model"); });
  count([] { (void)heed::io::read_npz("missing.npz"); });
  count([] { (void)heed::inspect::plot_log("missing.jsonl"); });
  count([] { (void)heed::Translator::load("missing"); });
  count([] { (void)heed::inspect::to_png({}); });
  return errors;
}

}  // namespace

int main() {
  heed::models::Config config = heed::models::preset("tiny", heed::models::Architecture::decoder_only);
  config.target_vocabulary = 8;
  config.decoder_layers = 2;
  const std::unique_ptr<heed::models::Model> model = heed::models::create(config);
  const auto* gpt = dynamic_cast<const heed::models::Gpt*>(model.get());
  Counter counter;
  if (gpt != nullptr) {
    const heed::NoGradScope no_gradients;
    const heed::nn::ObserverScope scope(counter);
    const heed::Tensor logits = gpt->forward(heed::Tensor::zeros({1, 3}, heed::DType::i32)).data();
    if (logits.shape() != heed::Shape{1, 3, 8}) counter.layers = 0;  // an operator of the library
  }
  std::printf("%s, %s, %s, %d missing files\n", caught(), gpt != nullptr ? "a model" : "no model",
              counter.layers == 2 ? "an observer" : "no observer", missing_files());
}
