// Buffers and DLPack capsules.
#include "python/arrays.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heed/error.h"

namespace py = pybind11;

namespace heed::python {
namespace {

// DLPack's structures, version 0: https://dmlc.github.io/dlpack/latest/c_api.html
struct DLDevice {
  int32_t type;  // 1: CPU
  int32_t id;
};
struct DLDataType {
  uint8_t code;  // 0 int, 1 uint, 2 float, 4 bfloat, 6 bool
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

[[noreturn]] void refuse(std::string_view name, const std::string& found) {
  throw py::type_error("[heed] " + std::string(name) +
                       " as an array of float32, float64, float16, bfloat16, int32, int64, uint8 or bool; found " +
                       found);
}

DType dtype_of_dlpack(const DLDataType& type, std::string_view name) {
  if (type.lanes == 1) {
    if (type.code == 2 && type.bits == 32) return DType::f32;
    if (type.code == 2 && type.bits == 64) return DType::f64;
    if (type.code == 2 && type.bits == 16) return DType::f16;
    if (type.code == 4 && type.bits == 16) return DType::bf16;
    if (type.code == 0 && type.bits == 32) return DType::i32;
    if (type.code == 0 && type.bits == 64) return DType::i64;
    if (type.code == 0 && type.bits == 8) return DType::i8;
    if (type.code == 1 && type.bits == 8) return DType::u8;
    if (type.code == 6 && type.bits == 8) return DType::boolean;
  }
  refuse(name, "DLPack type " + std::to_string(type.code) + " of " + std::to_string(type.bits) + " bits");
}

DType dtype_of_buffer(const std::string& format, py::ssize_t size, std::string_view name) {
  const char code = format.empty() ? '\0' : format.back();
  const bool native = format.size() == 1 || format[0] == '@' || format[0] == '=' || format[0] == '<';
  if (native) {
    if (code == 'f') return DType::f32;
    if (code == 'd') return DType::f64;
    if (code == 'e') return DType::f16;
    if (code == '?') return DType::boolean;
    if (code == 'b') return DType::i8;
    if (code == 'B') return DType::u8;
    if ((code == 'i' || code == 'l' || code == 'q') && size == 4) return DType::i32;
    if ((code == 'i' || code == 'l' || code == 'q') && size == 8) return DType::i64;
  }
  refuse(name, "elements of format \"" + format + "\"");
}

// Shape has room for eight axes.
Shape shape_of(const int64_t* extents, int64_t count, std::string_view name) {
  require(count <= 8, "heed", name, " with at most 8 axes; found ", count);
  Shape shape;
  for (int64_t axis = 0; axis < count; ++axis) shape.push_back(extents[axis]);
  return shape;
}

Shape dense_strides(const Shape& shape) {
  Shape strides = shape;
  int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

// Some libraries give no memory for an array without elements.
Tensor wrap(void* data, const Shape& shape, const Shape& strides, DType dtype) {
  return shape.numel() == 0 ? Tensor::empty(shape, dtype) : Tensor::wrap(data, shape, strides, dtype);
}

Borrowed borrow_dlpack(py::handle array, std::string_view name) {
  bool in_memory = false;
  try {
    in_memory = py::cast<int>(py::cast<py::tuple>(array.attr("__dlpack_device__")())[0]) == 1;
  } catch (py::error_already_set& error) {  // of a device that DLPack has no number for, such as PyTorch's "meta"
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_BufferError)) throw;
  }
  if (!in_memory) refuse(name, "an array that is not in the memory of the CPU");
  // A view of PyTorch that says "the negative of what lies in memory", which DLPack cannot say.
  if (py::hasattr(array, "is_neg") && py::cast<bool>(array.attr("is_neg")()))
    refuse(name, "the negative of its memory (resolve_neg() copies it)");
  py::object capsule;
  try {
    capsule = array.attr("__dlpack__")();
  } catch (py::error_already_set& error) {  // for example of a tensor that requires a gradient
    if (!error.matches(PyExc_BufferError)) throw;
    const std::string text = py::cast<std::string>(py::str(error.value()));
    refuse(name, "one that cannot be shared (" + text + ")");
  }
  auto* const managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) throw py::error_already_set();
  const DLTensor& t = managed->dl_tensor;
  const DType dtype = dtype_of_dlpack(t.dtype, name);
  const Shape shape = shape_of(t.shape, t.ndim, name);
  const Shape strides = t.strides == nullptr ? dense_strides(shape) : shape_of(t.strides, t.ndim, name);
  if (t.data == nullptr && shape.numel() > 0) refuse(name, "one without memory");
  // The capsule is not consumed. It lives as long as the borrowed tensor, and then frees the view.
  return {wrap(static_cast<char*>(t.data) + t.byte_offset, shape, strides, dtype), std::move(capsule)};
}

Borrowed borrow_buffer(py::handle array, std::string_view name) {
  // A buffer has no room for the mask.
  if (py::hasattr(array, "mask") && py::hasattr(array, "fill_value")) refuse(name, "a masked array");
  auto info = std::make_unique<py::buffer_info>(py::cast<py::buffer>(array).request());
  const DType dtype = dtype_of_buffer(info->format, info->itemsize, name);
  Shape shape = shape_of(info->shape.data(), info->ndim, name), strides = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const py::ssize_t bytes = info->strides[static_cast<size_t>(axis)];
    require(bytes % info->itemsize == 0, "heed", name, " with strides of whole elements; found ", bytes, " bytes");
    strides[axis] = bytes / info->itemsize;
  }
  const auto misalignment = reinterpret_cast<uintptr_t>(info->ptr) % static_cast<uintptr_t>(info->itemsize);
  require(misalignment == 0, "heed", name, " aligned to its elements; found an address ", misalignment, " bytes off");
  const Tensor tensor = wrap(info->ptr, shape, strides, dtype);
  return {tensor, py::capsule(info.release(), [](void* p) { delete static_cast<py::buffer_info*>(p); })};
}

