// One head as pixels, through libpng.
#include <png.h>

#include <cstring>

#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/palette.h"
#include "inspect/weights.h"

namespace heed::inspect {

std::string to_png(const Tensor& weights, int64_t cell) {
  const Head head = check_head("inspect::to_png", weights, {}, {});
  constexpr int64_t kLongestSide = 32768;  // what viewers still open
  const int64_t rows = head.row_count(), columns = head.column_count();
  require(rows > 0 && columns > 0, "inspect::to_png", "at least one weight; found ", weights.shape());
  require(cell > 0 && cell <= 1024, "inspect::to_png", "cells of 1 to 1024 pixels; found ", cell);
  require(rows <= kLongestSide / cell && columns <= kLongestSide / cell, "inspect::to_png", "a picture of at most ",
          kLongestSide, " pixels a side; found ", weights.shape(), " weights of ", cell, " pixels");
  const int64_t width = columns * cell;
  std::string pixels(static_cast<size_t>(3 * width * rows * cell), '\0');
  for (int64_t i = 0; i < rows; ++i) {
    char* line = pixels.data() + 3 * width * cell * i;
    for (int64_t j = 0; j < columns; ++j) {
      const Rgb colour = colour_of(head.row(i)[j]);
      for (int64_t x = 3 * j * cell; x < 3 * (j + 1) * cell; x += 3) {
        line[x] = static_cast<char>(colour.red);
        line[x + 1] = static_cast<char>(colour.green);
        line[x + 2] = static_cast<char>(colour.blue);
      }
    }
    for (int64_t y = 1; y < cell; ++y) std::memcpy(line + 3 * width * y, line, static_cast<size_t>(3 * width));
  }

  // libpng's simplified interface: no longjmp past our destructors.
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(rows * cell);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string out(bytes, '\0');
  const int written = png_image_write_to_memory(&image, out.data(), &bytes, 0, pixels.data(), 0, nullptr);
  require(written != 0, "inspect::to_png", "a picture libpng can write; it says ", std::string_view(image.message));
  out.resize(bytes);
  return out;
}

}  // namespace heed::inspect
