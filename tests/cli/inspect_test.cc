#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/program.h"
#include "heed/inspect.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/text.h"

namespace heed::cli::test {
namespace {

// Untrained models of each kind: what they say is noise, who attends to whom is real.
models::Config small(models::Architecture architecture, int64_t source, int64_t target) {
  models::Config config = models::preset("tiny", architecture);
  config.source_vocabulary = architecture == models::Architecture::decoder_only ? 0 : source;
  config.target_vocabulary = architecture == models::Architecture::encoder_only ? 0 : target;
  config.encoder_layers = 2;
  config.decoder_layers = 3;
  config.width = 16;
  config.heads = 2;
  config.feed_forward = 32;
  config.max_length = 24;
  return config;
}

std::string make_model(const Folder& folder, models::Architecture architecture, int64_t max_length = 24) {
  const std::vector<std::string> english = {"where is the station <script>alert(1)</script>"}, chinese = {"车站在哪里"};
  const auto source = text::train_pieces(english);
  const auto target = text::train_characters(chinese);
  const fs::path path = folder / "model";
  models::Config config = small(architecture, source->vocabulary(), target->vocabulary());
  config.max_length = max_length;
  // Training gives an encoder-only model one token more than its tokenizer has: the mask.
  if (architecture == models::Architecture::encoder_only) config.mask_id = config.source_vocabulary++;
  models::save(*models::create(config, 3), path);
  if (architecture != models::Architecture::decoder_only) source->save(path, text::Side::source);
  if (architecture != models::Architecture::encoder_only) target->save(path, text::Side::target);
  return path;
}

nlohmann::json record_of(const std::string& page) {
  const std::string open = "id=\"record\">";
  const size_t begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Inspect, ATranslation) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder), page = folder / "page.html";
  const Result result =
      run({"inspect", model, "--source", "where is <script>alert(1)</script>", "--target", "车站", "--output", page});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, page + "\n");
  const auto record = record_of(read(page));
  EXPECT_EQ(record["source_tokens"], (std::vector<std::string>{"where", "is", "<script>alert(1)</script>", "</s>"}));
  EXPECT_EQ(record["target_tokens"], (std::vector<std::string>{"<s>", "车", "站"}));
  EXPECT_EQ(record["output_tokens"], (std::vector<std::string>{"车", "站", "</s>"}));
  EXPECT_EQ(record["output"], "车站");
  ASSERT_EQ(record["encoder"].size(), 2u);
  ASSERT_EQ(record["decoder"].size(), 3u);
  ASSERT_EQ(record["cross"].size(), 3u);
  EXPECT_EQ(record["cross"][1]["weights"].size(), 2u);
  // Rows sum to one, and no token of the decoder looks ahead.
  for (const char* part : {"encoder", "decoder", "cross"}) {
    for (const auto& layer : record[part]) {
      for (const auto& head : layer["weights"]) {
        for (const auto& row : head) {
          double sum = 0;
          for (const auto& weight : row) sum += weight.get<double>();
          EXPECT_NEAR(sum, 1, 1e-3);
        }
        if (std::string(part) == "decoder") {
          EXPECT_EQ(head[0][1], 0);
        }
      }
    }
  }
}

TEST(Inspect, TranslatesWhereNoTargetIsGiven) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder), page = folder / "page.html";
  ASSERT_EQ(run({"inspect", model, "--source", "the station", "--output", page}).status, 0);
  const Result translated = run({"translate", model}, {.input = "the station\n"});
  EXPECT_EQ(record_of(read(page))["output"].get<std::string>() + "\n", translated.out);
}

