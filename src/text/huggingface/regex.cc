#include "text/huggingface/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/fork.h"
#include "heed/error.h"
#include "text/huggingface/characters.h"

namespace heed::text::huggingface {

namespace {

constexpr size_t kMostJitStack = size_t{1} << 23;
constexpr uint32_t kFewestSteps = 10'000'000;

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  const int size = pcre2_get_error_message(code, buffer, sizeof buffer);
  return size < 0 ? "error " + std::to_string(code)
                  : std::string(reinterpret_cast<const char*>(buffer), static_cast<size_t>(size));
}

}  // namespace

// What PCRE2 needs while it matches. One search at a time uses it.
struct Regex::State {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = nullptr;
  State() { require(data != nullptr && context != nullptr, "encode", "memory for a regular expression"); }
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

struct Regex::Compiled {
  pcre2_code* code = nullptr;
  bool is_native = false;
  ForkSafeMutex mutex;
  std::vector<std::unique_ptr<State>> idle;
  ~Compiled() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view expression, const std::string& name)
    : Regex(AsItIs{}, translate_expression(expression, name), name) {}

Regex::Regex(AsItIs /*as*/, std::string_view expression, const std::string& name)
    : compiled_(std::make_unique<Compiled>()), name_(name) {
  int error = 0;
  PCRE2_SIZE place = 0;
  compiled_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr);
  require(compiled_->code != nullptr, "load_tokenizer", name_, ": a regular expression; found ", message_of(error));
  compiled_->is_native = pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE) == 0;  // else matching is slower
}

Regex Regex::of_pcre2(std::string_view expression) { return {AsItIs{}, expression, "a class"}; }

Regex::~Regex() = default;

size_t Regex::size_of_character(std::string_view text, size_t at) { return character_size(text, at); }

Regex::Search::Search(const Regex& regex, std::string_view text) : regex_(regex), text_(text) {
  {
    const std::lock_guard lock(regex.compiled_->mutex);
    auto& idle = regex.compiled_->idle;
    if (!idle.empty()) {
      state_ = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (!state_) state_ = std::make_unique<State>();
  // A linear match takes a few steps for each character. An expression that takes more could take for ever.
  const uint64_t steps = kFewestSteps + uint64_t{8} * text.size();
  pcre2_set_match_limit(state_->context, static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
  if (text.size() > 4096 && state_->stack == nullptr && regex.compiled_->is_native) {
    state_->stack = pcre2_jit_stack_create(size_t{1} << 15, kMostJitStack, nullptr);
    pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
  }
}

Regex::Search::~Search() {
  const std::lock_guard lock(regex_.compiled_->mutex);
  regex_.compiled_->idle.push_back(std::move(state_));
}

Match Regex::Search::next(size_t at) const {
  const auto match = regex_.compiled_->is_native ? pcre2_jit_match : pcre2_match;
  const int count = match(regex_.compiled_->code, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), at,
                          PCRE2_NO_UTF_CHECK, state_->data, state_->context);
  if (count == PCRE2_ERROR_NOMATCH) return {};
  require(count >= 0, "encode", "text that the tokenizer's expression can be matched with (", regex_.name_, "); ",
          message_of(count));
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(state_->data);
  return {true, std::min(ends[0], ends[1]), ends[1]};
}

}  // namespace heed::text::huggingface
