#include "models/families/classifier.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "heed/error.h"
#include "models/families/weights.h"

namespace heed::models {
namespace {

using io::Json;

// How transformers calls a family's classes, and the part of a file's names that stands for its body.
struct FamilyName {
  std::string_view model_type, class_prefix, body;
};
constexpr std::array kFamilyNames = {
    FamilyName{"bert", "Bert", "bert."},
    FamilyName{"camembert", "Camembert", "roberta."},
    FamilyName{"distilbert", "DistilBert", "distilbert."},
    FamilyName{"modernbert", "ModernBert", "model."},
    FamilyName{"mpnet", "MPNet", "mpnet."},
    FamilyName{"roberta", "Roberta", "roberta."},
    FamilyName{"xlm-roberta", "XLMRoberta", "roberta."},
};

const FamilyName& name_of_family(const std::string& model_type) {
  const auto* const at = std::ranges::find(kFamilyNames, model_type, &FamilyName::model_type);
  require(at != kFamilyNames.end(), "with_text_classes", "an encoder of a family that has classes; found model_type ",
          model_type);
  return *at;
}

// The head that a model gets.
struct NewHead {
  const std::vector<std::string>& labels;
  Scores scores = Scores::probabilities;
  bool keeps_output = false;  // it has as many outputs as before, which mean the same
};

// config.json of the same encoder with this head.
Json with_head(Json config, const FamilyName& family, const NewHead& head) {
  config["architectures"] = Json::array({std::string(family.class_prefix) + "ForSequenceClassification"});
  for (const char* const key :
       {"num_labels", "problem_type", "sentence_transformers", "sbert_ce_default_activation_function"}) {
    config.erase(key);  // those of another head
  }
  describe_text_classes(config, head.labels, head.scores);
  return config;
}

// The files of bare encoders have names without the prefix; those of classifiers have it.
Weights with_prefix(Weights weights, std::string_view prefix) {
  if (!prefix_in(weights, prefix).empty()) return weights;
  Weights result;
  for (auto& [name, tensor] : weights) result[std::string(prefix) + name] = std::move(tensor);
  return result;
}

// Normal numbers, drawn again where they are farther away from 0 than `limit`.
Tensor truncated_normal(nn::Initializer& init, const Shape& shape, float deviation, float limit) {
  Tensor result = init.normal(shape, deviation);
  float* const values = result.data<float>();
  const auto is_outside = [limit](float value) { return std::abs(value) > limit; };
  while (std::any_of(values, values + result.numel(), is_outside)) {
    const Tensor again = init.normal(shape, deviation);
    for (int64_t i = 0; i < result.numel(); ++i) {
      if (is_outside(values[i])) values[i] = again.data<float>()[i];
    }
  }
  return result;
}

// The initial weights of a head, as transformers' _init_weights has them.
class HeadWeights {
 public:
  HeadWeights(const Json& config, const Config& sizes, uint64_t seed) : init_(seed) {
    Keys keys(config, "config.json");
    range_ = keys.number("initializer_range", 0.02f);
    if (!(range_ > 0)) range_ = 0.02f;  // as transformers does
    if (keys.word("model_type", "") != "modernbert") return;
    cutoff_ = keys.number("initializer_cutoff_factor", 2);
    if (!(cutoff_ >= 1)) keys.refuse("initializer_cutoff_factor", "1 or more");
    hidden_ = 1 / std::sqrt(2 * static_cast<float>(sizes.encoder_layers));
    output_ = 1 / (range_ * std::sqrt(static_cast<float>(sizes.width)));
  }

  [[nodiscard]] Tensor of(const std::string& path, const Shape& shape) {
    if (path.ends_with(".gain")) return Tensor::full(shape, 1.0f);
    if (path.ends_with(".bias")) return Tensor::zeros(shape);
    const float deviation = range_ * (path == "head.output.weight" ? output_ : hidden_);
    return cutoff_ > 0 ? truncated_normal(init_, shape, deviation, cutoff_ * deviation)
                       : init_.normal(shape, deviation);
  }

