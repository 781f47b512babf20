#include "train/warnings.h"

#include "base/numbers.h"
#include "heed/cpu.h"
#include "text/sentences.h"

namespace heed::train {

std::string why_not_bf16() {
  const bool chosen = active_isa() != available_isas().back();  // HEED_ISA or set_isa() asked for a slower one
  return (chosen ? "the instruction set " + std::string(heed::to_string(active_isa())) : "this processor") +
         " cannot multiply bf16; training runs in f32";
}

std::vector<std::string> warnings_of(const Recipe& recipe, const Corpus& corpus) {
  std::vector<std::string> warnings;
  const Schedule& schedule = recipe.schedule;
  if (schedule.kind == ScheduleKind::cosine && schedule.floor <= 0 && recipe.max_updates > schedule.total) {
    warnings.push_back("the learning rate is 0 from update " + with_commas(schedule.total) +
                       " on (schedule.total), and max_updates is " + with_commas(recipe.max_updates));
  }
  if (recipe.valid_tokenize == "13a" && !corpus.references.empty() &&
      text::mostly_without_spaces(corpus.references.front())) {
    warnings.emplace_back(
        "the validation texts have no spaces between words; valid_tokenize = \"zh\" cuts Chinese for BLEU, and "
        "\"char\" any text");
  }
  if (recipe.task == "sentence_embedding" && recipe.loss == "cross_entropy" && recipe.batch_sentences > 0 &&
      recipe.batch_sentences <= recipe.shards) {
    warnings.push_back(
        "each pair is alone in its batch or shard, so there is no other to tell it from, and nothing is learnt: "
        "batch_sentences above shards, " +
        with_commas(recipe.shards) + ", would change that");
  }
  return warnings;
}

}  // namespace heed::train
