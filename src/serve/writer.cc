#include "serve/writer.h"

#include <algorithm>
#include <limits>

#include "base/philox.h"
#include "heed/error.h"
#include "pipelines/encoding.h"

namespace heed::serve {

Writer::Writer(Reading start, const std::vector<Change>& changes) : reading_(std::move(start)), changes_(changes) {
  require(reading_.model->decodes(), "serve", "a model that writes; found one that only reads");
  if (!changes_.empty()) return;
  const NoGradScope no_grad;
  const models::Model& model = *reading_.model->model;
  if (reading_.model->translates()) {
    decoder_ = dynamic_cast<const models::Transformer&>(model).start(pipelines::as_row(reading_.source),
                                                                     pipelines::length_of(reading_.source));
  } else {
    decoder_ = dynamic_cast<const models::Gpt&>(model).start();
  }
}

std::span<const float> Writer::logits() {
  if (decoder_ == nullptr) {
    const Tensor all = logits_of(reading_, &changes_);
    row_ = all.select(0, all.size(0) - 1).contiguous();
  } else if (read_ < reading_.target.size()) {
    const NoGradScope no_grad;
    const Ids fresh(reading_.target.begin() + static_cast<std::ptrdiff_t>(read_), reading_.target.end());
    row_ = decoder_->step(pipelines::as_row(fresh)).contiguous();
    read_ = reading_.target.size();
  }
  return {row_.data<float>(), static_cast<size_t>(row_.numel())};
}

void Writer::write(int32_t id) { reading_.target.push_back(id); }

bool Writer::has_room() const {
  return static_cast<int64_t>(reading_.target.size()) < reading_.model->config().max_length;
}

namespace {

// What may not follow, or must. A search has the same rules (BeamOptions).
class Rules {
 public:
  explicit Rules(const Served& model) : model_(model), search_(model.search({.beam = 1})) {}

  // The token that comes, whatever its probability; -1: any.
  [[nodiscard]] int32_t forced(Step step, bool ignore_end) const {
    if (step.written < std::ssize(search_.prefix)) return search_.prefix[static_cast<size_t>(step.written)];
    return step.written + 1 == step.most && !ignore_end ? search_.last_id : -1;
  }

  template <class Block>
  void block(const Ids& read, Step step, const Block& block) const {
    const models::Config& config = model_.config();
    for (const int32_t id : search_.suppressed) block(id);
    // As in generate::translate(): a model that others trained goes by the settings of its folder alone.
    for (const int64_t id : {config.padding_id, config.begin_id})
      if (id != config.end_id && model_.model->origin() == nullptr) block(id);
    if (step.written < search_.min_length) block(config.end_id);
    const auto n = static_cast<std::ptrdiff_t>(search_.no_repeat_ngram);
    if (n == 0 || std::ssize(read) + 1 < n) return;
    for (auto first = read.begin(); first + n <= read.end(); ++first)
      if (std::equal(read.end() - (n - 1), read.end(), first)) block(first[n - 1]);
  }

 private:
  const Served& model_;
  generate::BeamOptions search_;
};

}  // namespace

int32_t choose(const Reading& reading, std::span<const float> logits, const Choice& choice, Step step) {
  const Served& model = *reading.model;
  std::vector<float> allowed(logits.begin(), logits.end());
  const auto block = [&](int64_t id) {
    if (id >= 0 && id < std::ssize(allowed)) allowed[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  };
  if (model.translates()) {
    const Rules rules(model);
    if (const int32_t forced = rules.forced(step, choice.ignore_end); forced >= 0) return forced;
    rules.block(reading.target, step, block);
  }
  if (choice.ignore_end) block(model.config().end_id);
  const std::vector<double> distribution = generate::sampling_distribution(allowed, choice.sampling);
  const auto words = philox(choice.sampling.seed, 0, static_cast<uint64_t>(step.written));
  return generate::sample(distribution, uniform_double(words[0], words[1]));
}

int64_t most_tokens(const Reading& reading, int64_t wanted) {
  if (!reading.model->translates()) return wanted;
  const generate::BeamOptions usual;
  const int64_t by_source =
      static_cast<int64_t>(usual.length_factor * static_cast<double>(reading.source.size())) + usual.length_extra;
  return std::min({wanted, by_source, reading.model->config().max_length - 1});
}

}  // namespace heed::serve
