#include "generate/rules.h"

#include <algorithm>

#include "heed/error.h"

namespace heed::generate {

TokenRules::TokenRules(const BeamOptions& options, int64_t vocabulary, int32_t end_id, const char* function)
    : prefix_(options.prefix),
      last_id_(options.last_id),
      min_length_(options.min_length),
      repeat_(options.no_repeat_ngram) {
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
  if (in_prefix(length)) return prefix_[static_cast<size_t>(length)];
  return length + 1 == limit ? last_id_ : -1;
}

void TokenRules::block_repeats(std::span<const int32_t> ids, std::vector<uint8_t>& blocked) const {
  const auto n = static_cast<std::ptrdiff_t>(repeat_);
  if (n == 0 || std::ssize(ids) + 1 < n) return;
  const auto last = ids.end() - (n - 1);
  for (auto first = ids.begin(); first + n <= ids.end(); ++first)
    if (std::equal(last, ids.end(), first)) blocked[static_cast<size_t>(first[n - 1])] = 1;
}

void suppress_special(BeamOptions& options, const models::Transformer& model) {
  const models::Config& config = model.config();
  if (model.origin() != nullptr) return;
  for (const int64_t id : {config.padding_id, config.begin_id})
    if (id >= 0 && id < config.target_vocabulary && id != config.end_id)
      options.suppressed.push_back(static_cast<int32_t>(id));
}

}  // namespace heed::generate