TEST(Inspect, OneHead) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder);
  const std::vector<std::string> common = {"inspect", model, "--source", "where is the station", "--target", "车站在"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return run(more);
  };
  const Result files = with({"--part", "cross", "--layer", "2", "--head", "2", "--svg", folder / "a.svg", "--png",
                             folder / "a.png", "--head-json", folder / "a.json"});
  ASSERT_EQ(files.status, 0) << files.err;
  EXPECT_FALSE(fs::exists("attention.html"));
  const auto head = nlohmann::json::parse(read(folder / "a.json"));
  EXPECT_EQ(head["title"], "cross attention, layer 2, head 2");
  const auto record = nlohmann::json::parse(with({"--json"}).out);
  EXPECT_EQ(head["weights"], record["cross"][1]["weights"][1]);
  EXPECT_EQ(head["rows"], record["target_tokens"]);
  EXPECT_EQ(head["columns"], record["source_tokens"]);
  EXPECT_NE(read(folder / "a.svg").find(">车 → 站</text>"), std::string::npos);
  EXPECT_EQ(read(folder / "a.png").substr(1, 3), "PNG");

  const Result text = with({"--part", "decoder", "--head", "mean", "--text"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 4);
  EXPECT_EQ(text.out.find("<s> → 车   1.000 <s>"), 0u) << text.out;

  EXPECT_EQ(with({"--layer", "4", "--text"}).status, 2);
  EXPECT_EQ(with({"--layer", "0", "--text"}).status, 2);
  EXPECT_EQ(with({"--head", "3", "--text"}).status, 2);
  EXPECT_EQ(with({"--head", "x", "--text"}).status, 2);
  EXPECT_EQ(with({"--part", "middle", "--text"}).status, 2);
}

TEST(Inspect, DecoderOnly) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::decoder_only), page = folder / "page.html";
  const Result result = run({"inspect", model, "--source", "车站在哪", "--output", page});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto record = record_of(read(page));
  EXPECT_EQ(record["decoder"].size(), 3u);
  EXPECT_EQ(record["encoder"].size() + record["cross"].size(), 0u);
  EXPECT_EQ(record["target_tokens"], (std::vector<std::string>{"车", "站", "在", "哪"}));
  EXPECT_EQ(record["output_tokens"].size(), 4u);
  EXPECT_EQ(run({"inspect", model, "--source", "车", "--target", "站"}).status, 2);
}

TEST(Inspect, EncoderOnly) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_only), page = folder / "page.html";
  const Result result = run({"inspect", model, "--source", "the station", "--output", page});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto record = record_of(read(page));
  EXPECT_EQ(record["encoder"].size(), 2u);
  EXPECT_EQ(record["decoder"].size() + record["cross"].size(), 0u);
  EXPECT_EQ(record["source_tokens"], (std::vector<std::string>{"<s>", "the", "station", "</s>"}));
}

TEST(Inspect, TheTextIsAnArgumentToo) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder);
  const Result option = run({"inspect", model, "--source", "the station", "--output", folder / "a.html"});
  const Result argument = run({"inspect", model, "the station", "--output", folder / "b.html"});
  EXPECT_EQ(argument.status, 0) << argument.err;
  EXPECT_EQ(read(folder / "a.html"), read(folder / "b.html"));
  const Result both = run({"inspect", model, "the station", "--source", "the station"});
  EXPECT_EQ(both.status, 2);
}

TEST(Inspect, APageOnStandardOutput) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder), page = folder / "page.html";
  const std::vector<std::string> common = {"inspect", model, "the station", "--output"};
  std::vector<std::string> to_file = common, to_output = common;
  to_file.push_back(page);
  to_output.push_back("-");
  ASSERT_EQ(run(to_file).status, 0);
  const Result r = run(to_output);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, read(page));
  EXPECT_FALSE(fs::exists("-"));
}

TEST(Inspect, StandardOutputHasOneResult) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder);
  const std::string page = folder / "page.html", svg = folder / "a.svg";
  const Result r = run({"inspect", model, "the station", "--output", page, "--svg", svg, "--head-json", "-"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(nlohmann::json::parse(r.out).contains("title")) << "no name of a file beside it";
  const Result named = run({"inspect", model, "the station", "--output", page, "--svg", svg});
  EXPECT_EQ(named.out, svg + "\n" + page + "\n");
  for (const std::vector<std::string>& two : {std::vector<std::string>{"--output", "-", "--svg", "-"},
                                              {"--json", "--output", "-"},
                                              {"--text", "--png", "-"}}) {
    std::vector<std::string> arguments = {"inspect", model, "the station"};
    arguments.insert(arguments.end(), two.begin(), two.end());
    const Result both = run(arguments);
    EXPECT_EQ(both.status, 2) << both.err;
    EXPECT_NE(both.err.find("can write to standard output; found both"), std::string::npos) << both.err;
    EXPECT_EQ(both.out, "");
  }
}

TEST(Inspect, EachResultHasAFileOfItsOwn) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder);
  const std::string svg = folder / "a.svg", page = fs::current_path() / "attention.html";
  for (const std::vector<std::string>& two : {std::vector<std::string>{"--svg", svg, "--png", svg},
                                              {"--svg", svg, "--head-json", folder / "." / "a.svg"},
                                              {"--output", page, "--png", "attention.html"}}) {
    std::vector<std::string> arguments = {"inspect", model, "the station"};
    arguments.insert(arguments.end(), two.begin(), two.end());
    const Result both = run(arguments);
    EXPECT_EQ(both.status, 2) << both.err;
    EXPECT_NE(both.err.find("take a file each; found '"), std::string::npos) << both.err;
    EXPECT_FALSE(fs::exists(svg));
  }
  // Through a link to what is not there yet; and two names that are too long are no file.
  const std::string link = folder / "link.svg", png = folder / "there.png", longest(300, 'a');
  fs::create_symlink("there.png", link);
  EXPECT_EQ(run({"inspect", model, "the station", "--svg", link, "--png", png}).status, 2);
  EXPECT_FALSE(fs::exists(png));
  const Result long_names =
      run({"inspect", model, "the station", "--svg", folder / longest, "--png", folder / ("b" + longest)});
  EXPECT_EQ(long_names.status, 1);
  EXPECT_NE(long_names.err.find("File name too long"), std::string::npos) << long_names.err;
}

