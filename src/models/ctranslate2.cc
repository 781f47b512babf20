// CTranslate2's TransformerSpec: an encoder-decoder whose settings are numbers beside the weights.
#include "models/ctranslate2.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "formats/json.h"
#include "heed/error.h"
#include "heed/io.h"
#include "models/weights.h"

namespace heed::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCtranslate2Reader = "load_ctranslate2";
constexpr int64_t kVocabularyLimit = int64_t{1} << 28;  // bytes

// The settings and weights of model.bin. What nobody has asked for is refused at the end.
class SpecReader {
 public:
  SpecReader(const fs::path& file, io::SafetensorsFile& contents) : where_(file.string()), tensors_(contents.tensors) {}

  // A setting; `usual` where the file has none.
  [[nodiscard]] float number(const std::string& name, float usual) {
    read_.insert(name);
    const auto at = tensors_.find(name);
    if (at == tensors_.end()) return usual;
    require(at->second.numel() == 1, kCtranslate2Reader, where_, ": one number under \"", name, "\"; found shape ",
            at->second.shape());
    const Tensor& t = at->second;
    return t.dtype() == DType::i8    ? static_cast<float>(*t.data<int8_t>())
           : t.dtype() == DType::i32 ? static_cast<float>(*t.data<int32_t>())
                                     : *t.to(DType::f32).data<float>();
  }
  // One that both stacks have, and must have alike.
  [[nodiscard]] float number_of_both(const std::string& name, float usual) {
    const float encoder = number("encoder/" + name, usual), decoder = number("decoder/" + name, usual);
    require(encoder == decoder, kCtranslate2Reader, where_, ": the same ", name, " in encoder and decoder; found ",
            encoder, " and ", decoder);
    return encoder;
  }
  void expect(const std::string& name, float value) {
    const float found = number(name, value);
    require(found == value, kCtranslate2Reader, where_, ": ", name, " ", value,
            ", which is all that heed knows; found ", found);
  }

  [[nodiscard]] const Tensor* find(const std::string& name) const {
    const auto at = tensors_.find(name);
    return at == tensors_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] const Tensor& matrix(const std::string& name) const {
    const Tensor* const tensor = find(name);
    require(tensor != nullptr, kCtranslate2Reader, where_, ": a tensor \"", name, "\"; found none");
    require(tensor->rank() == 2, kCtranslate2Reader, where_, ": a matrix \"", name, "\"; found shape ",
            tensor->shape());
    return *tensor;
  }
  // How many layers the stack has.
  [[nodiscard]] int64_t layers(const std::string& stack) const {
    int64_t count = 0;
    while (find(stack + "/layer_" + std::to_string(count) + "/self_attention/linear_0/weight") != nullptr) ++count;
    return count;
  }
  void ignore(const std::string& name) { read_.insert(name); }
  // Settings that nobody has read would change the computation; tensors are checked when they are taken.
  void finish() const {
    for (const auto& [name, tensor] : tensors_) {
      const size_t slash = name.rfind('/');
      const std::string last = slash == std::string::npos ? name : name.substr(slash + 1);
      const bool known = read_.contains(name) || tensor.rank() != 0 || last == "alignment_layer" ||
                         last == "alignment_heads";  // for word alignments
      require(known, kCtranslate2Reader, where_, ": only settings that heed knows; found \"", name, "\"");
    }
  }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  std::string where_;
  io::Tensors& tensors_;
  std::set<std::string> read_;
};

Activation activation_of(SpecReader& spec) {
  constexpr Activation kActivations[] = {Activation::relu, Activation::gelu_tanh, Activation::silu, Activation::gelu};
  const float found = spec.number_of_both("activation", 0);
  require(found >= 0 && found < 4 && std::floor(found) == found, kCtranslate2Reader, spec.where(),
          ": activation 0 (ReLU), 1 (GELU by tanh), 2 (SiLU) or 3 (GELU); found ", found);
  return kActivations[static_cast<int>(found)];
}

bool is_same_tensor(const Tensor* a, const Tensor* b) {
  if (a == nullptr || b == nullptr) return false;
  if (a->raw() == b->raw()) return true;
  return a->dtype() == b->dtype() && a->shape() == b->shape() &&
         std::memcmp(a->raw(), b->raw(), static_cast<size_t>(a->nbytes())) == 0;
}

