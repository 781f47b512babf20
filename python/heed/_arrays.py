"""Results in the form of the arrays that were given."""

from __future__ import annotations

from typing import Any, Optional

Array = Any  # a NumPy array, or what has the buffer protocol or DLPack


def like(
    query: Array, result: Optional[Array], same_dtype: bool = True, of: Optional[Array] = None
) -> Optional[Array]:
    """A NumPy result as a PyTorch tensor where the query is one, in the type of `of`, or else of the query; without a
    copy where the types are the same."""
    if result is None:
        return None
    bits = result.dtype.name == "int16"  # bfloat16, which NumPy does not have
    if type(query).__module__.partition(".")[0] == "torch":
        import torch as pytorch

        tensor = pytorch.from_numpy(result)
        if bits:
            return tensor.view(pytorch.bfloat16)
        dtype = getattr(pytorch, type_name(query if of is None else of), None) if same_dtype else None
        return tensor.to(dtype) if dtype is not None and dtype.is_floating_point else tensor
    if bits:
        return (result.view("uint16").astype("uint32") << 16).view("float32")
    half = same_dtype and type_name(query if of is None else of) == "float16"
    return result.astype("float16") if half else result


def type_name(array: Array) -> str:
    """"float32", for an array of NumPy and for a tensor."""
    return str(getattr(array, "dtype", "")).rpartition(".")[2]