// The heads of a part, the mean last, as the page scores them: the title of the one with the largest score.
std::string most_telling(const nlohmann::json& record, const std::string& part, size_t first_layer, size_t last_layer,
                         std::optional<size_t> wanted = {}) {
  const auto& scores = record["telling"][part];
  double best = -1;
  std::string title;
  for (size_t layer = first_layer; layer <= last_layer; ++layer) {
    for (size_t head = 0; head < scores[layer - 1].size(); ++head) {
      if ((wanted && head != *wanted) || scores[layer - 1][head] <= best) continue;
      best = scores[layer - 1][head];
      const bool mean = head + 1 == scores[layer - 1].size();
      title = part + " attention, layer " + std::to_string(layer) +
              (mean ? ", mean over heads" : ", head " + std::to_string(head + 1));
    }
  }
  return title;
}

// What is drawn where no head is named is what the page opens on.
TEST(Inspect, TheMostTellingHeadIsDrawn) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder);
  const std::vector<std::string> common = {"inspect", model, "where is the station where", "--target",
                                           "车站在哪里车站"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return run(more);
  };
  const auto record = nlohmann::json::parse(with({"--json"}).out);
  const auto expect = [&](const std::vector<std::string>& choice, const std::string& title) {
    std::vector<std::string> arguments = choice;
    arguments.insert(arguments.end(), {"--head-json", "-"});
    const Result r = with(arguments);
    EXPECT_EQ(nlohmann::json::parse(r.out)["title"], title);
    EXPECT_NE(r.err.find(title + " (the most telling; --layer and --head choose another)\n"), std::string::npos)
        << r.err;
    return title;
  };
  std::set<std::string> titles;
  titles.insert(expect({}, most_telling(record, "cross", 1, 3)));
  for (const char* part : {"encoder", "decoder", "cross"})
    titles.insert(expect({"--part", part}, most_telling(record, part, 1, part == std::string("encoder") ? 2 : 3)));
  titles.insert(expect({"--layer", "3"}, most_telling(record, "cross", 3, 3)));
  titles.insert(expect({"--head", "2"}, most_telling(record, "cross", 1, 3, 1)));
  titles.insert(expect({"--part", "encoder", "--head", "mean"}, most_telling(record, "encoder", 1, 2, 2)));
  EXPECT_GT(titles.size(), 4u);
  EXPECT_FALSE(titles.contains("cross attention, layer 1, head 1") &&
               titles.contains("encoder attention, layer 1, head 1"));
  const Result named = with({"--layer", "1", "--head", "1", "--svg", folder / "a.svg"});
  EXPECT_NE(named.err.find("\ncross attention, layer 1, head 1\n"), std::string::npos) << named.err;
}

TEST(Inspect, APageHasTheNameOfAPage) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder);
  const auto expect = [&](const std::string& name, const std::string& hint) {
    const std::string file = folder / name;
    const Result r = run({"inspect", model, "the station", "--output", file});
    EXPECT_EQ(r.status, 2);
    EXPECT_EQ(r.err,
              "heed inspect: --output takes a name that ends in .html, or -; found '" + file + "'" + hint + "\n");
    EXPECT_FALSE(fs::exists(file));
  };
  expect("p.svg", " (--svg draws one head)");
  expect("p.png", " (--png draws one head)");
  expect("p.xyz", "");
  expect("p", "");
  EXPECT_EQ(run({"inspect", model, "the station", "--output", folder / "p.htm"}).status, 0);
}

