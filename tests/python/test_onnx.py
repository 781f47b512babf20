"""The ONNX test cases of Attention and of what surrounds it through heed; the table of docs/conformance.md.

python3 test_onnx.py --update writes the table anew.
"""

import json
import pathlib
import struct
import sys
import unittest

import numpy as np

import heed
import onnx_files

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
CASES, EXTRA, TINY = DATA / "onnx", DATA / "onnx_extra", DATA / "tiny_llm"
TABLE = ROOT / "docs" / "conformance.md"
# Tolerances (rtol, atol) for bfloat16 and float16. The official ones assume that a program rounds after the same steps as
# the reference.
HALF = {"bf16": (4e-2, 1e-2), "f16": (1e-2, 1e-3)}


def heads_of(array, count):
    """(B, L, H * D) -> (B, H, L, D), a view; four axes as they are."""
    if array.ndim == 4:
        return array
    return array.reshape(array.shape[0], array.shape[1], count, -1).transpose(0, 2, 1, 3)


def run_attention(node, inputs):
    """The outputs of an Attention node, in their order."""
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

    r = heed.attention(query, key, value, return_scores=True, return_weights=True, **options, **limits)
    output = r.output.transpose(0, 2, 1, 3).reshape(*r.output.shape[::2], -1) if flat else r.output
    mode = attributes.get("qk_matmul_output_mode", 0)
    if mode < 2:  # scores before the masks, and for 0 before the softcap
        plain = {"scale": options["scale"], "softcap": options["softcap"] if mode == 1 else None}
        r = heed.attention(query, key, value, return_scores=True, **plain)
    return output, key, value, r.weights if mode == 3 else r.scores


def run_flex_attention(node, inputs):
    """FlexAttention: its score functions are recognised by their graphs; None where heed has no such thing."""
    attributes = onnx_files.attributes(node)
    arrays = [inputs[name.decode()][0] for name in node[1][:3]]
    options = {"scale": attributes.get("scale")}
    if "prob_mod" in attributes:
        return None
    if "score_mod" in attributes:
        graph = onnx_files.collect(attributes["score_mod"][6][0])
        kinds = [onnx_files.collect(n)[4][0].decode() for n in graph[1]]
        constants = {onnx_files.collect(c)[8][0].decode(): onnx_files.tensor(c)[0] for c in graph[5]}
        if kinds == ["Add"]:
            options["bias"] = constants["bias"].reshape(1)
        elif kinds == ["Div", "Tanh", "Mul"]:
            options["softcap"] = float(constants["cap"])
        elif kinds[-2:] == ["GreaterOrEqual", "Where"]:
            options["causal"] = "top_left"
        else:
            return None
    module = heed.reference if arrays[0].dtype == np.float64 else heed
    return (module.attention(*arrays, **options),)


def run_rotary_embedding(node, inputs):
    x, cos, sin, *positions = [inputs[name.decode()][0] for name in node[1]]
    attributes = onnx_files.attributes(node)
    flat = x.ndim == 3
    x = heads_of(x, attributes.get("num_heads"))
    if positions:
        cos, sin = cos[positions[0]], sin[positions[0]]
    y = heed.ops.rotary_embedding(x, cos, sin, bool(attributes.get("interleaved")))
    return (y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1) if flat else y,)


def run_norm(node, inputs):
    """LayerNormalization and RMSNormalization over the axes from `axis` on."""
    x, *rest = [inputs[name.decode()][0] for name in node[1]]
    attributes = onnx_files.attributes(node)
    axis, epsilon = attributes.get("axis", -1) % x.ndim, attributes.get("epsilon", 1e-5)
    rows = x.reshape(*x.shape[:axis], -1)
    rest = [np.broadcast_to(p, x.shape[axis:]).reshape(-1) for p in rest]
    if node[4][0] == b"RMSNormalization":
        return (heed.ops.rms_norm(rows, *rest, epsilon=epsilon).reshape(x.shape),)
    kept = x.shape[:axis] + (1,) * (x.ndim - axis)
    wide = rows.astype(np.float64)
    mean = wide.mean(-1).reshape(kept)  # asked for by the operator, not by anyone who uses heed
    deviation = 1 / np.sqrt(wide.var(-1) + epsilon).reshape(kept)
    return heed.ops.layer_norm(rows, *rest, epsilon=epsilon).reshape(x.shape), mean, deviation


def run_rows(node, inputs):
    """Softmax, Gelu and Swish."""
    x = inputs[node[1][0].decode()][0]
    attributes = onnx_files.attributes(node)
    kind = node[4][0].decode()
    if kind == "Softmax":
        axis = attributes.get("axis", -1)
        return (np.moveaxis(heed.ops.softmax(np.moveaxis(x, axis, -1)), -1, axis),)
    if kind == "Gelu":
        return (heed.ops.gelu(x, approximate=attributes.get("approximate", "none")),)
    assert attributes.get("alpha", 1.0) == 1.0
    return (heed.ops.silu(x),)


