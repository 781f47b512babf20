"""Other functions of a Transformer on float32 arrays (half precision is converted), each over the last axis, no gradients.

    y = heed.ops.rms_norm(x, gain)
    q = heed.ops.rotary_embedding(q, *heed.ops.rotary_tables(q.shape[2], q.shape[3]))

Arrays and results are as in heed.attention().
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

from . import _checks, _heed
from ._arrays import like

__all__ = ["gelu", "layer_norm", "linear", "log_softmax", "rms_norm", "rotary_embedding", "rotary_tables", "silu", "softmax"]

Array = Any


def softmax(x: Array) -> Array:
    """exp(x) / sum(exp(x)). A row that is -inf everywhere gives zeros."""
    return like(x, _heed.softmax(x))


def log_softmax(x: Array) -> Array:
    """x - log(sum(exp(x)))."""
    return like(x, _heed.log_softmax(x))


def gelu(x: Array, approximate: str = "none") -> Array:
    """x Phi(x); approximate="tanh" for its approximation by tanh."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f'[gelu] approximate "none" or "tanh"; found "{approximate}"')
    return like(x, _heed.activate(x, "gelu_tanh" if approximate == "tanh" else "gelu"))


def silu(x: Array) -> Array:
    """x sigmoid(x)."""
    return like(x, _heed.activate(x, "silu"))


@_checks.also_called(eps="epsilon")
def layer_norm(x: Array, gain: Array, bias: Optional[Array] = None, epsilon: float = 1e-5) -> Array:
    """(x - mean) / sqrt(variance + epsilon) * gain + bias. gain and bias (E)."""
    _checks.floats("layer_norm", epsilon=epsilon)
    return like(x, _heed.layer_norm(x, gain, bias, epsilon))


@_checks.also_called(eps="epsilon")
def rms_norm(x: Array, gain: Array, epsilon: float = 1e-5) -> Array:
    """x / sqrt(mean(x^2) + epsilon) * gain. gain (E)."""
    _checks.floats("rms_norm", epsilon=epsilon)
    return like(x, _heed.rms_norm(x, gain, epsilon))


def linear(x: Array, weight: Array, bias: Optional[Array] = None) -> Array:
    """x weight^T + bias. x (..., I), weight (O, I), bias (O) -> (..., O)."""
    return like(x, _heed.linear(x, weight, bias))


def rotary_embedding(x: Array, cos: Array, sin: Array, interleaved: bool = False) -> Array:
    """Rotates pairs of the first R columns of x (B, H, L, D) by the angles of cos and sin, (L, R / 2) or (B, L, R / 2).

    Pair n is columns (n, n + R / 2), or with interleaved=True columns (2 n, 2 n + 1).
    """
    _checks.booleans("rotary_embedding", interleaved=interleaved)
    return like(x, _heed.rotary_embedding(x, cos, sin, interleaved))


def rotary_tables(count: int, size: int, first_position: int = 0, base: float = 10000.0) -> Tuple[Array, Array]:
    """cos and sin (count, size / 2) of the angles position * (1 / base^(2 n / size)), rounded to float32 at each step."""
    _checks.integers("rotary_tables", count=count, size=size, first_position=first_position)
    _checks.floats("rotary_tables", base=base)
    cos, sin = _heed.rotary_tables(count, size, first_position, base)
    return cos, sin
