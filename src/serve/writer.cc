#include "serve/writer.h"

#include <algorithm>
#include <limits>

#include "base/philox.h"
#include "generate/rules.h"
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

bool Writer::has_room() const { return static_cast<int64_t>(reading_.target.size()) < reading_.model->longest(); }

int32_t choose(const Reading& reading, std::span<const float> logits, const Choice& choice, Step step) {
  const Served& model = *reading.model;
  std::vector<float> allowed(logits.begin(), logits.end());
  const models::Config& config = model.config();
  std::vector<uint8_t> blocked(allowed.size(), 0);
  if (model.translates()) {
    generate::BeamOptions search = model.search({.beam = 1}, reading.spoken);
    generate::suppress_special(search, dynamic_cast<const models::Transformer&>(*model.model));
    const generate::TokenRules rules(search, std::ssize(allowed), static_cast<int32_t>(config.end_id), "serve");
    const int64_t limit = choice.ignore_end ? -1 : step.most;
    if (const int32_t forced = rules.forced(step.written, limit); forced >= 0) return forced;
    blocked = rules.blocked(step.written);
    rules.block_after(reading.target, blocked);
    rules.penalise(reading.target, allowed);
  }
  if (choice.ignore_end && config.end_id >= 0) blocked[static_cast<size_t>(config.end_id)] = 1;
  for (size_t id = 0; id < allowed.size(); ++id)
    if (blocked[id] != 0) allowed[id] = -std::numeric_limits<float>::infinity();
  const std::vector<double> distribution = generate::sampling_distribution(allowed, choice.sampling);
  const auto words = philox(choice.sampling.seed, 0, static_cast<uint64_t>(step.written));
  return generate::sample(distribution, uniform_double(words[0], words[1]));
}

int64_t most_tokens(const Reading& reading, int64_t wanted) {
  if (!reading.model->translates()) return wanted;
  const generate::BeamOptions search = reading.model->search({.beam = 1}, reading.spoken);
  const int64_t by_source = generate::longest_for(search, std::ssize(reading.source));
  return std::min({wanted, by_source < 0 ? wanted : by_source, reading.model->longest() - 1});
}

}  // namespace heed::serve
