#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "heed/attention.h"
#include "heed/io.h"

namespace heed::cli::test {
namespace {

// The fruit of the worked example: one query, three keys, four components.
io::Tensors fruit() {
  return {{"query", Tensor::from({1.0f, 0.5f, -0.3f, 0.8f}, {1, 4})},
          {"key", Tensor::from({0.9f, 0.4f, -0.2f, 0.7f, 0.8f, 0.6f, -0.1f, 0.6f, -0.5f, 0.2f, 0.9f, -0.4f}, {3, 4})},
          {"value", Tensor::from({1.2f, 0.3f, 0.5f, 0.9f, 1.0f, 0.4f, 0.6f, 0.8f, 0.2f, 0.9f, 1.1f, 0.1f}, {3, 4})}};
}

io::Tensors four_axes() {
  io::Tensors out;
  for (const auto& [name, length] : {std::pair<const char*, int64_t>{"q", 5}, {"k", 7}, {"v", 7}}) {
    Tensor tensor = Tensor::zeros({2, 3, length, 4});
    for (int64_t i = 0; i < tensor.numel(); ++i)
      tensor.data<float>()[i] = static_cast<float>((i * 37 + static_cast<int64_t>(name[0])) % 19) / 10 - 0.9f;
    out[name] = tensor;
  }
  return out;
}

TEST(Attend, TheFruit) {
  const Folder folder;
  const std::string file = folder / "fruit.npz";
  io::write_npz(file, fruit());
  const Result result = run({"attend", file, "--weights"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "output (1, 4)\n"
            "   0.9971    0.4131    0.6131    0.7635\n"
            "weights (1, 3)\n"
            "   0.4536    0.4294    0.1170\n");
  const auto unscaled = nlohmann::json::parse(run({"attend", file, "--scale", "1", "--json"}).out);
  EXPECT_NEAR(unscaled["weights"][0][0].get<double>(), 0.51, 0.005);
  EXPECT_EQ(unscaled["shape"], (std::vector<int>{1, 4}));
  EXPECT_EQ(run({"attend", file, "--weights", "--reference"}).out, result.out);
}

TEST(Attend, StandardOutputHasOneResult) {
  const Folder folder;
  const std::string file = folder / "fruit.npz";
  io::write_npz(file, fruit());
  EXPECT_TRUE(run({"attend", file, "--svg", "-"}).out.starts_with("<svg"));
  const Result both = run({"attend", file, "--svg", "-", "--html", "-"});
  EXPECT_EQ(both.status, 2);
  EXPECT_EQ(both.err, "heed attend: one of --svg and --html can write to standard output; found both\n");
  EXPECT_EQ(run({"attend", file, "--json", "--png", "-"}).status, 2);
  EXPECT_EQ(run({"attend", file, "--json", "--output", "-"}).status, 0);
}

TEST(Attend, ResultsTakeTheFileOfNothingElse) {
  const Folder folder;
  const std::string file = folder / "fruit.npz", page = folder / "a.html", same = folder / "." / "a.html";
  io::write_npz(file, fruit());
  const std::string before = read(file);
  const Result over = run({"attend", file, "--output", file});
  EXPECT_EQ(over.status, 2);
  EXPECT_EQ(over.err, "heed attend: --output takes another file than those that are read; found '" + file + "'\n");
  EXPECT_EQ(read(file), before);
  EXPECT_EQ(run({"attend", file, "--json", "--output", file}).status, 2);
  EXPECT_EQ(read(file), before);
  const Result both = run({"attend", file, "--svg", page, "--html", same});
  EXPECT_EQ(both.status, 2);
  EXPECT_EQ(both.err, "heed attend: --svg and --html take a file each; found '" + page + "' for both\n");
  EXPECT_FALSE(fs::exists(page));
  const std::string picture = folder / "a.png";
  const Result named = run({"attend", file, "--html", picture});
  EXPECT_EQ(named.status, 2);
  EXPECT_EQ(named.err, "heed attend: --html takes a name that ends in .html, or -; found '" + picture +
                           "' (--png draws one head)\n");
  EXPECT_FALSE(fs::exists(picture));
}

TEST(Attend, WritesArraysAndPictures) {
  const Folder folder;
  const std::string in = folder / "in.safetensors", out = folder / "out.npz";
  io::write_safetensors(in, four_axes());
  const Result result = run({"attend", in, "--causal", "bottom-right", "--weights", "--output", out, "--svg",
                             folder / "a.svg", "--png", folder / "a.png", "--html", folder / "a.html", "--head", "3"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "");
  const io::Tensors arrays = four_axes();
  const auto expected = reference::attention(arrays.at("q"), arrays.at("k"), arrays.at("v"),
                                             {.causal = Causal::bottom_right(), .want = {.weights = true}});
  const io::Tensors found = io::read_arrays(out);
  ASSERT_EQ(found.at("output").shape(), (Shape{2, 3, 5, 4}));
  ASSERT_EQ(found.at("weights").shape(), (Shape{2, 3, 5, 7}));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t d = 0; d < 4; ++d)
          ASSERT_NEAR(found.at("output").at({b, h, i, d}), expected.output.at({b, h, i, d}), 1e-5);
        for (int64_t j = 0; j < 7; ++j)
          ASSERT_NEAR(found.at("weights").at({b, h, i, j}), expected.weights.at({b, h, i, j}), 1e-5);
      }
    }
  }
  EXPECT_EQ(read(folder / "a.svg").substr(0, 4), "<svg");
  EXPECT_EQ(read(folder / "a.png").substr(1, 3), "PNG");
  EXPECT_NE(read(folder / "a.html").find("\"arrays\":"), std::string::npos);
}

