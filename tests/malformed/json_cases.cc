// Configurations of models, and recipes.
#include "malformed/cases.h"

namespace heed::malformed {
namespace {

// What is wrong with any JSON. `good` is an object, and `key` one of its keys.
void add_any_json(Cases& cases, std::string_view target, const std::string& good, const std::string& key) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad(target, kind, std::move(contents), reason);
  };
  const auto with = [&](std::string_view value) {
    return good.substr(0, good.size() - 1) + "," + std::string(value) + "}";
  };
  bad("empty", "", " at line 1");
  bad("only spaces", " \n ", " at line ");
  bad("UTF-16", std::string("\xff\xfe{\0}\0", 6), " at line 1");
  bad("no UTF-8", with("\"\xff\":1"), " at line 1");
  bad("overlong UTF-8", with("\"\xc0\xaf\":1"), " at line 1");
  bad("half of a surrogate pair", with("\"\\ud800\":1"), " at line 1");
  bad("65 levels", with("\"x\":" + std::string(65, '[') + std::string(65, ']')), "8 levels");
  bad("1,000,000 levels of [", std::string(1'000'000 - 100, '['), "8 levels");
  bad("not closed", good.substr(0, good.size() - 1), " at line 1");
  bad("a comma too many", with(""), " at line 1");
  bad("a comment", with("/**/\"x\":1"), " at line 1");
  bad("NaN", with("\"x\":NaN"), " at line 1");
  bad("infinity", with("\"x\":Infinity"), " at line 1");
  bad("hexadecimal", with("\"x\":0x1"), " at line 1");
  bad("1e999", with("\"x\":1e999"), "1e999");
  bad("a key twice", with(key + ":0"), "twice");
  bad("an escaped key twice", with("\"\\u0078\":0,\"x\":0"), "found \"x\" twice");
  bad("NUL in a key", with(std::string("\"a\0b\":1", 7)), " at line 1");
  bad("text after the object", good + "x", " at line 1");
  bad("a list", "[]", "a JSON object; found array");
  bad("a number", "1", "a JSON object; found number");
  bad("null", "null", "a JSON object; found null");
  bad("unknown key", with("\"colour\":3"), "colour");
  bad("a key like a prototype's", with("\"__proto__\":{}"), "__proto__");
  bad("a key with an escape for terminals", with("\"\\u001b[31m\":1"), "?[31m");
  bad("code", with("\"auto_map\":{\"AutoModel\":\"code.Model\"}"), "auto_map");
}

void add_config(Cases& cases) {
  const std::string good = "{\"source_vocabulary\":10,\"target_vocabulary\":10}";
  cases.good("config", "two keys", good);
  add_any_json(cases, "config", good, "\"source_vocabulary\"");
  const auto bad = [&](std::string_view kind, std::string_view value, std::string_view reason) {
    cases.bad("config", kind, good.substr(0, good.size() - 1) + "," + std::string(value) + "}", reason);
  };
  bad("heads text", "\"heads\":\"8\"", "key \"heads\": a whole number; found \"8\"");
  bad("heads 8.0", "\"heads\":8.0", "key \"heads\"");
  bad("heads null", "\"heads\":null", "key \"heads\"");
  bad("heads a list", "\"heads\":[8]", "key \"heads\"");
  bad("heads 2^53 + 1", "\"heads\":9007199254740993", "heads");
  bad("heads 2^63", "\"heads\":9223372036854775808", "key \"heads\"");
  bad("heads 2^64", "\"heads\":18446744073709551616", "key \"heads\"");
  bad("heads 0", "\"heads\":0", "heads");
  bad("heads -1", "\"heads\":-1", "heads");
  bad("heads that do not divide the width", "\"heads\":7", "heads");
  bad("key/value heads that do not divide the heads", "\"key_value_heads\":3", "key_value_heads");
  bad("more key/value heads than heads", "\"key_value_heads\":16", "key_value_heads");
  bad("width 0", "\"width\":0", "width");
  bad("width negative", "\"width\":-512", "width");
  bad("width 2^62", "\"width\":4611686018427387904", "width");
  bad("feed_forward 0", "\"feed_forward\":0", "feed_forward");
  bad("10^9 layers", "\"encoder_layers\":1000000000", "encoder_layers");
  bad("layers negative", "\"decoder_layers\":-1", "decoder_layers");
  bad("max_length 0", "\"max_length\":0", "max_length");
  bad("dropout 1", "\"dropout\":1", "dropout");
  bad("dropout negative", "\"dropout\":-0.1", "dropout");
  bad("dropout text", "\"dropout\":\"0.1\"", "key \"dropout\": a number");
  bad("dropout 1e300", "\"dropout\":1e300", "dropout");
  bad("epsilon 0", "\"norm_epsilon\":0", "norm_epsilon");
  bad("epsilon negative", "\"norm_epsilon\":-1e-5", "norm_epsilon");
  bad("activation unknown", "\"activation\":\"swiglu9\"", "key \"activation\": one of");
  bad("activation code", "\"activation\":\"__import__('os')\"", "key \"activation\": one of");
  bad("activation a number", "\"activation\":1", "key \"activation\": one of");
  bad("architecture unknown", "\"architecture\":\"mamba\"", "key \"architecture\": one of");
  bad("bias a number", "\"bias\":1", "key \"bias\": true or false; found 1");
  bad("bias text", "\"bias\":\"true\"", "key \"bias\": true or false");
  bad("padding beyond the vocabulary", "\"padding_id\":10", "padding_id");
  bad("begin -2", "\"begin_id\":-2", "begin_id");
  bad("another vocabulary shared", "\"target_vocabulary2\":1", "target_vocabulary2");
  cases.bad("config", "no vocabulary", "{}", "vocabulary");
  cases.bad("config", "vocabulary 0", "{\"source_vocabulary\":0,\"target_vocabulary\":10}", "source_vocabulary");
  cases.bad("config", "vocabulary 2^31", "{\"source_vocabulary\":2147483648,\"target_vocabulary\":10}",
            "source_vocabulary");
}