// The formula that gives a stored table, if one does within what rounding explains.
bool find_sinusoids(const Tensor& table, Config& config) {
  const Tensor stored = table.to(DType::f32);
  // Angles of thousands, in f32; and a table may have been in f16 before it was in f32.
  const float tolerance = table.dtype() == DType::f32 ? 5e-4f : 5e-3f;
  for (const auto layout :
       {nn::PositionLayout::interleaved, nn::PositionLayout::halves, nn::PositionLayout::paper_halves}) {
    for (int64_t first = 0; first <= 2; ++first) {
      const Tensor made = nn::sinusoidal_positions(stored.size(0), stored.size(1), layout, first);
      const float *a = made.data<float>(), *b = stored.data<float>();
      if (!std::equal(a, a + made.numel(), b, [&](float x, float y) { return std::fabs(x - y) <= tolerance; }))
        continue;
      config.positions = Positions::sinusoidal;
      config.position_layout = layout;
      config.first_position = first;
      return true;
    }
  }
  return false;
}

// Both stacks' tables, or CTranslate2's own sinusoids where the file has none.
void read_positions(const SpecReader& spec, io::Tensors& tensors, Config& config) {
  const std::string encoder = "encoder/position_encodings/encodings", decoder = "decoder/position_encodings/encodings";
  if (spec.find(encoder) == nullptr && spec.find(decoder) == nullptr) {
    config.position_layout = nn::PositionLayout::halves;
    config.first_position = 1;
    return;
  }
  const Tensor &a = spec.matrix(encoder), &b = spec.matrix(decoder);
  require(a.shape() == b.shape() && a.size(1) == config.width && a.size(1) % 2 == 0, kCtranslate2Reader, spec.where(),
          ": tables of positions of the model's width, ", config.width, ", and of equal size; found ", a.shape(),
          " and ", b.shape());
  config.max_length = a.size(0);
  if (is_same_tensor(&a, &b) && find_sinusoids(a, config)) {
    tensors.erase(encoder);
    tensors.erase(decoder);
  } else {
    config.positions = Positions::learned;
  }
}

// A byte is a flag, and a number in another format is the factor itself.
bool scales_embeddings(SpecReader& spec, int64_t width) {
  constexpr const char* kKey = "scale_embeddings";
  const float found = spec.number_of_both(kKey, 1);
  const Tensor* const stored = spec.find(std::string("encoder/") + kKey);
  if (stored == nullptr || stored->dtype() == DType::i8) return found != 0;
  const float root = std::sqrt(static_cast<float>(width));
  const bool scales = std::fabs(found - root) <= 1e-3f * root;  // (in f16, perhaps)
  require(scales || found == 1, kCtranslate2Reader, spec.where(), ": a factor of the embeddings of 1 or ", root,
          ", the root of the width; found ", found);
  return scales;
}

Config read_spec(SpecReader& spec, io::Tensors& tensors) {
  Config config;
  config.encoder_layers = spec.layers("encoder");
  config.decoder_layers = spec.layers("decoder");
  const Tensor &source = spec.matrix("encoder/embeddings/weight"), &target = spec.matrix("decoder/embeddings/weight");
  config.source_vocabulary = source.size(0);
  config.target_vocabulary = target.size(0);
  config.width = source.size(1);
  config.feed_forward = spec.matrix("encoder/layer_0/ffn/linear_0/weight").size(0);
  const float heads = spec.number_of_both("num_heads", 8);
  require(heads >= 1 && heads <= 65536 && std::floor(heads) == heads, kCtranslate2Reader, spec.where(),
          ": a whole number of heads from 1 to 65536; found ", heads);
  config.heads = static_cast<int64_t>(heads);
  config.activation = activation_of(spec);
  const bool pre_norm = spec.number_of_both("pre_norm", 1) != 0;
  config.norm_placement = pre_norm ? NormPlacement::pre : NormPlacement::post;
  config.final_norm = spec.find("encoder/layer_norm/gamma") != nullptr;
  config.scale_embedding = scales_embeddings(spec, config.width);
  config.bias = spec.find("encoder/layer_0/ffn/linear_0/bias") != nullptr;
  const Tensor* const output = spec.find("decoder/projection/weight");
  config.tie_output = is_same_tensor(output, &target);
  config.output_bias = spec.find("decoder/projection/bias") != nullptr;
  config.share_embeddings = is_same_tensor(&source, &target);
  config.unknown_id = -1;
  for (const std::string stack : {"encoder/", "decoder/"}) {
    spec.ignore(stack + "embeddings_merge");  // of one table there is nothing to merge
    spec.expect(stack + "multi_query_attention", 0);
    spec.expect(stack + "alibi", 0);
    spec.ignore(stack + "alibi_use_positive_positions");
    spec.ignore(stack + "scale_alibi");
  }
  read_positions(spec, tensors, config);
  return config;
}