 private:
  nn::Initializer init_;
  float range_ = 0.02f, hidden_ = 1, output_ = 1;
  float cutoff_ = 0;  // 0: none
};

bool is_of_head(const std::string& path) { return path.starts_with("head."); }

std::unique_ptr<Model> make_without_weights(const Config& config) {
  const nn::Initializer::Skipped no_initial_weights;
  return create(config);
}

std::unique_ptr<Model> family_with_head(const Model& read, const std::filesystem::path& folder, const NewHead& head,
                                        uint64_t seed) {
  const Json old = io::parse_json(read.origin()->config_json).value;
  const FamilyName& family = name_of_family(old.value("model_type", ""));
  const Json config = with_head(old, family, head);
  const Weights weights = with_prefix(read_current_weights(folder), family.body);
  auto origin = std::make_shared<Origin>();
  origin->config_json = io::json_text(config, 2) + "\n";
  Weights with_names = weights;  // the new head's too, so that config.json is not read as that of a bare encoder
  for (const char* const name : {"head.", "classifier."}) with_names[name] = Tensor::zeros({1});
  origin->design = read_design(config, (folder / "config.json").string(), with_names);

  std::unique_ptr<Model> model = make_without_weights(origin->design.config);
  HeadWeights initial(config, origin->design.config, seed);
  Weights taken;  // and nothing that belonged to another head
  for (const auto& [path, value] : model->named_parameters()) {
    const std::string name = place_of(origin->design, path).name;
    const auto found = weights.find(name);
    const bool keeps =
        found != weights.end() && (!is_of_head(path) || head.keeps_output ||
                                   (found->second.shape() == value.shape() && !path.starts_with("head.output")));
    taken[name] = keeps ? found->second : initial.of(path, value.shape());
  }
  take_weights(*model, origin->design, taken, folder.string());
  model->set_origin(std::move(origin));
  return model;
}

// The layer below the classes is new as well, unless there was one below other classes.
std::unique_ptr<Model> own_with_head(const Model& read, const NewHead& head, uint64_t seed) {
  Config config = read.config();
  const bool keeps_hidden = config.head == Head::text_class;
  if (!keeps_hidden) {
    config.head_hidden = true;
    config.head_activation = Activation::tanh;
    config.head_norm = false;
  }
  config.head = Head::text_class;
  config.labels = head.labels;
  config.scores = head.scores;
  config.output_bias = false;
  config.tie_output = true;
  std::unique_ptr<Model> model = make_without_weights(config);
  HeadWeights initial(Json::object(), config, seed);
  const auto before = read.named_parameters();
  for (const auto& [path, value] : model->named_parameters()) {
    const auto found =
        std::ranges::find(before, path, [](const auto& parameter) -> const std::string& { return parameter.first; });
    const bool keeps = found != before.end() &&
                       (!is_of_head(path) || head.keeps_output || (keeps_hidden && !path.starts_with("head.output")));
    value.set_data(keeps ? found->second.data().clone() : initial.of(path, value.shape()));
  }
  return model;
}

std::unique_ptr<Model> with_new_head(const Model& read, const std::filesystem::path& folder, const NewHead& head,
                                     uint64_t seed) {
  return read.origin() != nullptr ? family_with_head(read, folder, head, seed) : own_with_head(read, head, seed);
}

}  // namespace

void name_classes(Json& config, const std::vector<std::string>& labels) {
  Json names = Json::object(), numbers = Json::object();
  for (size_t i = 0; i < labels.size(); ++i) {
    names[std::to_string(i)] = labels[i];
    numbers[labels[i]] = i;
  }
  config["id2label"] = std::move(names);
  config["label2id"] = std::move(numbers);
}

std::string_view problem_type(Scores scores) {
  switch (scores) {
    case Scores::probabilities: return "single_label_classification";
    case Scores::independent: return "multi_label_classification";
    case Scores::raw: return "regression";
  }
  return "";
}

void describe_text_classes(Json& config, const std::vector<std::string>& labels, Scores scores) {
  name_classes(config, labels);
  if (labels.size() > 1 || scores == Scores::raw) config["problem_type"] = problem_type(scores);
  if (labels.size() > 1) return;
  const char* const activation = scores == Scores::raw ? "linear.Identity" : "activation.Sigmoid";
  config["sentence_transformers"] = {{"activation_fn", std::string("torch.nn.modules.") + activation}};
}

std::unique_ptr<Model> with_text_classes(const Model& read, const std::filesystem::path& folder,
                                         const std::vector<std::string>& labels, uint64_t seed) {
  return with_new_head(read, folder, {.labels = labels}, seed);
}

std::unique_ptr<Model> with_text_score(const Model& read, const std::filesystem::path& folder, bool plain,
                                       uint64_t seed) {
  const bool has_one = gives_score(read);
  const std::vector<std::string> label = has_one ? read.config().labels : std::vector<std::string>{"LABEL_0"};
  const Scores scores = plain ? Scores::raw : Scores::probabilities;
  return with_new_head(read, folder, {.labels = label, .scores = scores, .keeps_output = has_one}, seed);
}

bool gives_score(const Model& model) {
  return model.config().head == Head::text_class && model.config().labels.size() == 1;
}

bool tells_one_class(const Model& model) {
  const Config& config = model.config();
  return config.head == Head::text_class && config.labels.size() > 1 && config.scores == Scores::probabilities;
}

bool finds_answers(const Model& model) {
  const Config& config = model.config();
  if (config.head != Head::token_class) return false;
  const bool has_its_labels = config.labels == std::vector<std::string>{"start", "end"};
  if (model.origin() == nullptr) return has_its_labels;
  const Json names = io::parse_json(model.origin()->config_json).value.value("architectures", Json());
  if (names.is_null()) return has_its_labels;  // the head said what it is
  return names.is_array() && !names.empty() && names[0].is_string() &&
         names[0].get<std::string>().ends_with("ForQuestionAnswering");
}

std::string_view words_for(Head head) {
  switch (head) {
    case Head::masked_token: return "a model that guesses masked tokens";
    case Head::text_class: return "a model that tells classes of texts";
    case Head::token_class: return "a model that tells classes of tokens";
    case Head::none: return "a model that gives states only";
  }
  return "";
}

std::string_view words_for_head(const Model& model) {
  return finds_answers(model) ? kFindsAnswers : words_for(model.config().head);
}

}  // namespace heed::models
