#!/usr/bin/env python3
"""Attention of heed and of its peers, alternating in one process, on the same arrays.

Peers: PyTorch (scaled_dot_product_attention), ONNX Runtime (MultiHeadAttention, GroupQueryAttention), OpenVINO
(ScaledDotProductAttention); those that PyPI does not give are left out. All in f32. Prints medians as shares of the
processor's own multiply-add peak, measured between the rounds (decoding: of the memory bandwidth of a copy), with the
ratio to the best peer, and writes a CSV file and a plot.

  cmake -S . -B build/release -DHEED_BUILD_PYTHON=ON && cmake --build build/release --target heed_python
  bench/compare/attention.py [--rounds 7] [--threads 1 2] [--only TEXT] [--csv FILE] [--svg FILE]
"""
import argparse
import csv
import math
import pathlib
import statistics
import sys
import time

import peers

PACKAGES = [("onnxruntime", "onnxruntime"), ("onnx", "onnx"), ("openvino", "openvino")]
SHAPES = [  # what, B, H, Hkv, L, S, D, causal
    ("forward", 1, 16, 16, 1024, 1024, 64, False),
    ("forward", 1, 16, 16, 1024, 1024, 64, True),
    ("forward", 1, 4, 4, 4096, 4096, 64, False),
    ("forward", 1, 4, 4, 4096, 4096, 64, True),
    ("forward", 1, 8, 2, 2048, 2048, 128, True),
    ("forward", 8, 12, 12, 512, 512, 64, False),
    ("forward", 32, 8, 8, 128, 128, 64, False),
    ("forward", 64, 8, 8, 16, 16, 32, False),
    ("backward", 1, 16, 16, 1024, 1024, 64, False),
    ("backward", 1, 16, 16, 1024, 1024, 64, True),
    ("backward", 32, 8, 8, 128, 128, 64, False),
    ("decode", 1, 32, 8, 1, 4096, 128, False),
    ("decode", 1, 12, 12, 1, 1024, 64, False),
]


class Heed:
    name = "heed"

    def __init__(self, threads):
        sys.path.insert(0, str(peers.ROOT / "build" / "release" / "python"))
        import heed

        self.heed = heed
        heed.set_num_threads(threads)

    def forward(self, q, k, v, causal):
        return lambda: self.heed.attention(q, k, v, causal="top_left" if causal else None)

    decode = forward

    def backward(self, q, k, v, d, causal):
        options = {"causal": "top_left" if causal else None}
        r = self.heed.attention(q, k, v, return_logsumexp=True, **options)
        return lambda: self.heed.attention_backward(d, q, k, v, r.output, r.logsumexp, **options)


class PyTorch:
    name = "PyTorch"

    def __init__(self, threads):
        import torch

        self.torch = torch
        torch.set_num_threads(threads)

    def forward(self, q, k, v, causal):
        attention = self.torch.nn.functional.scaled_dot_product_attention
        q, k, v = (self.torch.from_numpy(x) for x in (q, k, v))

        def run():
            with self.torch.no_grad():
                return attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

        return run

    decode = forward

    def backward(self, q, k, v, d, causal):
        leaves = [self.torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
        out = self.torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
        gradient = self.torch.from_numpy(d)
        return lambda: self.torch.autograd.grad(out, leaves, gradient, retain_graph=True)


class OnnxRuntime:
    name = "ONNX Runtime"

    def __init__(self, threads):
        import onnx
        import onnxruntime

        self.onnx, self.runtime, self.threads = onnx, onnxruntime, threads

    def forward(self, q, k, v, causal):
        import numpy as np

        b, h, length, d = q.shape
        kv, keys = k.shape[1], k.shape[2]
        if h != kv and (not causal or length != keys):
            raise NotImplementedError("grouped heads without causal")
        helper, f32 = self.onnx.helper, self.onnx.TensorProto.FLOAT
        merged = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(b, x.shape[2], -1) for x in (q, k, v)]
        inputs = [helper.make_tensor_value_info(n, f32, x.shape) for n, x in zip("qkv", merged)]
        feed = dict(zip("qkv", merged))
        if h == kv:
            node = helper.make_node(
                "MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=h,
                unidirectional=int(causal),
            )
            constants = []
        else:
            node = helper.make_node(
                "GroupQueryAttention", ["q", "k", "v", "", "", "last", "total"], ["y", "pk", "pv"],
                domain="com.microsoft", num_heads=h, kv_num_heads=kv,
            )
            constants = [
                helper.make_tensor("last", self.onnx.TensorProto.INT32, [b], [keys - 1] * b),
                helper.make_tensor("total", self.onnx.TensorProto.INT32, [1], [keys]),
            ]
        outputs = [helper.make_tensor_value_info("y", f32, (b, length, h * d))]
        if h != kv:
            outputs += [helper.make_tensor_value_info(n, f32, (b, kv, keys, d)) for n in ("pk", "pv")]
        graph = helper.make_graph([node], "g", inputs, outputs, constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        )
        model.ir_version = 9
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = self.runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return lambda: session.run(["y"], feed)[0].reshape(b, length, h, d).transpose(0, 2, 1, 3)

    decode = forward