std::vector<std::string> read_tokens(const fs::path& file) {
  const std::string text = io::read_file(file, kVocabularyLimit);
  std::vector<std::string> tokens;
  if (file.extension() == ".txt") {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      tokens.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return tokens;
  }
  const io::ParsedJson parsed = io::parse_json(text);
  require(parsed.problem.empty() && parsed.value.is_array(), kCtranslate2Reader, file.string(), ": a list of tokens; ",
          parsed.problem.empty() ? "found another value" : parsed.problem);
  for (const io::Json& token : parsed.value) {
    require(token.is_string(), kCtranslate2Reader, file.string(), ": a list of tokens; found ", io::json_ascii(token));
    tokens.push_back(token.get<std::string>());
  }
  return tokens;
}

std::vector<std::string> vocabulary_of(const fs::path& folder, const std::string& side, bool& shared) {
  for (const std::string& name : {std::string("shared"), side}) {
    for (const char* const ending : {"_vocabulary.json", "_vocabulary.txt"}) {
      std::error_code ignored;
      if (!fs::exists(folder / (name + ending), ignored)) continue;
      shared = name == "shared";
      return read_tokens(folder / (name + ending));
    }
  }
  fail(kCtranslate2Reader, folder.string(), ": shared_vocabulary.json or ", side, "_vocabulary.json; found neither");
}

int64_t id_of(const std::vector<std::string>& tokens, const std::string& token) {
  const auto at = std::find(tokens.begin(), tokens.end(), token);
  return at == tokens.end() ? -1 : at - tokens.begin();
}

// With a row of zeros below, or a zero behind.
Tensor with_zero_row(const Tensor& table) {
  const Tensor old = table.to(DType::f32).contiguous();
  Shape shape = old.shape();
  ++shape[0];
  Tensor result = Tensor::zeros(shape);
  if (old.nbytes() > 0) std::memcpy(result.raw(), old.raw(), static_cast<size_t>(old.nbytes()));
  return result;
}

// Marian's decoder starts from a vector of zeros, which transformers keeps as that of the padding.
void add_zero_token(Ctranslate2Model& result, Config& config, io::Tensors& tensors, const std::string& where) {
  require(config.source_vocabulary == config.target_vocabulary, kCtranslate2Reader, where,
          ": as many source tokens as target tokens where the decoder starts from zeros; found ",
          config.source_vocabulary, " and ", config.target_vocabulary);
  require(id_of(result.source_tokens, "<pad>") < 0 && id_of(result.target_tokens, "<pad>") < 0, kCtranslate2Reader,
          where, ": no token <pad> where the decoder starts from zeros; found one");
  std::map<const void*, Tensor> grown;  // tables that are one stay one
  for (const char* const name : {"encoder/embeddings/weight", "decoder/embeddings/weight", "decoder/projection/weight",
                                 "decoder/projection/bias"}) {
    const auto at = tensors.find(name);
    if (at == tensors.end()) continue;
    Tensor& one = grown[at->second.raw()];
    if (!one.defined()) one = with_zero_row(at->second);
    at->second = one;
  }
  result.padding = "<pad>";
  result.source_tokens.push_back(result.padding);
  result.target_tokens.push_back(result.padding);
  config.begin_id = config.padding_id = config.source_vocabulary;
  ++config.source_vocabulary;
  ++config.target_vocabulary;
}

