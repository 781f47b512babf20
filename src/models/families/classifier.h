// A new head that tells classes of texts apart, above an encoder that was trained for something else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "heed/models.h"

namespace heed::models {

// `read`, an encoder-only model that load(folder) gave, with a head for these classes. For models of others it is the
// head of transformers' ForSequenceClassification of that family, with transformers' initial weights; parts of it that
// the folder has (BERT's pooler, ModernBERT's dense layer) keep their weights. The origin's config.json names the class
// and its labels. Of heed's own models it is the head of BERT. The new weights depend on `seed` alone.
[[nodiscard]] std::unique_ptr<Model> with_text_classes(const Model& read, const std::filesystem::path& folder,
                                                       const std::vector<std::string>& labels, uint64_t seed);

// The same with one number in place of classes: the score of a text where `plain`, else the logit of one from 0 to 1. A
// head that has one number already keeps its weights. config.json says which it is, for transformers and for
// sentence-transformers' CrossEncoder.
[[nodiscard]] std::unique_ptr<Model> with_text_score(const Model& read, const std::filesystem::path& folder, bool plain,
                                                     uint64_t seed);

// Adds to a config.json of Hugging Face the names of classes; and of texts' classes what their logits are, or the
// number of a single one. (sentence-transformers' CrossEncoder has a key of its own.)
void name_classes(io::Json& config, const std::vector<std::string>& labels);
void describe_text_classes(io::Json& config, const std::vector<std::string>& labels, Scores scores);
// What transformers calls it.
[[nodiscard]] std::string_view problem_type(Scores scores);

// Whether the head of `model` has one number for a text.
[[nodiscard]] bool gives_score(const Model& model);

// Whether the head of `model` tells classes of texts, and one class is right for each text. A head with one score or
// several, or with several labels for one text, is another kind.
[[nodiscard]] bool tells_one_class(const Model& model);

// Whether the head of `model` tells where an answer begins and ends (ForQuestionAnswering). It is one of classes of
// tokens, too.
[[nodiscard]] bool finds_answers(const Model& model);

inline constexpr std::string_view kFindsAnswers = "a model that finds answers";
[[nodiscard]] std::string_view words_for(Head head);
// What the head of `model` does: "a model that tells classes of texts", "a model that gives states only".
[[nodiscard]] std::string_view words_for_head(const Model& model);

}  // namespace heed::models
