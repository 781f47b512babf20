// Reads the header event by event: no document is built, so a header of brackets costs nothing.
#include "formats/safetensors_header.h"

#include <nlohmann/json.hpp>

#include "base/files.h"

namespace heed::io {
namespace {

constexpr size_t kMaxTensors = 1'000'000;
constexpr size_t kMaxExtents = 64;

class Events : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Events(const files::MappedFile& input) : input_(input) {}

  SafetensorsHeader take() {
    require(place_ == Place::done, "one JSON object");
    return std::move(header_);
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a fraction or a number beyond 2^64");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    require(place_ == Place::shape || place_ == Place::offsets, "no number here");
    require(value <= static_cast<uint64_t>(INT64_MAX), "numbers below 2^63; found " + std::to_string(value));
    numbers_.push_back(static_cast<int64_t>(value));
    require(numbers_.size() <= kMaxExtents, "at most 8 axes");
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      require(header_.metadata.emplace(key_, value).second, "every key once; \"__metadata__\" has one twice");
      return true;
    }
    require(place_ == Place::entry && key_ == "dtype", "no string here");
    require(!has_dtype_, "\"dtype\" once");
    entry_.dtype = value;
    has_dtype_ = true;
    return true;
  }

  bool key(string_t& value) override {
    key_ = value;
    if (place_ == Place::entry) {
      require(key_ == "dtype" || key_ == "shape" || key_ == "data_offsets",
              "only dtype, shape and data_offsets; found another key");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::start) {
      place_ = Place::top;
    } else if (place_ == Place::top && key_ == "__metadata__") {
      require(!has_metadata_, "\"__metadata__\" once");
      has_metadata_ = true;
      place_ = Place::metadata;
    } else {
      require(place_ == Place::top, "no object here");
      require(header_.entries.size() < kMaxTensors, "at most " + std::to_string(kMaxTensors) + " tensors");
      entry_ = {};
      entry_.name = key_;
      has_dtype_ = has_shape_ = has_offsets_ = false;
      place_ = Place::entry;
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) {
      require(has_dtype_ && has_shape_ && has_offsets_, "dtype, shape and data_offsets for every tensor");
      header_.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::top ? Place::done : Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    require(place_ == Place::entry && (key_ == "shape" || key_ == "data_offsets"), "no array here");
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    if (place_ == Place::shape) {
      require(!has_shape_, "\"shape\" once");
      has_shape_ = true;
      entry_.shape = numbers_;
    } else {
      require(!has_offsets_ && numbers_.size() == 2, "\"data_offsets\" once, with two numbers");
      has_offsets_ = true;
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
    }
    place_ = Place::entry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    input_.fail("a safetensors header in JSON and UTF-8; it stops being that at byte " + std::to_string(position) +
                " of the header");
  }

 private:
  enum class Place { start, top, metadata, entry, shape, offsets, done };

  bool unexpected(const std::string& what) { input_.fail("a safetensors header without " + what + within()); }
  void require(bool ok, const std::string& what) const {
    if (!ok) input_.fail("in the safetensors header " + what + within());
  }
  [[nodiscard]] std::string within() const {
    return key_.empty() ? " (at byte 8, where it begins)" : " (at key " + files::quoted(key_.substr(0, 100)) + ")";
  }

  const files::MappedFile& input_;
  SafetensorsHeader header_;
  SafetensorsEntry entry_;
  std::string key_;
  std::vector<int64_t> numbers_;
  Place place_ = Place::start;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false, has_metadata_ = false;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, const files::MappedFile& input) {
  Events events(input);
  nlohmann::json::sax_parse(text, &events);
  return events.take();
}

}  // namespace heed::io