// What chooses a head is not ignored where no head is asked for.
TEST(Inspect, AHeadIsChosenForSomething) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder), page = folder / "page.html";
  for (const std::vector<std::string>& choice :
       {std::vector<std::string>{"--layer", "2"}, {"--part", "cross"}, {"--head", "mean"}}) {
    std::vector<std::string> arguments = {"inspect", model, "the station", "--output", page};
    arguments.insert(arguments.end(), choice.begin(), choice.end());
    const Result r = run(arguments);
    EXPECT_EQ(r.status, 2) << choice[0];
    EXPECT_NE(r.err.find("found none of these"), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(page));
    arguments.push_back("--text");
    EXPECT_EQ(run(arguments).status, 0);
    EXPECT_TRUE(fs::exists(page));
    fs::remove(page);
  }
}

TEST(Inspect, LongTextsAreCutWhereAskedFor) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder), page = folder / "page.html";
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the ";
  const Result refused = run({"inspect", model, text, "--output", page});
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.err,
            "heed inspect: TEXT: expected at most the 23 tokens that the model reads; found 40 (--too-long cut reads "
            "the beginning)\n");
  const Result cut = run({"inspect", model, text, "--output", page, "--too-long", "cut"});
  EXPECT_EQ(cut.status, 0) << cut.err;
  EXPECT_NE(cut.err.find("warning: TEXT: 40 tokens, cut to 23"), std::string::npos) << cut.err;
  EXPECT_EQ(record_of(read(page))["source_tokens"].size(), 24u) << "and the end";
}

TEST(Inspect, WarnsOfTextThatTheModelDoesNotKnow) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder);
  const Result r = run({"inspect", model, "wo ist der Bahnhof", "--output", folder / "page.html"});
  EXPECT_EQ(r.status, 0);
  EXPECT_NE(r.err.find("heed inspect: warning: TEXT: 15 of 15 characters are unknown to the model"), std::string::npos)
      << r.err;
  const Result target = run({"inspect", model, "the station", "--target", "abc", "--output", folder / "page.html"});
  EXPECT_NE(target.err.find("warning: --target: 3 of 3 characters"), std::string::npos) << target.err;
}

TEST(Inspect, FindsThatItCannotWriteBeforeItTranslates) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder);
  for (const char* option : {"--output", "--svg", "--png", "--head-json"}) {
    const std::string file = folder / "missing/page.html";
    const Result r = run({"inspect", model, "the station", option, file});
    EXPECT_EQ(r.status, 1);
    EXPECT_NE(r.err.find("missing/page.html"), std::string::npos) << r.err;
    EXPECT_EQ(std::ranges::count(r.err, '\n'), 1) << "no translation before the error: " << r.err;
  }
  EXPECT_FALSE(fs::exists(folder / "missing"));
}

TEST(Inspect, RefusesAPageThatIsTooLarge) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::decoder_only, 1024), page = folder / "page.html";
  std::string text;  // 3 layers, 2 heads, 900 x 900 weights: 4.9 million, half of them masked
  for (int i = 0; i < 300; ++i) text += "车站在";
  const Result refused = run({"inspect", model, text, "--output", page});
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.err,
            "heed inspect: the page would hold 4,860,000 weights and take about 24.3 MB, more than 20.0 MB; use a "
            "shorter text, groups of tokens (--pool N), or one head (--part, --layer, --head with --png or --text), or --force\n");
  EXPECT_FALSE(fs::exists(page));
  const Result one = run({"inspect", model, text, "--layer", "2", "--png", folder / "head.png"});
  EXPECT_EQ(one.status, 0) << one.err;
  const Result forced = run({"inspect", model, text, "--output", page, "--force"});
  EXPECT_EQ(forced.status, 0) << forced.err;
  EXPECT_GT(fs::file_size(page), 8'000'000u);
  const Result pooled = run({"inspect", model, text, "--output", page, "--pool", "64"});
  EXPECT_EQ(pooled.status, 0) << pooled.err;
  EXPECT_LT(fs::file_size(page), 1'000'000u);
}