TEST(Attend, AlignmentsDiffer) {
  const Folder folder;
  const std::string file = folder / "in.npz";
  io::write_npz(file, four_axes());
  const auto weights = [&](const char* causal) {
    return nlohmann::json::parse(run({"attend", file, "--causal", causal, "--json"}).out)["weights"][0][0][0];
  };
  EXPECT_EQ(weights("top-left")[0], 1);
  EXPECT_EQ(weights("top-left")[1], 0);
  EXPECT_GT(weights("bottom-right")[2], 0);
  EXPECT_EQ(weights("bottom-right")[3], 0);
}

TEST(Attend, OneArrayAttendsToItselfAndMasksAreNamed) {
  const Folder folder;
  const std::string one = folder / "x.npy", masked = folder / "masked.npz";
  io::write_npy(one, Tensor::from({1.0f, 0.0f, 0.0f, 1.0f}, {2, 2}));
  EXPECT_NE(run({"attend", one}).out.find("output (2, 2)"), std::string::npos);

  io::Tensors arrays = fruit();
  const Tensor mask = Tensor::zeros({1, 3}, DType::boolean);
  mask.data<bool>()[1] = true;
  arrays["keep"] = mask;
  arrays["add"] = Tensor::from({0.0f, -INFINITY, 0.0f}, {1, 3});
  arrays["ids"] = Tensor::zeros({1, 3}, DType::i64);
  io::write_npz(masked, arrays);
  const auto weights = [&](const char* name) {
    return nlohmann::json::parse(run({"attend", masked, "--mask", name, "--json"}).out)["weights"][0];
  };
  EXPECT_EQ(weights("keep"), nlohmann::json::parse("[0, 1, 0]"));
  EXPECT_EQ(weights("add")[1], 0);
  EXPECT_EQ(run({"attend", masked, "--mask", "ids"}).status, 1);
}