class OpenVino:
    name = "OpenVINO"

    def __init__(self, threads):
        import openvino

        self.openvino, self.threads = openvino, threads

    def forward(self, q, k, v, causal):
        from openvino import opset13 as ops

        if q.shape[1] != k.shape[1]:
            raise NotImplementedError("grouped heads")
        f32, shape_of = self.openvino.Type.f32, self.openvino.PartialShape
        parameters = [ops.parameter(shape_of(list(x.shape)), f32) for x in (q, k, v)]
        attention = ops.scaled_dot_product_attention(*parameters, causal=causal)
        model = self.openvino.Model([attention], parameters, "attention")
        compiled = self.openvino.Core().compile_model(
            model, "CPU", {"INFERENCE_NUM_THREADS": self.threads, "INFERENCE_PRECISION_HINT": "f32"}
        )
        request = compiled.create_infer_request()
        return lambda: request.infer([q, k, v], share_inputs=True)[0]

    decode = forward


def bandwidth(threads):
    """Bytes a second that a copy of 256 MB reads, by PyTorch's threads."""
    import torch

    torch.set_num_threads(threads)
    source = torch.ones(1 << 26)
    target = torch.empty_like(source)
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        target.copy_(source)
        best = min(best, time.perf_counter() - start)
    return 2 * source.numel() * 4 / best  # read and written


def measure(shape, threads, rounds):
    """{peer: median seconds}, the peers taking turns; every result compared with heed's."""
    import numpy as np

    what, b, h, kv, length, keys, d, causal = shape
    generator = np.random.default_rng(1)
    # Decoding reads keys and values that are not in the cache: some sets of them, in turn.
    sets = max(1, math.ceil(256e6 / (8 * b * kv * keys * d))) if what == "decode" else 1

    def random(*extents):
        return generator.standard_normal(extents, dtype=np.float32)

    data = [(random(b, h, length, d), random(b, kv, keys, d), random(b, kv, keys, d)) for _ in range(sets)]
    gradient = random(b, h, length, d)
    calls = {}
    for peer in (Heed, PyTorch, OnnxRuntime, OpenVino):
        if not hasattr(peer, what):
            continue
        try:
            made = peer(threads)
            extra = (gradient,) if what == "backward" else ()
            calls[peer.name] = [getattr(made, what)(*arrays, *extra, causal) for arrays in data]
            found = calls[peer.name][0]()
        except Exception as error:  # not there, or not able to
            calls.pop(peer.name, None)
            if peer is Heed:
                raise
            print(f"  {peer.name} left out: {type(error).__name__}: {str(error).splitlines()[0][:90]}", file=sys.stderr)
            continue
        first = np.asarray(found[0] if what == "backward" else found)
        if peer is Heed:
            expected = first
        elif not np.allclose(first, expected, rtol=1e-3, atol=1e-4):
            raise SystemExit(f"{peer.name} gives other numbers: {np.abs(first - expected).max()}")
    seconds = {name: [] for name in calls}
    inner = {}
    for name, runs in calls.items():  # enough calls for 20 ms
        start = time.perf_counter()
        for run in runs:
            run()
        inner[name] = max(1, math.ceil(0.02 / (time.perf_counter() - start)))
    for _ in range(rounds):
        for name, runs in calls.items():
            start = time.perf_counter()
            for _ in range(inner[name]):
                for run in runs:
                    run()
            seconds[name].append((time.perf_counter() - start) / inner[name] / len(runs))
    return {name: statistics.median(times) for name, times in seconds.items()}


