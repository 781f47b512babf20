// The machine of Python's pickle, as far as it describes data.
#include "formats/pickle.h"

#include <algorithm>
#include <array>
#include <map>

namespace heed::io {
namespace {

constexpr int64_t kMostBytes = int64_t{2} << 20;  // a value of 92 bytes may take one byte here
constexpr int64_t kLongestName = 200;             // of a module or a function, in bytes

std::string hexadecimal(uint8_t byte) {
  constexpr const char* kDigits = "0123456789abcdef";
  return {'0', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

std::string_view words_for(PickleKind kind) {
  constexpr std::array<std::string_view, 11> kWords = {"nothing", "true or false", "a number",   "a number",
                                                       "a text",  "a tuple",       "a list",     "a table",
                                                       "a class", "an object",     "a reference"};
  return kWords[static_cast<size_t>(kind)];
}

std::string PickleValue::name() const { return std::string(parts[0]->text) + "." + std::string(parts[1]->text); }

// The stack, its marks, and the values that instructions refer to again.
class PickleMachine {
  static constexpr const char* kNameIsLong = "a name of fewer than 200 bytes";

 public:
  PickleMachine(files::Reader& reader, Pickle& pickle) : reader_(reader), values_(pickle.values_) {}

  const PickleValue* run() {
    const int64_t begin = reader_.position();
    require(reader_.u8() == 0x80, "a pickle of protocol 2 to 5; its first byte is another");
    const int protocol = reader_.u8();
    require(protocol >= 2 && protocol <= 5, "a pickle of protocol 2 to 5; found " + std::to_string(protocol));
    while (true) {
      at_ = reader_.position();
      require(at_ - begin < kMostBytes, "a pickle of at most " + std::to_string(kMostBytes) + " bytes; it goes on");
      const uint8_t code = reader_.u8();
      if (code == '.') break;
      if (!pushes(code) && !collects(code) && !keeps(code)) {
        fail("an instruction of a pickle that describes weights; found " + hexadecimal(code));
      }
    }
    require(stack_.size() == 1 && marks_.empty(), "one value at the end; found " + std::to_string(stack_.size()));
    return stack_.back();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    reader_.seek(at_);
    reader_.fail(what);
  }
  void require(bool ok, const std::string& what) const {
    if (!ok) fail(what);
  }

  PickleValue* make(PickleValue value) {
    values_.push_back(std::move(value));
    return &values_.back();
  }
  void push(PickleValue value) { stack_.push_back(make(std::move(value))); }
  void push_text(int64_t bytes) { push({.kind = PickleKind::text, .text = reader_.bytes(bytes)}); }
  void push_whole(int64_t number) { push({.kind = PickleKind::whole, .whole = number}); }

  // What lies above the last mark, or on all of the stack.
  [[nodiscard]] size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* pop() {
    require(stack_.size() > floor(), "a value on the stack; found none");
    PickleValue* const top = stack_.back();
    stack_.pop_back();
    return top;
  }
  std::vector<const PickleValue*> pop_to_mark() {
    require(!marks_.empty(), "a mark on the stack; found none");
    const auto first = stack_.begin() + static_cast<int64_t>(marks_.back());
    std::vector<const PickleValue*> parts(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return parts;
  }
  std::vector<const PickleValue*> pop_parts(int count) {
    std::vector<const PickleValue*> parts(static_cast<size_t>(count));
    for (size_t i = parts.size(); i-- > 0;) parts[i] = pop();
    return parts;
  }
  PickleValue& top(PickleKind kind) {
    require(stack_.size() > floor() && stack_.back()->is(kind), "instruction for " + std::string(words_for(kind)));
    return *stack_.back();
  }

  int64_t size32() { return reader_.u32(); }
  const PickleValue* line() {
    const int64_t begin = reader_.position();
    int64_t length = 0;
    while (reader_.u8() != '\n') require(++length < kLongestName, kNameIsLong);
    reader_.seek(begin);
    const PickleValue* const text = make({.kind = PickleKind::text, .text = reader_.bytes(length)});
    (void)reader_.u8();
    return text;
  }
  void push_function() {
    const PickleValue* const module = line();
    push({.kind = PickleKind::function, .parts = {module, line()}});
  }
  // Two's complement, in the fewest bytes.
  void push_long(int64_t bytes) {
    require(bytes <= 8, "a number of at most 8 bytes; found " + std::to_string(bytes));
    const std::string_view digits = reader_.bytes(bytes);
    uint64_t number = !digits.empty() && (static_cast<uint8_t>(digits.back()) & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = digits.size(); i-- > 0;) number = number << 8 | static_cast<uint8_t>(digits[i]);
    push_whole(static_cast<int64_t>(number));
  }

  // Instructions that put a new value on the stack.
  bool pushes(uint8_t code) {
    switch (code) {
      case 'N': push({}); return true;
      case 0x88: push({.kind = PickleKind::boolean, .whole = 1}); return true;
      case 0x89: push({.kind = PickleKind::boolean}); return true;
      case 'K': push_whole(reader_.u8()); return true;
      case 'M': push_whole(reader_.u16()); return true;
      case 'J': push_whole(static_cast<int32_t>(reader_.u32())); return true;
      case 0x8a: push_long(reader_.u8()); return true;
      case 'G':
        (void)reader_.bytes(8);
        push({.kind = PickleKind::real});
        return true;
      case 'X':
      case 'T': push_text(size32()); return true;
      case 'U':
      case 0x8c: push_text(reader_.u8()); return true;
      case 0x8d: push_text(reader_.i63("the size of a text")); return true;
      case ')': push({.kind = PickleKind::tuple}); return true;
      case ']': push({.kind = PickleKind::list}); return true;
      case '}': push({.kind = PickleKind::table}); return true;
      case 'c': push_function(); return true;
      default: return false;
    }
  }

  // Instructions that make one value of several.
  bool collects(uint8_t code) {
    switch (code) {
      case '(': marks_.push_back(stack_.size()); return true;
      case 't': push({.kind = PickleKind::tuple, .parts = pop_to_mark()}); return true;
      case 0x85:
      case 0x86:
      case 0x87: push({.kind = PickleKind::tuple, .parts = pop_parts(code - 0x84)}); return true;
      case 'a': extend(PickleKind::list, {pop()}); return true;
      case 'e': extend(PickleKind::list, pop_to_mark()); return true;
      case 's': extend(PickleKind::table, pop_parts(2)); return true;
      case 'u': extend(PickleKind::table, pop_to_mark()); return true;
      case 'R':
      case 0x81: call(); return true;
      case 'b':
        (void)pop();  // attributes of an object: those of a table of weights are versions of PyTorch's modules
        (void)top(PickleKind::table);
        return true;
      case 'Q': push({.kind = PickleKind::reference, .parts = {pop()}}); return true;
      case 0x93: {
        auto names = pop_parts(2);
        for (const PickleValue* name : names) {
          require(name->is(PickleKind::text), "two texts, the name of a class");
          require(std::ssize(name->text) < kLongestName, kNameIsLong);
        }
        push({.kind = PickleKind::function, .parts = std::move(names)});
        return true;
      }
      default: return false;
    }
  }

  void extend(PickleKind kind, const std::vector<const PickleValue*>& parts) {
    PickleValue& whole = top(kind);
    require(kind == PickleKind::list || parts.size() % 2 == 0, "a value for each key; found one key more");
    whole.parts.insert(whole.parts.end(), parts.begin(), parts.end());
  }

  // An OrderedDict is a table, to which entries are added after the call. It is the one class that is known here.
  void call() {
    auto parts = pop_parts(2);
    require(parts[0]->is(PickleKind::function) && parts[1]->is(PickleKind::tuple), "a function and its arguments");
    if (parts[0]->is_function("collections", "OrderedDict") && parts[1]->parts.empty()) {
      push({.kind = PickleKind::table});
    } else {
      push({.kind = PickleKind::call, .parts = std::move(parts)});
    }
  }

  // Instructions that write a value down, and put it on the stack again.
  bool keeps(uint8_t code) {
    switch (code) {
      case 'q': keep(reader_.u8()); return true;
      case 'r': keep(reader_.u32()); return true;
      case 0x94: keep(static_cast<uint32_t>(kept_.size())); return true;
      case 'h': again(reader_.u8()); return true;
      case 'j': again(reader_.u32()); return true;
      case 0x95: (void)reader_.u64(); return true;  // how many bytes the writer wrote at once
      default: return false;
    }
  }
  void keep(uint32_t number) {
    require(stack_.size() > floor(), "a value on the stack; found none");
    kept_[number] = stack_.back();
  }
  void again(uint32_t number) {
    const auto at = kept_.find(number);
    require(at != kept_.end(), "a value written down before; found none under number " + std::to_string(number));
    stack_.push_back(at->second);
  }

  files::Reader& reader_;
  std::deque<PickleValue>& values_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::map<uint32_t, PickleValue*> kept_;
  int64_t at_ = 0;  // of the instruction
};

Pickle::Pickle(files::Reader& reader) : value_(PickleMachine(reader, *this).run()) {}

}  // namespace heed::io
