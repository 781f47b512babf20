#include "generate/rules.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "heed/error.h"

namespace heed::generate {

TokenRules::TokenRules(const BeamOptions& options, int64_t vocabulary, int32_t end_id, const char* function)
    : prefix_(options.prefix),
      last_id_(options.last_id),
      min_length_(options.min_length),
      repeat_(options.no_repeat_ngram),
      penalty_(options.repetition_penalty),
      sequences_(options.suppressed_sequences) {
  require(end_id >= 0 && end_id < vocabulary, function, "an end id below ", vocabulary, "; found ", end_id);
  blocked_.assign(static_cast<size_t>(vocabulary), 0);
  for (const int32_t id : options.suppressed) {
    require(id >= 0 && id < vocabulary, function, "suppressed ids below ", vocabulary, "; found ", id);
    blocked_[static_cast<size_t>(id)] = 1;
  }
  for (const int32_t id : prefix_)
    require(id >= 0 && id < vocabulary, function, "prefix ids below ", vocabulary, "; found ", id);
  require(last_id_ >= -1 && last_id_ < vocabulary, function, "a last id below ", vocabulary, "; found ", last_id_);
  require(repeat_ >= 0, function, "no_repeat_ngram of 0 or more; found ", repeat_);
  require(penalty_ > 0 && std::isfinite(penalty_), function, "a repetition_penalty above 0; found ", penalty_);
  for (const Ids& sequence : sequences_) {
    require(!sequence.empty(), function, "suppressed sequences of at least one token; found an empty one");
    for (const int32_t id : sequence)
      require(id >= 0 && id < vocabulary, function, "suppressed sequences of ids below ", vocabulary, "; found ", id);
  }
  first_ = blocked_;
  for (const int32_t id : options.suppressed_first) {
    require(id >= 0 && id < vocabulary, function, "suppressed first ids below ", vocabulary, "; found ", id);
    first_[static_cast<size_t>(id)] = 1;
  }
  blocked_no_end_ = blocked_;
  blocked_no_end_[static_cast<size_t>(end_id)] = 1;
  first_no_end_ = first_;
  first_no_end_[static_cast<size_t>(end_id)] = 1;
}

int32_t TokenRules::forced(int64_t length, int64_t limit) const {
  if (length + 1 == limit && last_id_ >= 0) return last_id_;  // before the prefix, as in transformers
  return in_prefix(length) ? prefix_[static_cast<size_t>(length)] : -1;
}

void TokenRules::block_after(std::span<const int32_t> ids, std::vector<uint8_t>& blocked) const {
  for (const Ids& sequence : sequences_) {
    const auto before = std::ssize(sequence) - 1;
    if (before <= std::ssize(ids) && std::equal(sequence.begin(), sequence.end() - 1, ids.end() - before))
      blocked[static_cast<size_t>(sequence.back())] = 1;
  }
  const auto n = static_cast<std::ptrdiff_t>(repeat_);
  if (n == 0 || std::ssize(ids) + 1 < n) return;
  const auto last = ids.end() - (n - 1);
  for (auto first = ids.begin(); first + n <= ids.end(); ++first)
    if (std::equal(last, ids.end(), first)) blocked[static_cast<size_t>(first[n - 1])] = 1;
}

void TokenRules::penalise(const Ids& ids, std::span<float> scores) const {
  for (const int32_t id : std::set<int32_t>(ids.begin(), ids.end())) {  // each once
    float& score = scores[static_cast<size_t>(id)];
    const auto value = static_cast<double>(score);
    score = static_cast<float>(value < 0 ? value * penalty_ : value / penalty_);
  }
}

int64_t longest_for(const BeamOptions& options, int64_t source_length) {
  const double factor = options.length_factor.value_or(2);
  if (!(factor > 0)) return -1;
  const auto longest = static_cast<int64_t>(factor * static_cast<double>(source_length)) + options.length_extra;
  return std::max(longest, options.min_length);
}

void suppress_special(BeamOptions& options, const models::Transformer& model) {
  const models::Config& config = model.config();
  if (model.origin() != nullptr) return;
  for (const int64_t id : {config.padding_id, config.begin_id})
    if (id >= 0 && id < config.target_vocabulary && id != config.end_id)
      options.suppressed.push_back(static_cast<int32_t>(id));
}

}  // namespace heed::generate
