#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/xml_check.h"

namespace heed::inspect {
namespace {

class Curves : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "log.jsonl", std::ios::binary) << text;
    return folder_ / "log.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static nlohmann::json data_of(const std::string& page) {
    const std::string open = "id=\"record\">";
    const size_t begin = page.find(open) + open.size();
    return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("heed-curves-" + std::to_string(::getpid()));
};

std::string line(int update, double loss) {
  return nlohmann::json{{"update", update}, {"loss", loss}, {"learning_rate", 1e-4 * update}, {"seconds", update}}
             .dump() +
         "\n";
}

TEST_F(Curves, DrawsWhatTheLogHolds) {
  const auto log = write("{\"type\":\"start\"}\n" + line(10, 5.5) + line(20, 4.25) +
                         "{\"type\":\"valid\",\"update\":20,\"loss\":4.5,\"bleu\":1.5}\n" +
                         "{\"type\":\"end\",\"update\":20,\"loss\":4.125,\"bleu\":2.5,\"seconds\":21}\n");
  const auto data = data_of(plot_log(log));
  EXPECT_EQ(data["series"]["loss"], nlohmann::json::parse("[[10,5.5],[20,4.25]]"));
  EXPECT_EQ(data["series"]["valid_loss"], nlohmann::json::parse("[[20,4.5]]"));
  EXPECT_EQ(data["first"], 10);
  EXPECT_EQ(data["last"], 20);
  EXPECT_EQ(data["headline"],
            "Loss 4.25, best validation loss 4.5 at update 20, best BLEU 1.5, in the end 4.125, BLEU 2.5, 21 seconds");
}

TEST_F(Curves, ThePictureIsWellFormed) {
  const auto log = write(line(10, 5.5) + line(20, 4.25));
  std::string svg = plot_log_svg(log);
  const size_t begin = svg.find("<style>"), end = svg.find("</style>");
  ASSERT_LT(begin, end);
  svg.erase(begin, end + 8 - begin);
  const XmlCheck xml = check_xml(svg);
  EXPECT_EQ(xml.error, "");
  EXPECT_EQ(xml.elements.at("polyline"), 2);
}

TEST_F(Curves, ALineCutOffAtTheEndIsLeftOut) {
  const auto log = write(line(10, 5) + line(20, 4) + "{\"update\":30,\"lo");
  EXPECT_EQ(data_of(plot_log(log))["last"], 20);
}

TEST_F(Curves, ABadLineIsNamed) {
  const auto log = write(line(10, 5) + "not json\n" + line(20, 4));
  try {
    (void)plot_log(log);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
}

TEST_F(Curves, AResumedRunReplacesWhatItRepeats) {
  const auto log = write(line(10, 5) + line(20, 4) + line(30, 3) + line(20, 4.5) + line(30, 3.5));
  EXPECT_EQ(data_of(plot_log(log))["series"]["loss"], nlohmann::json::parse("[[10,5],[20,4.5],[30,3.5]]"));
}

TEST_F(Curves, RefusesWhatIsNoLog) {
  EXPECT_THROW((void)plot_log(folder_ / "missing.jsonl"), Error);
  EXPECT_THROW((void)plot_log(write("")), Error);
  EXPECT_THROW((void)plot_log(write("{\"a\":1}\n")), Error);
  EXPECT_THROW((void)plot_log(write(std::string(100'000, '[') + "\n")), Error);
  EXPECT_THROW((void)plot_log(write("[1,2]\n")), Error);
  EXPECT_THROW((void)plot_log(write("{\"update\":1,\"loss\":\"<script>\"}\n")), Error);
}

TEST_F(Curves, OnePointAndConstantsAndManyPoints) {
  EXPECT_EQ(data_of(plot_log(write(line(1, 0))))["series"]["loss"], nlohmann::json::parse("[[1,0.0]]"));
  std::string many;
  for (int i = 1; i <= 20'000; ++i) many += line(i, i % 100 == 0 ? 50.0 : 2.0);
  const auto loss = data_of(plot_log(write(many)))["series"]["loss"];
  EXPECT_LE(loss.size(), 1900u);
  double highest = 0;
  for (const auto& point : loss) highest = std::max(highest, point[1].get<double>());
  EXPECT_EQ(highest, 50.0);
}

}  // namespace
}  // namespace heed::inspect