TEST(Attend, BatchRowsAndHeadsAreCountedFromOne) {
  const Folder folder;
  const std::string file = folder / "in.npz";
  io::write_npz(file, four_axes());
  const Result r = run({"attend", file, "--html", folder / "a.html"});
  EXPECT_NE(r.out.find("\nbatch row 1, head 1\n"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("\nbatch row 2, head 3\n"), std::string::npos) << r.out;
  const std::string page = read(folder / "a.html");
  EXPECT_NE(page.find("\"k0\""), std::string::npos) << "keys from 0, as in the arrays: the page says so";
  EXPECT_EQ(page.find("\"k7\""), std::string::npos);
  EXPECT_EQ(run({"attend", file, "--output", "-"}).out, r.out) << "- is standard output";
  EXPECT_EQ(run({"attend", file, "--svg", "-", "--output", folder / "o.npz"}).out.substr(0, 4), "<svg");
}

TEST(Attend, RefusesAPageThatIsTooLarge) {
  const Folder folder;
  const std::string file = folder / "x.npy", page = folder / "a.html";
  io::write_npy(file, Tensor::full({1, 1, 1600, 4}, 0.5f));
  const Result r = run({"attend", file, "--html", page, "--output", folder / "o.npz"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(
      r.err.find(
          "more than 20.0 MB; use --map 256, which pools the weights, or --png, which draws one head, or --force"),
      std::string::npos)
      << r.err;
  EXPECT_FALSE(fs::exists(page));
  // Where no page can hold them all, --force is not advised. A PNG of so many weights has fewer pixels for each.
  const std::string large = folder / "large.npy", picture = folder / "large.png";
  io::write_npy(large, Tensor::full({1, 1, 8000, 1}, 0.5f));
  const Result none = run({"attend", large, "--html", page, "--output", folder / "o.npz"});
  EXPECT_NE(none.err.find("or --png, which draws one head\n"), std::string::npos) << none.err;
  EXPECT_EQ(run({"attend", file, "--png", picture, "--output", folder / "o.npz"}).status, 0);
  const std::string head = read(picture).substr(16, 4);  // the width
  EXPECT_EQ(head, std::string("\0\0\x0c\x80", 4)) << "1,600 weights of 2 pixels";
  fs::remove(folder / "o.npz");
  EXPECT_FALSE(fs::exists(folder / "o.npz"));
  EXPECT_EQ(run({"attend", file, "--html", page, "--map", "40", "--output", folder / "o.npz"}).status, 0);
  EXPECT_NE(read(page).find("\"q1560\""), std::string::npos) << "the first query of the last cell";
}

TEST(Attend, TapsAreStatisticsOfTheWeights) {
  const Folder folder;
  const std::string file = folder / "in.npz", out = folder / "out.npz";
  io::write_npz(file, four_axes());
  const Result r = run(
      {"attend", file, "--entropy", "--top-keys", "2", "--column-sums", "--map", "4", "--weights", "--output", out});
  ASSERT_EQ(r.status, 0) << r.err;
  const io::Tensors found = io::read_arrays(out);
  const Tensor weights = found.at("weights");  // (2, 3, 5, 7)
  ASSERT_EQ(found.at("map").shape(), (Shape{2, 3, 4, 4}));
  ASSERT_EQ(found.at("top_keys").shape(), (Shape{2, 3, 5, 2}));
  for (int64_t h = 0; h < 3; ++h) {
    std::vector<double> sums(7);
    for (int64_t i = 0; i < 5; ++i) {
      double entropy = 0;
      int64_t best = 0;
      for (int64_t j = 0; j < 7; ++j) {
        const double w = weights.at({1, h, i, j});
        entropy -= w * std::log(w);
        sums[static_cast<size_t>(j)] += w;
        if (w > weights.at({1, h, i, best})) best = j;
      }
      EXPECT_NEAR(found.at("entropy").at({1, h, i}), entropy, 1e-5);
      EXPECT_EQ(found.at("top_keys").at({1, h, i, 0}), static_cast<double>(best));
      EXPECT_NEAR(found.at("top_weights").at({1, h, i, 0}), weights.at({1, h, i, best}), 1e-6);
    }
    for (int64_t j = 0; j < 7; ++j)
      EXPECT_NEAR(found.at("column_sums").at({1, h, j}), sums[static_cast<size_t>(j)], 1e-5);
  }
  io::write_npz(file, fruit());
  const Result printed = run({"attend", file, "--top-keys", "2", "--entropy"});
  EXPECT_EQ(printed.out,
            "output (1, 4)\n"
            "   0.9971    0.4131    0.6131    0.7635\n"
            "entropy (1)\n"
            "   0.9726\n"
            "top_keys (1, 2)\n"
            "        0         1\n"
            "top_weights (1, 2)\n"
            "   0.4536    0.4294\n");
  const auto json = nlohmann::json::parse(run({"attend", file, "--column-sums", "--json"}).out);
  EXPECT_EQ(json["column_sums"].size(), 3u);
  EXPECT_FALSE(json.contains("weights"));
  EXPECT_EQ(run({"attend", file, "--entropy", "--output", folder / "out.npy"}).status, 2);
}

TEST(Attend, ThreeAxesAreABatch) {
  const Folder folder;
  const std::string file = folder / "in.npz";
  io::Tensors arrays = four_axes();
  for (auto& [name, tensor] : arrays) tensor = tensor.select(1, 0).contiguous();
  io::write_npz(file, arrays);
  const auto json = nlohmann::json::parse(run({"attend", file, "--json"}).out);
  EXPECT_EQ(json["shape"], (std::vector<int>{2, 5, 4}));
}

TEST(Attend, DoublesStayDoublesInTheReference) {
  const Folder folder;
  const std::string file = folder / "in.npz", out = folder / "out.npy";
  io::Tensors arrays = fruit();
  for (auto& [name, tensor] : arrays) tensor = tensor.to(DType::f64);
  io::write_npz(file, arrays);
  ASSERT_EQ(run({"attend", file, "--reference", "--output", out}).status, 0);
  EXPECT_EQ(io::read_npy(out).dtype(), DType::f64);
  const Result fused = run({"attend", file, "--output", out});
  ASSERT_EQ(fused.status, 0);
  EXPECT_NE(fused.err.find("query is f64, computed in f32"), std::string::npos) << fused.err;
  EXPECT_EQ(io::read_npy(out).dtype(), DType::f32);
}

// One line, the right status, and nothing written.
void expect_error(const Folder& folder, int status, const std::string& says, std::vector<std::string> arguments) {
  const std::string out = folder / "out.npz";
  arguments.insert(arguments.end(), {"--output", out});
  const Result result = run(arguments);
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_FALSE(fs::exists(out));
}

TEST(Attend, ALargePageIsAnnounced) {
  const Folder folder;
  const std::string in = folder / "long.npz";
  const Tensor zeros = Tensor::zeros({1600, 1});
  io::write_npz(in, {{"query", zeros}, {"key", zeros}, {"value", zeros}});
  const Result result = run({"attend", in, "--output", folder / "out.npz", "--html", folder / "a.html", "--force"});
  ASSERT_EQ(result.status, 0) << result.err;
  const size_t warning = result.err.find(" MB: browsers open it slowly");
  ASSERT_NE(warning, std::string::npos) << result.err;
  EXPECT_LT(warning, result.err.find("written"));
}

TEST(Attend, SaysWhatIsWrong) {
  const Folder folder;
  const auto with = [&](const char* name, const io::Tensors& changes) {
    io::Tensors arrays = fruit();
    for (const auto& [key, tensor] : changes) arrays[key] = tensor;
    io::write_npz(folder / name, arrays);
    return (folder / name).string();
  };
  expect_error(folder, 1, "missing.npz", {"attend", folder / "missing.npz"});
  expect_error(folder, 1, "broken.npz", {"attend", folder.write("broken.npz", "PK no archive")});
  expect_error(folder, 1, "array.txt", {"attend", folder.write("array.txt", "1 2 3")});
  expect_error(folder, 1, "(1, 5)", {"attend", with("d.npz", {{"query", Tensor::zeros({1, 5})}})});
  expect_error(folder, 1, "(4, 4)", {"attend", with("s.npz", {{"value", Tensor::zeros({4, 4})}})});
  expect_error(folder, 1, "all alike", {"attend", with("rank.npz", {{"key", Tensor::zeros({1, 3, 4})}})});
  expect_error(folder, 1, "all alike", {"attend", with("one.npz", {{"query", Tensor::zeros({4})}})});
  expect_error(folder, 1, "i64", {"attend", with("dtype.npz", {{"value", Tensor::zeros({3, 4}, DType::i64)}})});
  const std::string good = with("good.npz", {});
  expect_error(folder, 1, "key (3, 4), query (1, 4), value (3, 4)", {"attend", good, "--query", "nothing"});
  expect_error(folder, 1, "mask", {"attend", good, "--mask", "nothing"});
  io::Tensors many;
  for (int i = 0; i < 12; ++i) many["a" + std::to_string(i)] = Tensor::zeros({1});
  expect_error(folder, 1, " and 7 more", {"attend", with("many.npz", many), "--query", "nothing"});
  expect_error(folder, 2, "--causal", {"attend", good, "--causal", "sideways"});
  expect_error(folder, 2, "--head takes a number from 1 to 1",
               {"attend", good, "--head", "2", "--svg", folder / "a.svg"});
  EXPECT_EQ(run({"attend", good, "--output", folder / "out.txt"}).status, 2);
  EXPECT_EQ(run({"attend", good, "--left", "-2"}).status, 2);
  expect_error(folder, 2, "--head chooses what --svg and --png draw", {"attend", good, "--head", "1"});
  expect_error(folder, 2, "--batch chooses what --svg and --png draw",
               {"attend", good, "--batch", "1", "--html", folder / "a.html"});
  EXPECT_EQ(run({"attend"}).status, 2);
  const io::Tensors heads = {{"query", Tensor::zeros({1, 2, 5, 4})},
                             {"key", Tensor::zeros({1, 3, 7, 4})},
                             {"value", Tensor::zeros({1, 3, 7, 4})}};
  expect_error(folder, 1,
               "expected the number of query heads (2) to be a multiple of the number of key heads (3); found query "
               "(1, 2, 5, 4), key (1, 3, 7, 4)",
               {"attend", with("heads.npz", heads)});
}

// Nothing that was asked for is cut without a word.
TEST(Attend, TapsHaveRoomInTheArrays) {
  const Folder folder;
  const std::string file = folder / "in.npz", out = folder / "out.npz";
  io::write_npz(file, four_axes());  // 5 queries, 7 keys
  expect_error(folder, 2, "--top-keys takes a number from 1 to 7, the number of keys; found 99\n",
               {"attend", file, "--top-keys", "99"});
  expect_error(folder, 2, "--map takes a number from 1 to 7, the larger of the numbers of queries and keys; found 8\n",
               {"attend", file, "--map", "8"});
  const Result most = run({"attend", file, "--top-keys", "7", "--map", "7", "--output", out});
  ASSERT_EQ(most.status, 0) << most.err;
  EXPECT_EQ(io::read_arrays(out).at("top_keys").shape(), (Shape{2, 3, 5, 7}));
  EXPECT_EQ(io::read_arrays(out).at("map").shape(), (Shape{2, 3, 5, 7})) << "fewer queries than cells: none is pooled";
}

}  // namespace
}  // namespace heed::cli::test