TEST(Inspect, ShowsThousandsOfTokensInGroups) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::decoder_only, 2048), page = folder / "page.html";
  std::string text;
  for (int i = 0; i < 500; ++i) text += "车站在";
  const Result r = run({"inspect", model, text, "--output", page});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("1,500 tokens are shown in 256 groups; --pool chooses how many\n"), std::string::npos) << r.err;
  const auto record = record_of(read(page));
  ASSERT_EQ(record["target_tokens"].size(), 256u);
  EXPECT_EQ(record["target_tokens"][0], "车 … 站");
  for (const auto& map : record["decoder"])
    for (const auto& head : map["weights"])
      for (const auto& row : head) {
        double sum = 0;
        for (const auto& weight : row) sum += weight.get<double>();
        EXPECT_NEAR(sum, 1, 1e-3);
      }
  const Result json = run({"inspect", model, text, "--json"});  // all weights
  EXPECT_EQ(nlohmann::json::parse(json.out)["target_tokens"].size(), 1500u) << json.err;
  const Result asked = run({"inspect", model, "车站在", "--json", "--pool", "2"});
  EXPECT_EQ(nlohmann::json::parse(asked.out)["target_tokens"].size(), 2u) << asked.err;
  EXPECT_EQ(run({"inspect", model, "车站", "--pool", "2", "--words"}).status, 2);
}

TEST(Inspect, APageOfWordsHasTheSizeOfItsWords) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::decoder_only, 1024), page = folder / "page.html";
  const std::string letters(900, 'a');  // one word of 900 tokens
  EXPECT_EQ(run({"inspect", model, letters, "--output", page}).status, 1);
  const Result words = run({"inspect", model, letters, "--words", "--output", page});
  EXPECT_EQ(words.status, 0) << words.err;
  std::string many;  // words of one token each
  for (int i = 0; i < 300; ++i) many += "车站在";
  const Result refused = run({"inspect", model, many, "--words", "--output", page});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("the page would hold 4,860,000 weights and take about 24.3 MB"), std::string::npos)
      << refused.err;
}

TEST(Generate, WarnsOfAPromptThatTheModelDoesNotKnow) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::decoder_only);
  const Result r = run({"generate", model, "xyz", "--max-tokens", "2"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("heed generate: warning: the prompt: 3 of 3 characters are unknown"), std::string::npos)
      << r.err;
  const Result known = run({"generate", model, "车站", "--max-tokens", "2", "--quiet"});
  EXPECT_EQ(known.err, "");
  EXPECT_EQ(known.out, run({"generate", model, "--prompt", "车站", "--max-tokens", "2"}).out);
  EXPECT_EQ(run({"generate", model, "车", "--prompt", "站"}).status, 2);
  const Result bad = run({"generate", model, "\xff"});
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(bad.out, "") << "nothing is written before the prompt has proved to be a text";
}

TEST(Generate, KeysAndValuesAreKeptInTheTypeThatIsAskedFor) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::decoder_only);
  const auto log_probs = [&](const std::string& cache) {
    const Result r = run({"generate", model, "车站", "--max-tokens", "8", "--json", "--cache", cache});
    EXPECT_EQ(r.status, 0) << r.err;
    return nlohmann::json::parse(r.out)["log_probs"];
  };
  const auto plain = log_probs("f32");
  for (const char* cache : {"f16", "bf16", "int8"}) EXPECT_NE(log_probs(cache), plain) << cache;
  EXPECT_EQ(run({"generate", model, "车站", "--cache", "f64"}).status, 2);
}

TEST(Inspect, SaysWhatIsWrong) {
  const Folder folder;
  const std::string model = make_model(folder, models::Architecture::encoder_decoder), page = folder / "page.html";
  const auto status = [&](std::vector<std::string> arguments, const std::string& says) {
    arguments.insert(arguments.end(), {"--output", page});
    const Result result = run(arguments);
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_FALSE(fs::exists(page));
    return result.status;
  };
  EXPECT_EQ(status({"inspect", folder / "none", "--source", "a"}, "none"), 1);
  EXPECT_EQ(status({"inspect", model}, "TEXT is missing"), 2);
  EXPECT_EQ(status({"inspect", model, "--source", ""}, "--source"), 2);
  EXPECT_EQ(status({"inspect", model, "--source", "\xff"}, "UTF-8"), 1);
  std::string long_text;
  for (int i = 0; i < 40; ++i) long_text += "the ";
  EXPECT_EQ(status({"inspect", model, "--source", long_text}, "23"), 1);
  EXPECT_EQ(run({"inspect", model, "--source", "the", "--output", folder / "no/such/page.html"}).status, 1);
}

