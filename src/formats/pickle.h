// What a pickle describes, without doing what it says.
//
// Python's pickle is a list of instructions for a machine with a stack. Two of them call any function of any Python
// module by its name; that is how reading a pickle runs code. Here such a call is written down, and nothing is called:
// who reads the result decides what a name means.
//
// Known are the instructions that describe texts, numbers, tuples, lists and tables, in the protocols 2 to 5. Python's
// module pickletools describes each of them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace heed::io {

enum class PickleKind : uint8_t {
  none,
  boolean,    // whole: 0 or 1
  whole,      // whole
  real,       // nothing that heed reads has one: its value is not kept
  text,       // text
  tuple,      // parts
  list,       // parts
  table,      // parts: key, value, key, value, ...
  function,   // parts: two texts, its module and its name
  call,       // parts: a function and a tuple, its arguments
  reference,  // parts: what names something that lies outside of the pickle
};

struct PickleValue {
  PickleKind kind = PickleKind::none;
  int64_t whole = 0;
  std::string_view text = {};  // in the pickle's bytes
  std::vector<const PickleValue*> parts = {};

  [[nodiscard]] bool is(PickleKind other) const { return kind == other; }
  // "module.name" of a function.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] bool is_function(std::string_view module, std::string_view name) const {
    return kind == PickleKind::function && parts[0]->text == module && parts[1]->text == name;
  }
};

// "a text", "a list", ...: for messages.
[[nodiscard]] std::string_view words_for(PickleKind kind);

// The values of a pickle, as long as this lives. A value may hold itself.
class Pickle {
 public:
  // Reads one pickle, and leaves `reader` behind it. Throws Error at the byte that is wrong.
  explicit Pickle(files::Reader& reader);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  [[nodiscard]] const PickleValue& value() const { return *value_; }

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  const PickleValue* value_ = nullptr;
};

}  // namespace heed::io
