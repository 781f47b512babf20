#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/palette.h"
#include "inspect/payloads.h"
#include "inspect/sample_record.h"
#include "inspect/xml_check.h"

namespace heed::inspect {
namespace {

TEST(Palette, EndsAndMonotone) {
  EXPECT_EQ(to_string(colour_of(0)), "#f1f5f5");
  EXPECT_EQ(to_string(colour_of(1)), "#0a334d");
  EXPECT_EQ(to_string(colour_of(-1)), to_string(colour_of(0)));
  EXPECT_EQ(to_string(colour_of(2)), to_string(colour_of(1)));
  int before = 766;
  for (int i = 0; i <= 1000; ++i) {  // darker with weight, so that it survives a grey printer
    const Rgb c = colour_of(static_cast<float>(i) / 1000);
    EXPECT_LE(c.red + c.green + c.blue, before);
    before = c.red + c.green + c.blue;
  }
}

TEST(Palette, IsThePagesOwn) {
  std::ifstream file(std::string(HEED_SOURCE_DIR) + "/src/inspect/page/page.css");
  const std::string css((std::istreambuf_iterator<char>(file)), {});
  std::string ramp;
  for (Rgb colour : kRamp) ramp += " " + to_string(colour);
  EXPECT_NE(css.find("--ramp:" + ramp + ";"), std::string::npos) << ramp;
}

TEST(ToPng, DecodesToTheColoursOfTheWeights) {
  const Tensor weights = sample_weights(1, 5, 7, 0, false).select(0, 0);
  const std::string png = to_png(weights, 3);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_memory(&image, png.data(), png.size()), 0);
  EXPECT_EQ(image.width, 21u);
  EXPECT_EQ(image.height, 15u);
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  ASSERT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0);
  for (int64_t y = 0; y < 15; ++y) {
    for (int64_t x = 0; x < 21; ++x) {
      const Rgb wanted = colour_of(static_cast<float>(weights.at({y / 3, x / 3})));
      const uint8_t* found = pixels.data() + 3 * (21 * y + x);
      ASSERT_EQ(found[0], wanted.red);
      ASSERT_EQ(found[1], wanted.green);
      ASSERT_EQ(found[2], wanted.blue);
    }
  }
}

TEST(ToPng, ReadsViewsAndRefusesTheRest) {
  const Tensor weights = sample_weights(1, 4, 6, 0, false).select(0, 0);
  EXPECT_EQ(to_png(weights.transpose(0, 1)), to_png(weights.transpose(0, 1).clone()));
  EXPECT_EQ(to_png(weights.to(DType::f64)), to_png(weights));
  EXPECT_THROW((void)to_png(Tensor::zeros({0, 3})), Error);
  EXPECT_THROW((void)to_png(Tensor::zeros({3})), Error);
  EXPECT_THROW((void)to_png(weights, 0), Error);
  EXPECT_THROW((void)to_png(Tensor::zeros({1, 4000}), 16), Error);
  EXPECT_THROW((void)to_png(Tensor()), Error);
}

TEST(ToSvg, IsWellFormedWithACellForEachWeight) {
  const Record record = chinese_record();
  const std::string svg =
      to_svg(record.cross[0].weights.select(0, 0), record.target_tokens, record.source_tokens, "a < b");
  const XmlCheck xml = check_xml(svg);
  EXPECT_EQ(xml.error, "");
  EXPECT_EQ(xml.elements.at("rect"), 1 + 8 * 10);
  EXPECT_EQ(xml.elements.at("text"), 1 + 8 + 10);
  EXPECT_NE(svg.find(">火车</text>"), std::string::npos);
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
}

TEST(ToSvg, HostileTextStaysText) {
  const std::vector<std::string> hostile = payloads(2000);
  for (size_t at = 0; at + 40 <= hostile.size(); at += 40) {
    const std::vector<std::string> names(hostile.begin() + static_cast<std::ptrdiff_t>(at),
                                         hostile.begin() + static_cast<std::ptrdiff_t>(at + 40));
    const XmlCheck xml = check_xml(to_svg(Tensor::zeros({40, 40}), names, names, names[7]));
    ASSERT_EQ(xml.error, "");
    ASSERT_EQ(xml.elements.at("text"), 81);
    ASSERT_EQ(xml.elements.size(), 5u);  // svg, title, rect, text, g
    ASSERT_EQ(xml.attributes.count("onload") + xml.attributes.count("onmouseover") + xml.attributes.count("href"), 0u);
  }
}

TEST(ToSvg, RefusesWhatDoesNotFit) {
  EXPECT_THROW((void)to_svg(Tensor::zeros({2, 2}), {"a"}, {}, ""), Error);
  EXPECT_THROW((void)to_svg(Tensor::zeros({2, 2}), {}, {"a", "b", "c"}, ""), Error);
  EXPECT_THROW((void)to_svg(Tensor::zeros({2000, 2000}), {}, {}, ""), Error);
  EXPECT_EQ(check_xml(to_svg(Tensor::zeros({0, 0}), {}, {}, "")).error, "");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(check_xml(to_svg(Tensor::full({1, 1}, nan), {}, {}, "")).error, "");
}

TEST(ToText, StrongestFirst) {
  const Tensor weights = Tensor::from({0.1f, 0.6f, 0.3f, 0.5f, 0.0f, 0.5f}, {2, 3});
  EXPECT_EQ(to_text(weights, {"火车", "a"}, {"the", "train", "站"}, 2),
            "火车  0.600 train  0.300 站\n"
            "a     0.500 the    0.500 站\n");
  EXPECT_EQ(to_text(weights, {}, {}, 5), "0  0.600 1  0.300 2  0.100 0\n1  0.500 0  0.500 2\n");
}

TEST(ToText, NothingSteersTheTerminal) {
  const std::string text = to_text(Tensor::full({2, 2}, 0.5f), {"\x1b[2J", "\u202e"}, {"\n", "\x9b"}, 2);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\u202e"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

}  // namespace
}  // namespace heed::inspect
