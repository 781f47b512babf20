"""Attention by its plain formula, step by step, in float32 or float64; memory is L * S. It says what the kernels mean."""

from __future__ import annotations

from typing import Any

import heed


def attention(query: Any, key: Any, value: Any, **options: Any) -> Any:
    """heed.attention by its definition, with the same arguments, results and errors."""
    known = dict.fromkeys(heed._OPTIONS + ("taps",))
    known.update(dropout=0.0, layout="bhld", return_logsumexp=False, return_weights=False, return_scores=False)
    out = options.pop("out", None)
    unknown = set(options) - set(known)
    if unknown:
        raise TypeError(f"[attention] the options of heed.attention; found {', '.join(sorted(unknown))}")
    return heed._attention(True, query, key, value, {**known, **options}, out)