RUNNERS = {
    "Attention": run_attention, "FlexAttention": run_flex_attention, "RotaryEmbedding": run_rotary_embedding,
    "LayerNormalization": run_norm, "RMSNormalization": run_norm, "Softmax": run_rows, "Gelu": run_rows,
    "Swish": run_rows,
}
# Cases that heed has nothing for, and why.
NOT_APPLICABLE = {
    "FlexAttention": "the case changes the weights after the softmax; heed's functions change scores before it",
    "LinearAttention": "another operator: attention without a softmax, as a recurrence over states",
}


def tolerances(folder):
    for line in (folder / "cases.tsv").read_text().splitlines():
        if not line.startswith("#"):
            name, rtol, atol = line.split("\t")[:3]
            yield name, float(rtol), float(atol)


def error_of(name, output, mine, theirs, rtol, atol):
    """The largest error in units of its tolerance; infinities must agree."""
    mine, theirs = np.asarray(mine, np.float64), np.asarray(theirs, np.float64)
    if mine.shape != theirs.shape:
        raise AssertionError(f"{name}: {output} of shape {theirs.shape}; found {mine.shape}")
    finite = np.isfinite(theirs)
    if not np.array_equal(mine[~finite], theirs[~finite]):
        raise AssertionError(f"{name}: {output} is not infinite where it must be")
    worst = float((np.abs(mine[finite] - theirs[finite]) / (atol + rtol * np.abs(theirs[finite]))).max(initial=0))
    if worst > 1:
        raise AssertionError(f"{name}: {output} is {worst:.3g} times its tolerance off")
    return worst


def check(folder, name, rtol, atol):
    """The operator, the largest error in units of its tolerance (None: not applicable), and what was compared."""
    nodes, inputs, outputs = onnx_files.case(folder / name)
    node = nodes[-1]
    kind = node[4][0].decode()
    found = RUNNERS[kind](node, inputs) if kind in RUNNERS else None
    if found is None:
        return kind, None, list(outputs)
    actual = dict(zip([n.decode() for n in node[2]], found))
    worst = 0.0
    for output, (expected, bf16) in outputs.items():
        half = "bf16" if bf16 else "f16" if expected.dtype == np.float16 else None
        r, a = HALF.get(half, (rtol, atol))
        worst = max(worst, error_of(name, output, actual[output], expected, r, a))
    return kind, worst, list(outputs)


def every_case():
    for folder in (CASES, EXTRA):
        for name, rtol, atol in tolerances(folder):
            yield folder, name, rtol, atol


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    types = {"F32": np.float32, "F16": np.float16}
    return {
        name: np.frombuffer(data[8 + length :][slice(*at["data_offsets"])], types[at["dtype"]]).reshape(at["shape"])
        for name, at in header.items() if name != "__metadata__"
    }


def run_tiny(entry, t):
    """The result of a tiny_llm case, and the attention weights where there are any."""
    op = entry["op"]
    if op.startswith("softmax"):
        return heed.ops.softmax(t["x"]), None
    if op.startswith("x*sigmoid"):
        return heed.ops.silu(t["x"]), None
    if op.startswith("RMSNorm"):
        return heed.ops.rms_norm(t["x"], t["w"], entry["eps"]), None
    if op.startswith("(silu"):
        inner = heed.ops.silu(heed.ops.linear(t["x"], t["w_gate"])) * heed.ops.linear(t["x"], t["w_up"])
        return heed.ops.linear(inner, t["w_down"]), None
    if op.startswith("x @"):
        return np.stack([heed.ops.linear(*trial) for trial in zip(t["x"], t["w"], t["b"])]), None
    if op.startswith("RoPE"):
        found = []
        for x, offset in zip(t["x"], entry["offsets"]):
            tables = heed.ops.rotary_tables(x.shape[1], x.shape[3], offset)
            turned = heed.ops.rotary_embedding(x.transpose(0, 2, 1, 3), *tables, interleaved="interleaved" in entry["file"])
            found.append(turned.transpose(0, 2, 1, 3))
        return np.stack(found), None
    if op.startswith("MHA"):
        found = []
        for n in range(len(t["q"])):
            heads = lambda x, w: heed.ops.linear(x, t[w][n]).reshape(*x.shape[:-1], 3, -1).swapaxes(-2, -3)
            o = heed.attention(heads(t["q"][n], "wq"), heads(t["k"][n], "wk"), heads(t["v"][n], "wv"), bias=t["mask"][n])
            found.append(heed.ops.linear(o.swapaxes(1, 2).reshape(t["q"][n].shape), t["wo"][n]))
        return np.stack(found), None
    # Attention over any leading axes: they become the batch.
    grouped = op.startswith("grouped")
    inner = 3 if grouped else 2
    flat = lambda x: x.reshape((-1,) + ((1,) if not grouped else ()) + x.shape[-inner:])
    options = {"scale": entry.get("scale"), "return_weights": True}
    if "mask" in t:
        options["bias"] = flat(t["mask"])
    elif "causal" in entry["file"]:
        options["causal"] = True
    r = heed.attention(flat(t["q"]), flat(t["k"]), flat(t["v"]), **options)
    weights = t.get("expected_weights")
    return r.output.reshape(t["expected_y"].shape), None if weights is None else r.weights.reshape(weights.shape)