// config.json: how a text and its translation begin and end.
void read_ends(const fs::path& folder, bool starts_from_zeros, Ctranslate2Model& result, Config& config,
               io::Tensors& tensors) {
  const fs::path file = folder / "config.json";
  const io::ParsedJson parsed = io::parse_json(io::read_file(file, int64_t{1} << 20));
  const std::string where = file.string();
  require(parsed.problem.empty() && parsed.value.is_object(), kCtranslate2Reader, where, ": an object; ",
          parsed.problem.empty() ? "found another value" : parsed.problem);
  const auto value = [&](const char* key, const io::Json& usual) {
    const auto at = parsed.value.find(key);
    return at == parsed.value.end() || at->is_null() ? usual : *at;
  };
  const auto token = [&](const char* key, const char* usual) {
    const io::Json found = value(key, usual);
    require(found.is_string(), kCtranslate2Reader, where, ": a token under \"", key, "\"; found ",
            io::json_ascii(found));
    return found.get<std::string>();
  };
  const io::Json epsilon = value("layer_norm_epsilon", 1e-5);
  require(epsilon.is_number(), kCtranslate2Reader, where, ": a number under \"layer_norm_epsilon\"; found ",
          io::json_ascii(epsilon));
  config.norm_epsilon = epsilon.get<float>();
  require(value("add_source_bos", false) == false, kCtranslate2Reader, where,
          ": add_source_bos false, which is all that heed knows; found ",
          io::json_ascii(value("add_source_bos", false)));
  require(value("add_source_eos", false) == true || starts_from_zeros, kCtranslate2Reader, where,
          ": add_source_eos true, or a Marian, whose texts end with </s> too; found neither");
  result.end = token("eos_token", "</s>");
  result.unknown = token("unk_token", "<unk>");
  config.end_id = id_of(result.target_tokens, result.end);
  require(config.end_id >= 0 && id_of(result.source_tokens, result.end) >= 0, kCtranslate2Reader, where,
          ": an eos_token that is in the vocabularies; found ", result.end);
  if (starts_from_zeros) return add_zero_token(result, config, tensors, where);
  const std::string start = token("decoder_start_token", "<s>");
  config.begin_id = id_of(result.target_tokens, start);
  require(config.begin_id >= 0, kCtranslate2Reader, where, ": a decoder_start_token that is in the vocabulary; found ",
          start);
  // Any token may pad, as nobody attends to it; but it is never chosen.
  for (const char* const name : {"<pad>", "<blank>"}) {
    const int64_t id = id_of(result.target_tokens, name);
    if (id < 0 || id_of(result.source_tokens, name) != id) continue;
    config.padding_id = id;
    result.padding = name;
    break;
  }
  if (result.padding.empty()) {
    require(config.begin_id != config.end_id, kCtranslate2Reader, where,
            ": a token <pad> where the decoder starts with eos_token; found none");
    config.padding_id = config.begin_id;
    config.zero_padding = false;
    result.padding = start;
  }
}

}  // namespace

bool is_ctranslate2_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "model.bin", ignored) && !fs::exists(folder / "model.safetensors", ignored) &&
         !fs::exists(folder / "model.safetensors.index.json", ignored);
}

Ctranslate2Model load_ctranslate2(const fs::path& folder) {
  const fs::path file = folder / "model.bin";
  io::SafetensorsFile contents = io::read_ctranslate2(file);
  const std::string kind = contents.metadata["spec"];
  require(kind == "TransformerSpec", kCtranslate2Reader, file.string(), ": a model of kind TransformerSpec; found ",
          kind);
  io::Tensors& tensors = contents.tensors;
  for (const char* const part : {"weight", "weight_scale"}) {  // newer files number the tables of features
    if (auto table = tensors.extract("encoder/embeddings_0/" + std::string(part)); !table.empty()) {
      table.key() = "encoder/embeddings/" + std::string(part);
      tensors.insert(std::move(table));
    }
  }
  SpecReader spec(file, contents);
  Config config = read_spec(spec, tensors);
  const bool starts_from_zeros = spec.number("decoder/start_from_zero_embedding", 0) != 0;
  spec.finish();
  Ctranslate2Model result;
  bool shared_by_target = false;
  result.source_tokens = vocabulary_of(folder, "source", result.shared_vocabulary);
  result.target_tokens = vocabulary_of(folder, "target", shared_by_target);
  require(result.shared_vocabulary == shared_by_target, kCtranslate2Reader, folder.string(),
          ": one vocabulary, or one for each side; found a mixture");
  require(std::ssize(result.source_tokens) == config.source_vocabulary &&
              std::ssize(result.target_tokens) == config.target_vocabulary,
          kCtranslate2Reader, folder.string(), ": vocabularies of ", config.source_vocabulary, " and ",
          config.target_vocabulary, " tokens, as many as the model has; found ", result.source_tokens.size(), " and ",
          result.target_tokens.size());
  read_ends(folder, starts_from_zeros, result, config, tensors);
  config.unknown_id = id_of(result.target_tokens, result.unknown);
  require(config.unknown_id >= 0, kCtranslate2Reader, folder.string(),
          ": an unk_token that is in the vocabulary; found ", result.unknown);
  if (config.tie_output) tensors.erase("decoder/projection/weight");
  if (config.share_embeddings) tensors.erase("decoder/embeddings/weight");
  check_plausible(config, tensors, file.string());
  result.model = std::make_unique<Transformer>(config);
  take_weights(*result.model, contents, file.string(), ctranslate2_names());
  return result;
}

}  // namespace heed::models