def plot(rows, path):
    """Bars of every shape at the most threads: share of the peak, a colour a peer."""
    colours = {"heed": "#c0392b", "PyTorch": "#e59866", "ONNX Runtime": "#5d6d7e", "OpenVINO": "#aab7b8"}
    most = max(row["threads"] for row in rows)
    shapes = list(dict.fromkeys(row["shape"] for row in rows if row["threads"] == most))
    height, left, width, bar = 18, 330, 420, 9
    body, y = [], 40
    for shape in shapes:
        group = [row for row in rows if row["shape"] == shape and row["threads"] == most]
        body.append(f'<text x="{left - 8}" y="{y + bar * len(group) / 2 + 4}" text-anchor="end">{shape}</text>')
        for row in group:
            length = width * min(row["share"], 1.0)
            body.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 1}" fill="{colours[row["peer"]]}"/>')
            body.append(f'<text x="{left + length + 4:.1f}" y="{y + bar - 1}" font-size="8">{100 * row["share"]:.0f}</text>')
            y += bar
        y += height - bar
    legend = "".join(
        f'<rect x="{left + 110 * n}" y="12" width="10" height="10" fill="{c}"/><text x="{left + 14 + 110 * n}" y="21">{p}</text>'
        for n, (p, c) in enumerate(colours.items())
    )
    pathlib.Path(path).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 40}" height="{y + 8}" font-family="sans-serif" '
        f'font-size="11"><rect width="100%" height="100%" fill="white"/>{legend}{"".join(body)}</svg>\n', encoding="utf-8"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="timings of each peer, of which the median counts")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="shapes whose name holds this text")
    parser.add_argument("--csv", help="write all numbers to this file")
    parser.add_argument("--svg", help="write a plot to this file")
    arguments = parser.parse_args()
    peers.run_inside(__file__, PACKAGES)
    heed = Heed(1).heed

    rows = []
    print(f"{'shape':52} {'threads':>7} {'heed ms':>9} {'share':>6}  {'best peer':14} {'share':>6}  {'ratio':>5}")
    for threads in arguments.threads:
        for shape in SHAPES:
            what, b, h, kv, length, keys, d, causal = shape
            name = f"{what} {b},{h},{kv},{length},{keys},{d}" + (" causal" if causal else "")
            if arguments.only not in name:
                continue
            peak = heed.peak_gflops() * 1e9 * threads
            found = measure(shape, threads, arguments.rounds)
            work = 4 * b * h * length * keys * d * (0.5 if causal else 1) * (2.5 if what == "backward" else 1)
            limit = peak
            if what == "decode":
                work, limit = 8 * b * kv * keys * d, bandwidth(threads)
            for peer, seconds in found.items():
                rows.append({"shape": name, "threads": threads, "peer": peer, "milliseconds": 1e3 * seconds,
                             "share": work / seconds / limit})
            others = {p: s for p, s in found.items() if p != "heed"}
            best = min(others, key=others.get)
            print(f"{name:52} {threads:7} {1e3 * found['heed']:9.3f} {100 * work / found['heed'] / limit:5.0f}%  "
                  f"{best:14} {100 * work / others[best] / limit:5.0f}%  {others[best] / found['heed']:5.2f}", flush=True)
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    if arguments.svg:
        plot(rows, arguments.svg)


if __name__ == "__main__":
    main()