TEST(Plot, DrawsALog) {
  const Folder folder;
  const std::string log = folder.write("log.jsonl", "{\"update\":1,\"loss\":3.5}\n{\"update\":2,\"loss\":3.25}\n");
  const std::string page = folder / "c.html", picture = folder / "c.svg";
  const Result result = run({"plot", log, "--output", page});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, page + "\n");
  EXPECT_EQ(record_of(read(page))["series"]["loss"], nlohmann::json::parse("[[1,3.5],[2,3.25]]"));
  EXPECT_EQ(run({"plot", fs::path(log).parent_path(), "--output", picture}).status, 0);
  EXPECT_EQ(run({"plot", log, "--output", "-"}).out, read(page));
  EXPECT_EQ(read(picture).substr(0, 4), "<svg");
  EXPECT_EQ(run({"plot", log, "--output", folder / "c.png"}).status, 2);
  EXPECT_EQ(run({"plot", folder / "none.jsonl", "--output", page}).status, 1);
  EXPECT_EQ(run({"plot", folder.write("bad.jsonl", "{\n{}\n"), "--output", page}).status, 1);
}

TEST(Inspect, WordsInPlaceOfTokens) {
  const std::string demo = (fs::path(HEED_SOURCE_DIR) / "demo" / "en-zh").string();
  const Result r = run({"inspect", demo, "The untidiest station.", "--target", "车站", "--words", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto json = nlohmann::json::parse(r.out);
  EXPECT_EQ(json["source_tokens"], (std::vector<std::string>{"The", "untidiest", "station", ".", "</s>"}));
  const auto& rows = json["cross"][0]["weights"][0];
  ASSERT_EQ(rows[0].size(), 5u);
  for (const auto& row : rows) {
    double sum = 0;
    for (const double weight : row) sum += weight;
    EXPECT_NEAR(sum, 1, 1e-3);
  }
}

TEST(Inspect, AModelOfSeveralLanguages) {
  const Folder folder;
  for (const char* const file : {"config.json", "generation_config.json", "model.safetensors"})
    fs::copy(fs::path(HEED_SOURCE_DIR) / "tests/data/families/nllb" / file, folder / file);
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\neng_Latn\nfra_Latn\n";
  for (int id = 6; id < 61; ++id) vocabulary += "token" + std::to_string(id) + "\n";
  const std::string model = fs::path(folder.write("vocab.txt", vocabulary)).parent_path().string();
  const std::vector<std::string> spoken = {"--source-language", "fra_Latn", "--target-language", "eng_Latn"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), spoken.begin(), spoken.end());
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const Result r = with({"inspect", model, "token9 token10"}, {"--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto json = nlohmann::json::parse(r.out);
  EXPECT_EQ(json["source_tokens"], (std::vector<std::string>{"fra_Latn", "token9", "token10", "[SEP]"}));
  EXPECT_EQ(json["output_tokens"][0], "eng_Latn");
  const auto translated = nlohmann::json::parse(with({"translate", model, "token9 token10"}, {"--json"}).out);
  EXPECT_EQ(json["output"], translated["translations"][0]["text"]);
  const auto given = nlohmann::json::parse(with({"inspect", model, "token9"}, {"--json", "--target", "token11"}).out);
  EXPECT_EQ(given["output_tokens"][0], "eng_Latn");
  EXPECT_EQ(given["output_tokens"][1], "token11");
  EXPECT_EQ(given["target_tokens"].size(), 3u);  // what begins, the language, the word
  EXPECT_EQ(run({"inspect", model, "token9", "--target-language", "xx"}).err,
            "heed inspect: expected a language that the model knows (eng_Latn fra_Latn); found 'xx'\n");
  const Folder other;
  const Result reads =
      run({"inspect", make_model(other, models::Architecture::encoder_only), "abc", "--source-language", "eng_Latn"});
  EXPECT_EQ(reads.status, 2);
  EXPECT_NE(reads.err.find("--source-language is for models that translate; this one only reads"), std::string::npos)
      << reads.err;
  const Folder third;
  const Result writes =
      run({"inspect", make_model(third, models::Architecture::decoder_only), "abc", "--target", "abc"});
  EXPECT_EQ(writes.status, 2);
  EXPECT_NE(writes.err.find("--target is for models that translate; this one continues texts"), std::string::npos)
      << writes.err;
}

}  // namespace
}  // namespace heed::cli::test
