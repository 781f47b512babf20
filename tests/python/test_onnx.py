"""The ONNX Attention test cases (opsets 23 to 25) through heed.attention; the table of docs/conformance.md.

python3 test_onnx.py --update writes the table anew. Skipped where the cases (HEED_SHARED, ../shared beside the project)
are not there.
"""

import os
import pathlib
import sys
import unittest

import numpy as np

import heed
import onnx_files

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = pathlib.Path(os.environ.get("HEED_SHARED") or ROOT / ".." / "shared") / "data" / "onnx"
TABLE = ROOT / "docs" / "conformance.md"
# What a result in float64 meets where the data is bfloat16 or float16: their official tolerances assume the reference's
# own rounding points.
HALF = {"bf16": (4e-2, 1e-2), "f16": (1e-2, 1e-3)}


def heads_of(array, count):
    """(B, L, H * D) -> (B, H, L, D), a view; four axes as they are."""
    if array.ndim == 4:
        return array
    return array.reshape(array.shape[0], array.shape[1], count, -1).transpose(0, 2, 1, 3)


def run(node, inputs):
    """The outputs of an Attention node, by name."""
    names = [name.decode() for name in node[1]] + [""] * 7
    given = [inputs[name][0] if name else None for name in names[:7]]
    query, key, value, mask, past_key, past_value, lengths = given
    attributes = onnx_files.attributes(node)
    flat = query.ndim == 3
    query = heads_of(query, attributes.get("q_num_heads"))
    key, value = (heads_of(x, attributes.get("kv_num_heads")) for x in (key, value))
    offset = 0
    if past_key is not None:
        offset = past_key.shape[2]
        key, value = np.concatenate([past_key, key], 2), np.concatenate([past_value, value], 2)

    options = {"scale": attributes.get("scale"), "softcap": attributes.get("softcap") or None}
    if attributes.get("is_causal"):
        options["causal"] = offset if lengths is None else "bottom_right"
    window = (attributes.get("left_window_size", -1), attributes.get("right_window_size", -1))
    if window != (-1, -1):
        options["window"] = window
    if lengths is not None:
        options["key_lengths"] = lengths
    limits = {}
    if mask is not None:
        missing = key.shape[2] - mask.shape[-1]  # a mask may be shorter than the keys: the rest is not attended
        if missing:
            fill = False if mask.dtype == bool else -np.inf
            mask = np.concatenate([mask, np.full(mask.shape[:-1] + (missing,), fill, mask.dtype)], -1)
        limits["mask" if mask.dtype == bool else "bias"] = mask

    r = heed.attention(query, key, value, return_logsumexp=True, return_weights=True, **options, **limits)
    output = r.output.transpose(0, 2, 1, 3).reshape(*r.output.shape[::2], -1) if flat else r.output
    mode = attributes.get("qk_matmul_output_mode", 0)
    if mode == 0 or mode == 1:  # before the masks, and for 0 before the softcap
        plain = {"scale": options["scale"], "softcap": options["softcap"] if mode == 1 else None}
        r = heed.attention(query, key, value, return_logsumexp=True, return_weights=True, **plain)
    weights = r.weights
    if mode < 3:  # a score is the logarithm of its weight, plus logsumexp
        with np.errstate(divide="ignore"):
            weights = np.log(r.weights) + r.logsumexp[..., None]
    return dict(zip(("Y", "present_key", "present_value", "qk_matmul_output"), (output, key, value, weights)))


def tolerances():
    for line in (CASES / "cases.tsv").read_text().splitlines():
        if not line.startswith("#"):
            name, rtol, atol = line.split("\t")[:3]
            yield name, float(rtol), float(atol)


def check(name, rtol, atol):
    """The largest error of a case in units of its tolerance; what was compared."""
    nodes, inputs, outputs = onnx_files.case(CASES / name)
    found = run(nodes[0], inputs)
    order = ("Y", "present_key", "present_value", "qk_matmul_output")
    actual = dict(zip([n.decode() for n in nodes[0][2]], order))
    worst = 0.0
    for output, (expected, bf16) in outputs.items():
        kind = "bf16" if bf16 else "f16" if expected.dtype == np.float16 else None
        r, a = HALF.get(kind, (rtol, atol))
        mine, theirs = found[actual[output]].astype(np.float64), expected.astype(np.float64)
        if mine.shape != theirs.shape:
            raise AssertionError(f"{name}: {output} of shape {theirs.shape}; found {mine.shape}")
        finite = np.isfinite(theirs)
        if not np.array_equal(mine[~finite], theirs[~finite]):
            raise AssertionError(f"{name}: {output} is not infinite where it must be")
        error = np.abs(mine[finite] - theirs[finite]) / (a + r * np.abs(theirs[finite]))
        worst = max(worst, float(error.max(initial=0)))
        if worst > 1:
            raise AssertionError(f"{name}: {output} is {worst:.3g} times its tolerance off")
    return worst, list(outputs)


def table():
    lines = [
        "# Conformance",
        "",
        "The ONNX `Attention` node tests (opsets 23 to 25), each run through `heed.attention` and compared with its",
        "official output: |found - expected| <= atol + rtol |expected| (rtol 1e-3, atol 1e-7; bfloat16 4e-2 and 1e-2;",
        "float16 1e-2 and 1e-3), infinities exactly. `tests/python/test_onnx.py` runs them in `make test` and keeps this",
        "table. Half precision is computed in float32. The error is the largest, in units of its tolerance.",
        "",
        "| case | outputs | result |",
        "| --- | --- | --- |",
    ]
    for name, rtol, atol in tolerances():
        if name.startswith("test_attention"):
            worst, outputs = check(name, rtol, atol)
            shown = "below 0.05" if worst < 0.05 else f"{worst:.1f}"
            lines.append(f"| `{name[5:]}` | {', '.join(outputs)} | passed, {shown} |")
    return "\n".join(lines) + "\n"


@unittest.skipUnless(CASES.is_dir(), f"no ONNX cases at {CASES}")
class Onnx(unittest.TestCase):
    def test_every_attention_case(self):
        count = 0
        for name, rtol, atol in tolerances():
            if not name.startswith("test_attention"):
                continue
            with self.subTest(name):
                check(name, rtol, atol)
                count += 1
        self.assertEqual(count, 62)

    def test_the_table_of_the_documentation_is_this_run(self):
        self.assertEqual(TABLE.read_text(encoding="utf-8"), table(), "python3 tests/python/test_onnx.py --update")


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        TABLE.write_text(table(), encoding="utf-8")
    else:
        unittest.main()
