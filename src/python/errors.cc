// Translates the library's messages: some types and options have other names in C++ and on the command line.
#include "python/errors.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "heed/error.h"

namespace py = pybind11;

namespace heed::python {
namespace {

constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"f32", "float32"},
    {"f64", "float64"},
    {"f16", "float16"},
    {"bf16", "bfloat16"},
    {"i32", "int32"},
    {"i64", "int64"},
    {"i8", "int8"},
    {"u8", "uint8"},
    {"want.logsumexp", "return_logsumexp=True"},
    {"cu_seqlens.queries", "cu_seqlens_q"},
    {"cu_seqlens.keys", "cu_seqlens_k"},
    {"--resume", "resume=True"},
    {"--tokenizers", "tokenizers=FOLDER"},
};

// Functions that Python calls by other names.
constexpr std::pair<std::string_view, std::string_view> kFunctions[] = {
    {"find_model_folder", "load"},
    {"read_config", "load"},
    {"beam_search", "translate"},
    {"Encoder::record", "Encoder.attention"},
    {"Generator::record", "Generator.attention"},
    {"Translator::record", "Translator.attention"},
};

// "[Encoder::embed] " at the beginning becomes "[Encoder.embed] ".
std::string with_function_of_python(std::string_view message) {
  const size_t end = message.starts_with('[') ? message.find("] ") : std::string_view::npos;
  if (end == std::string_view::npos) return std::string(message);
  std::string name(message.substr(1, end - 1));
  const auto* const known =
      std::ranges::find(kFunctions, std::string_view(name), [](const auto& f) { return f.first; });
  if (known != std::end(kFunctions)) name = known->second;
  if (const size_t colons = name.find("::"); colons != std::string::npos) name.replace(colons, 2, ".");
  return "[" + name + std::string(message.substr(end));
}

// Replaces whole words, but not in names of files: these stand in quotes, or begin with a slash and end before the next
// colon or semicolon.
std::string in_python(std::string_view message) {
  const auto ends = [](std::string_view rest) {
    return rest.empty() || std::string_view(" ,;:)").find(rest.front()) != std::string_view::npos;
  };
  std::string result;
  bool begins = true;                 // whether a word may begin here
  bool quoted = false, path = false;  // whether this is within a name
  while (!message.empty()) {
    const auto* const known =
        begins ? std::find_if(std::begin(kNames), std::end(kNames),
                              [&](const auto& name) {
                                return message.starts_with(name.first) && ends(message.substr(name.first.size()));
                              })
               : std::end(kNames);
    if (known != std::end(kNames)) {
      result += known->second;
      message.remove_prefix(known->first.size());
      begins = false;
      continue;
    }
    const char c = message.front();
    if (c == '"') quoted = !quoted;
    if (begins && c == '/') path = true;
    if (c == ';' || (c == ':' && message.starts_with(": "))) path = false;
    begins = !quoted && !path && (c == ' ' || c == '(');
    result += c;
    message.remove_prefix(1);
  }
  return result;
}

// Advice for the user, in parentheses, or nothing.
std::string hint_for(std::string_view message) {
  const auto says = [&](std::string_view part) { return message.find(part) != std::string_view::npos; };
  if (says("a folder without a training")) return " (go on with resume=True, or name another folder)";
  if (says("a folder without files of a model"))
    return " (name another folder, or go on with resume=True if a training was stopped there)";
  if (says("a folder without a model")) return " (name another folder; start trains that model further)";
  if (says("tokens that the model reads") && !says("::record]") && !says("::answer]")) {
    return message.starts_with("[translate]") ? " (too_long=\"split\" translates it sentence by sentence)"
                                              : " (too_long=\"cut\" reads the beginning)";
  }
  if (says("found a model that finds answers")) return " (heed.Encoder.answer finds them)";
  if (says("found a decoder-only model")) return " (heed.Generator continues texts with it)";
  if (says("found an encoder-decoder")) return " (heed.Translator runs it)";
  if (says("found an encoder-only model")) return " (heed.Encoder runs it)";
  return "";
}

void raise(PyObject* type, const std::string& message) {
  // The name of a file may be no UTF-8.
  PyObject* const text =
      PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace");
  if (text == nullptr) return;  // with its own error
  PyErr_SetObject(type, text);
  Py_DECREF(text);
}

}  // namespace

void register_errors() {
  py::register_exception_translator([](std::exception_ptr error) {  // NOLINT: pybind11 wants it by value
    try {
      if (error) std::rethrow_exception(error);
    } catch (const Error& e) {
      raise(PyExc_ValueError, in_python(with_function_of_python(e.what())) + hint_for(e.what()));
    }
  });
}

}  // namespace heed::python