void add_recipes(Cases& cases) {
  const std::string json = "{\"task\":\"translation\",\"pairs\":\"a.tsv\",\"valid_fraction\":0.1,\"max_updates\":10}";
  cases.good("recipe_json", "four keys", json);
  add_any_json(cases, "recipe_json", json, "\"task\"");

  const std::string good = "task = \"translation\"\npairs = \"a.tsv\"\nvalid_fraction = 0.1\nmax_updates = 10\n";
  cases.good("recipe_toml", "four keys", good);
  const auto bad = [&](std::string_view kind, std::string_view line, std::string_view reason) {
    cases.bad("recipe_toml", kind, good + std::string(line), reason);
  };
  bad("no value", "seed =", "line 5");
  bad("no key", "= 5", "line 5");
  bad("text without end", "preset = \"tiny", "line 5");
  bad("table without end", "[model", "line 5");
  bad("key twice", "max_updates = 10", "line 5");
  bad("table twice", "[model]\n[model]", "line 6");
  bad("no UTF-8", "preset = \"\xff\"", "line 5");
  bad("NUL", std::string_view("preset = \"\0\"", 12), "line 5");
  bad("number cut off", "seed = 1e", "line 5");
  bad("n in place of nan", "seed = n\n", "line 5");
  bad("integer beyond 2^63", "seed = 99999999999999999999", "line 5");
  bad("a date", "seed = 1979-05-27", "line 5");
  bad("a list", "seed = [1]", "line 5");
  bad("100,000 brackets", "seed = " + std::string(100'000, '['), "line 5");
  bad(
      "10,000 tables, one in the other",
      [] {
        std::string deep = "[a";
        for (int i = 0; i < 10'000; ++i) deep += ".a";
        return deep + "]";
      }(),
      "at most 16 dots");
  bad("unknown key", "colour = 3", "line 5");
  bad("unknown table", "[colour]\nx = 3", "line");
  bad("unknown key of the model", "[model]\ncolour = 3", "line 6");
  bad("a key that the tokenizer decides", "[model]\nsource_vocabulary = 3", "line 6");
  bad("model a number", "model = 3", "line 5");
  bad("a table in place of a number", "[seed]\nx = 1", "line");
  bad("task twice, as a table", "[task]", "line 5");
  bad("updates text", "log_every = \"10\"", "line 5");
  bad("updates negative", "log_every = -1", "line 5");
  bad("a fraction beyond 1", "label_smoothing = 1.5", "line 5");
  bad("nan", "label_smoothing = nan", "line 5");
  bad("inf", "label_smoothing = inf", "line 5");
  bad("preset unknown", "preset = \"huge\"", "huge");
  bad("precision unknown", "precision = \"f8\"", "line 5");
  bad("key with an escape for terminals", "\"\\u001b[31m\" = 1", "?[31m");
  cases.good("recipe_toml", "empty", "");
  cases.bad("recipe_toml", "task unknown", "task = \"x\"\n", "line 1");
  cases.bad("recipe_toml", "JSON", "{\"task\":1}", "line 1");
  cases.bad("recipe_toml", "larger than 1 MiB", std::string((1 << 20) + 1, '#'), "1048576 bytes");
}

}  // namespace

void add_json(Cases& cases) {
  add_config(cases);
  add_recipes(cases);
}

}  // namespace heed::malformed