def check_tiny(entry):
    tensors = read_safetensors(TINY / entry["file"])
    found, weights = run_tiny(entry, tensors)
    worst = error_of(entry["file"], "y", found, tensors["expected_y"], entry["rtol"], entry["atol"])
    if weights is not None:
        expected = tensors["expected_weights"]
        worst = max(worst, error_of(entry["file"], "weights", weights, expected, entry["rtol"], entry["atol"]))
    return worst


def tiny_cases():
    return json.loads((TINY / "index.json").read_text(encoding="utf-8"))["index"]


def shown(worst):
    return "passed, " + ("below 0.05" if worst < 0.05 else f"{worst:.1f}")


def table():
    lines = [
        "# Conformance",
        "",
        "heed passes every case on this page for which it has an operator. A case is an input with the output that others have",
        "published. `tests/python/test_onnx.py` runs each case through `heed.attention` and `heed.ops`. It is part of `make test`,",
        "and it fails if this page says something else than the run.",
        "",
        "A number passes if |found - expected| <= atol + rtol |expected|; an infinity has to be the same infinity. The last column",
        "gives the largest error of a case as a fraction of what is allowed: 1.0 would be the limit.",
        "",
        "## ONNX",
        "",
        "These are the node tests of `Attention` (opsets 23 to 25), of the operators around it, and of the preview operators",
        "`FlexAttention` and `LinearAttention`.",
        "",
        "| type | rtol | atol |",
        "| --- | --- | --- |",
        "| float32 | 1e-3 | 1e-7 |",
        "| bfloat16 | 4e-2 | 1e-2 |",
        "| float16 | 1e-2 | 1e-3 |",
        "",
        "heed computes float16 and bfloat16 in float32 and rounds once. The published outputs were rounded after every step, so these",
        "two types have wider limits. The output `qk_matmul_output` is the matrix of scores, which heed returns with",
        "`return_scores=True`, or the weights, where a case asks for them.",
        "",
        "| operator | case | outputs | result |",
        "| --- | --- | --- | --- |",
    ]
    for folder, name, rtol, atol in every_case():
        kind, worst, outputs = check(folder, name, rtol, atol)
        result = f"not applicable: {NOT_APPLICABLE[kind]}" if worst is None else shown(worst)
        lines.append(f"| {kind} | `{name[5:]}` | {', '.join(outputs)} | {result} |")
    lines += [
        "",
        "## tiny-llm",
        "",
        "The shapes and tolerances are those of the first week of the course tiny-llm: rtol 1e-5 and atol 1e-6 in float32, 5e-2 and",
        "1e-3 in float16. The expected numbers were computed for heed in NumPy's float64.",
        "",
        "| case | result |",
        "| --- | --- |",
    ]
    lines += [f"| `{entry['file'].rpartition('.')[0]}` | {shown(check_tiny(entry))} |" for entry in tiny_cases()]
    return "\n".join(lines) + "\n"


class Onnx(unittest.TestCase):
    def test_every_case(self):
        counts = {}
        for folder, name, rtol, atol in every_case():
            with self.subTest(name):
                kind, worst, _ = check(folder, name, rtol, atol)
                counts[kind] = counts.get(kind, 0) + (worst is not None)
        self.assertEqual(counts, {
            "Attention": 62, "RotaryEmbedding": 8, "RMSNormalization": 19, "LayerNormalization": 19, "Softmax": 7,
            "Gelu": 4, "Swish": 1, "FlexAttention": 6, "LinearAttention": 0})

    def test_every_case_of_tiny_llm(self):
        for entry in tiny_cases():
            with self.subTest(entry["file"]):
                check_tiny(entry)

    def test_the_table_of_the_documentation_is_this_run(self):
        self.assertEqual(TABLE.read_text(encoding="utf-8"), table(), "python3 tests/python/test_onnx.py --update")


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        TABLE.write_text(table(), encoding="utf-8")
    else:
        unittest.main()