py::dtype numpy_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return py::dtype("float32");
    case DType::f64: return py::dtype("float64");
    case DType::f16: return py::dtype("float16");
    case DType::i32: return py::dtype("int32");
    case DType::i64: return py::dtype("int64");
    case DType::i8: return py::dtype("int8");
    case DType::u8: return py::dtype("uint8");
    case DType::boolean: return py::dtype("bool");
    case DType::bf16: return py::dtype("int16");
  }
  fail("heed", "a known element type; found number ", static_cast<int>(dtype));
}

}  // namespace

std::optional<bool> truth_of(py::handle value) {
  if (value.ptr() == Py_True) return true;
  if (value.ptr() == Py_False) return false;
  // pybind11 knows numpy.bool_, the name that NumPy 1 has for its type.
  const std::string type = Py_TYPE(value.ptr())->tp_name;
  if (type != "numpy.bool_" && type != "numpy.bool") return std::nullopt;
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) throw py::error_already_set();
  return truth == 1;
}

std::string shown(py::handle value) {
  constexpr size_t kMost = 60;
  std::string text = py::cast<std::string>(py::repr(value));
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() <= kMost) return text;
  size_t end = kMost - 3;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "...";
}

namespace {

// A list of whole numbers as an array.
py::array array_of(py::handle list, std::string_view name) {
  py::array array = py::array::ensure(list);
  if (!array || (array.size() > 0 && array.dtype().kind() != 'i' && array.dtype().kind() != 'u')) {
    throw py::type_error("[heed] " + std::string(name) + " as an array or a list of whole numbers; found " +
                         shown(list));
  }
  return array.attr("astype")("int64");  // of an empty list, too, and of NumPy's smaller numbers
}

}  // namespace

Borrowed borrow(py::handle array, std::string_view name) {
  const bool exchanges = py::hasattr(array, "__dlpack__");
  if (PyObject_CheckBuffer(array.ptr()) != 0) {
    try {
      return borrow_buffer(array, name);
    } catch (py::error_already_set& error) {  // JAX's arrays have the buffer protocol, but not for bfloat16
      if (!exchanges || !error.matches(PyExc_BufferError)) throw;
    }
  }
  if (exchanges) return borrow_dlpack(array, name);
  refuse(name, "an object of type " + std::string(Py_TYPE(array.ptr())->tp_name));
}

py::array to_numpy(const Tensor& tensor) {
  std::vector<py::ssize_t> shape, strides;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    shape.push_back(tensor.size(axis));
    strides.push_back(tensor.stride(axis) * size_of(tensor.dtype()));
  }
  const py::capsule owner(new Tensor(tensor), [](void* p) { delete static_cast<Tensor*>(p); });
  return {numpy_type(tensor.dtype()), shape, strides, tensor.raw(), owner};
}

void Arguments::refuse_none(std::string_view name) { refuse(name, "None"); }

Tensor Arguments::integers(py::handle array, std::string_view name) {
  const bool is_list = py::isinstance<py::list>(array) || py::isinstance<py::tuple>(array);
  const Tensor tensor = is_list ? (*this)(array_of(array, name), name) : (*this)(array, name);
  if (!tensor.defined() || tensor.dtype() != DType::i64) return tensor;
  const Tensor dense = tensor.contiguous();
  const int64_t* const numbers = dense.data<int64_t>();
  for (int64_t i = 0; i < dense.numel(); ++i) {
    require(numbers[i] >= INT32_MIN && numbers[i] <= INT32_MAX, "heed", name, " of 32 bits; found ", numbers[i]);
  }
  return dense.to(DType::i32);
}

bool Arguments::overlap(const Tensor& tensor) const {
  // The first byte that a tensor's strides reach, and the one behind the last.
  struct Reach {
    const char *begin, *end;

    explicit Reach(const Tensor& t) : begin(static_cast<const char*>(t.raw())), end(begin + size_of(t.dtype())) {
      for (int axis = 0; axis < t.rank(); ++axis) {
        const int64_t bytes = (t.size(axis) - 1) * t.stride(axis) * size_of(t.dtype());
        (bytes < 0 ? begin : end) += bytes;
      }
    }
  };
  if (tensor.numel() == 0) return false;
  const Reach mine(tensor);
  return std::any_of(tensors_.begin(), tensors_.end(), [&](const Tensor& t) {
    if (t.numel() == 0) return false;
    const Reach other(t);
    return other.begin < mine.end && mine.begin < other.end;
  });
}

DType cache_dtype(const std::string& name, const char* place) {
  const std::pair<const char*, DType> types[] = {
      {"float32", DType::f32}, {"bfloat16", DType::bf16}, {"float16", DType::f16}, {"int8", DType::i8}};
  for (const auto& [known, type] : types)
    if (name == known) return type;
  throw py::value_error(std::string(place) + " \"float32\", \"bfloat16\", \"float16\" or \"int8\"; found \"" + name +
                        "\"");
}

}  // namespace heed::python
