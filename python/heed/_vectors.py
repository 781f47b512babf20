"""Numbers of vectors (N, E) as sentence-transformers computes them: lengths, similarities, other precisions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from ._checks import found


def rows_of(function: str, vectors: Any) -> npt.NDArray[np.float32]:
    """(N, E) float32 of an array, a tensor, or a list of either; one vector is a row."""
    try:
        listed = [_array_of(one) for one in vectors] if isinstance(vectors, (list, tuple)) else _array_of(vectors)
        array = np.asarray(listed, dtype=np.float32)
    except (TypeError, ValueError):
        array = np.empty((0, 0, 0), np.float32)  # no shape of vectors
    if array.ndim not in (1, 2):
        raise ValueError(f"[{function}] vectors (N, E), or one (E); found {found(vectors)}")
    return array[None] if array.ndim == 1 else array


def is_one_vector(vectors: Any) -> bool:
    """Whether rows_of() makes one row of a vector (E)."""
    if isinstance(vectors, (list, tuple)):
        return len(vectors) > 0 and np.ndim(_array_of(vectors[0])) == 0
    return np.ndim(_array_of(vectors)) == 1


def _array_of(one: Any) -> Any:
    """Of a tensor: its numbers without a gradient, in a format that NumPy has."""
    if not hasattr(one, "detach"):
        return np.asarray(one)
    return np.asarray(one.detach().cpu().float())


def normalised(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    result: npt.NDArray[np.float32] = (rows / np.maximum(lengths, np.float32(1e-12))).astype(np.float32)
    return result


def quantised(rows: npt.NDArray[np.float32], precision: str) -> npt.NDArray[Any]:
    """(N, E) in another precision, as sentence_transformers.quantize_embeddings() does it without calibration."""
    if precision.endswith("binary"):
        bits: npt.NDArray[Any] = np.packbits(rows > 0, axis=-1)
        return bits if precision == "ubinary" else (bits - 128).astype(np.int8)
    if len(rows) == 1:
        raise ValueError(f"[encode] several sentences for precision {precision}, whose ranges they give; found one")
    if len(rows) < 100:
        warnings.warn(f"the ranges of precision {precision} come from {len(rows)} sentences only", stacklevel=3)
    starts = rows.min(axis=0)
    steps = (rows.max(axis=0) - starts) / 255
    steps = np.where(steps == 0, 1, steps)
    numbers: npt.NDArray[Any] = np.clip(np.floor((rows - starts) / steps), 0, 255)
    return numbers.astype(np.uint8) if precision == "uint8" else (numbers - 128).astype(np.int8)


def similarities(name: str, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """a (N, E), b (M, E) -> (N, M): cosine, dot, or minus the euclidean or manhattan distance."""
    if name == "cosine":
        found = normalised(a) @ normalised(b).T
    elif name == "dot":
        found = a @ b.T
    elif name == "euclidean":
        found = np.array([-np.linalg.norm(row - b, axis=1) for row in a]).reshape(len(a), len(b))
    else:
        found = np.array([-np.abs(row - b).sum(axis=1) for row in a]).reshape(len(a), len(b))
    return found.astype(np.float32)


def pairwise_similarities(name: str, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """a (N, E), b (N, E) -> (N): that of row n and row n."""
    if name == "cosine":
        found = (normalised(a) * normalised(b)).sum(axis=1)
    elif name == "dot":
        found = (a * b).sum(axis=1)
    elif name == "euclidean":
        found = -np.linalg.norm(a - b, axis=1)
    else:
        found = -np.abs(a - b).sum(axis=1)
    result: npt.NDArray[np.float32] = found.astype(np.float32)
    return result
