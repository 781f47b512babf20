#!/usr/bin/env python3
"""Attention of heed and of its peers, alternating in one process, on the same numbers.

Peers: PyTorch (scaled_dot_product_attention, and FlexAttention compiled), oneDNN Graph (through TorchScript), JAX, ONNX
Runtime (MultiHeadAttention, GroupQueryAttention), OpenVINO (ScaledDotProductAttention; decoding also over its own
state), ggml (flash_attn_ext); those that PyPI does not give are left out, and each from what it cannot do. In f32, and
in bf16 where a peer has it.
Prints medians as shares of the processor's own multiply-add peak for the type, measured beside them (decoding: of the
memory bandwidth of a copy), with the ratio to the best peer, and writes a CSV file and a plot. Every number of threads
has a process of its own, kept to as many cores.

  cmake -S . -B build/release -DHEED_BUILD_PYTHON=ON && cmake --build build/release --target heed_python
  bench/compare/attention.py [--rounds 7] [--threads 1 2] [--only TEXT] [--csv FILE] [--svg FILE]
"""
import argparse
import csv
import html
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import attention_peers
import peers
from attention_peers import Case

SHAPES = [
    Case("forward", 1, 16, 16, 1024, 1024, 64),
    Case("forward", 1, 16, 16, 1024, 1024, 64, causal=True),
    Case("forward", 1, 4, 4, 4096, 4096, 64),
    Case("forward", 1, 4, 4, 4096, 4096, 64, causal=True),
    Case("forward", 1, 8, 2, 2048, 2048, 128, causal=True),
    Case("forward", 8, 12, 12, 512, 512, 64),
    Case("forward", 32, 8, 8, 128, 128, 64),
    Case("forward", 64, 8, 8, 16, 16, 32),
    Case("backward", 1, 16, 16, 1024, 1024, 64),
    Case("backward", 1, 16, 16, 1024, 1024, 64, causal=True),
    Case("backward", 32, 8, 8, 128, 128, 64),
    Case("decode", 1, 32, 8, 1, 4096, 128),
    Case("decode", 1, 12, 12, 1, 1024, 64),
]
CASES = SHAPES + [case._replace(dtype="bf16") for case in SHAPES]
COLOURS = ["#c0392b", "#e59866", "#f0c9a8", "#b7950b", "#7d3c98", "#5d6d7e", "#34495e", "#aab7b8", "#2e86c1"]  # in the order of the peers
PAUSE = 0.1  # seconds before a peer's turn, in which the threads of the one before stop spinning
FIELDS = ["shape", "threads", "peer", "milliseconds", "share"]


def bandwidth(threads):
    """Bytes a second that a copy of 256 MB reads and writes, by PyTorch's threads."""
    import torch

    torch.set_num_threads(threads)
    source = torch.ones(1 << 26)
    target = torch.empty_like(source)
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        target.copy_(source)
        best = min(best, time.perf_counter() - start)
    return 2 * source.numel() * 4 / best


def operands(case):
    """Sets of (query, key, value): for decoding enough of them that keys and values are not in the cache."""
    import torch

    torch.manual_seed(1)
    dtype = torch.bfloat16 if case.dtype == "bf16" else torch.float32
    rows = case.batch * case.kv_heads * case.keys * case.size
    sets = max(1, math.ceil(256e6 / (2 * rows * dtype.itemsize))) if case.what == "decode" else 1

    def random(heads, length):
        return torch.randn(case.batch, heads, length, case.size).to(dtype)

    data = [[random(case.heads, case.queries)] + [random(case.kv_heads, case.keys) for _ in range(2)] for _ in range(sets)]
    return data, random(case.heads, case.queries)


def as_numbers(result):
    import numpy as np

    first = result[0] if isinstance(result, (tuple, list)) else getattr(result, "query", result)
    return first.detach().float().numpy() if hasattr(first, "detach") else np.asarray(first, dtype=np.float32)


def prepare(case, threads):
    """{peer: its calls}, every peer's first result compared with heed's."""
    import numpy as np

    data, gradient = operands(case)
    calls, expected = {}, None
    for peer in attention_peers.ALL:
        if getattr(peer, case.what, None) is None:
            continue
        try:
            made = peer(threads)
            extra = (gradient,) if case.what == "backward" else ()
            runs = [getattr(made, case.what)(case, *arrays, *extra) for arrays in data]
            found = as_numbers(runs[0]())
        except NotImplementedError:
            continue
        except Exception as error:  # not there, or it fails
            if peer is attention_peers.Heed:
                raise
            reason = (str(error).splitlines() or [""])[0][:90]
            print(f"  {peer.name} left out of {case}: {type(error).__name__}: {reason}", file=sys.stderr)
            continue
        expected = found if expected is None else expected
        tolerance = 1e-4 if case.dtype == "f32" else 2e-2 * max(1.0, float(np.abs(expected).max()))
        if not np.allclose(found, expected, rtol=1e-3, atol=tolerance):
            raise SystemExit(f"{peer.name} gives other numbers for {case}: {np.abs(found - expected).max()}")
        calls[peer.name] = runs
    return calls


def measure(case, threads, rounds):
    """{peer: median seconds}, the peers taking turns."""
    calls = prepare(case, threads)
    seconds = {name: [] for name in calls}
    inner = {}
    for name, runs in calls.items():  # enough calls for 20 ms
        start = time.perf_counter()
        for run in runs:
            run()
        inner[name] = max(1, math.ceil(0.02 / (time.perf_counter() - start)))
    for _ in range(rounds):
        for name, runs in calls.items():
            time.sleep(PAUSE)
            runs[0]()
            start = time.perf_counter()
            for _ in range(inner[name]):
                for run in runs:
                    run()
            seconds[name].append((time.perf_counter() - start) / inner[name] / len(runs))
    return {name: statistics.median(times) for name, times in seconds.items()}


def processor():
    """The processor's name, where the system tells it."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def plot(rows, path):
    """Bars of every shape in f32 at the most threads: share of the peak, a colour a peer."""
    colours = dict(zip((peer.name for peer in attention_peers.ALL), COLOURS))
    most = max(row["threads"] for row in rows)
    rows = [row for row in rows if row["threads"] == most and not row["shape"].endswith("bf16")]
    gap, left, width, bar = 10, 250, 460, 9
    legend, x, top = "", 10, 12
    for peer in (peer for peer in colours if any(row["peer"] == peer for row in rows)):
        if x + 28 + 7 * len(peer) > left + width:
            x, top = 10, top + 16
        legend += f'<rect x="{x}" y="{top}" width="10" height="10" fill="{colours[peer]}"/><text x="{x + 14}" y="{top + 9}">{peer}</text>'
        x += 28 + 7 * len(peer)
    body, y = [], top + 28
    for shape in dict.fromkeys(row["shape"] for row in rows):
        group = [row for row in rows if row["shape"] == shape]
        body.append(f'<text x="{left - 8}" y="{y + bar * len(group) / 2 + 4}" text-anchor="end">{shape}</text>')
        for row in group:
            length = width * min(row["share"], 1.0)
            body.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 1}" fill="{colours[row["peer"]]}"/>')
            body.append(f'<text x="{left + length + 4:.1f}" y="{y + bar - 1}" font-size="8">{100 * row["share"]:.0f}</text>')
            y += bar
        y += gap
    lines = "".join(
        f'<line x1="{left + width * n / 4}" x2="{left + width * n / 4}" y1="{top + 22}" y2="{y}" stroke="#ddd"/>'
        f'<text x="{left + width * n / 4}" y="{y + 12}" text-anchor="middle" fill="#888">{25 * n} %</text>'
        for n in range(5)
    )
    captions = (
        "Share of the multiply-add peak; decode: of the bandwidth of a copy. Shapes are B, H, Hkv, L, S, D.",
        f"f32, {most} threads, {processor()}",
    )
    for n, caption in enumerate(captions):
        lines += f'<text x="10" y="{y + 32 + 14 * n}" fill="#888">{html.escape(caption)}</text>'
    pathlib.Path(path).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 40}" height="{y + 56}" font-family="sans-serif" '
        f'font-size="11"><rect width="100%" height="100%" fill="white"/>{lines}{legend}{"".join(body)}</svg>\n',
        encoding="utf-8",
    )


def run_cases(threads, rounds, only):
    """All cases with so many threads, on as many cores; prints a line each and returns the rows of the CSV file."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:threads])
    heed = attention_peers.Heed(threads).heed
    rows = []
    for case in CASES:
        if only not in str(case):
            continue
        found = measure(case, threads, rounds)
        work = 4 * case.batch * case.heads * case.queries * case.keys * case.size
        work *= (0.5 if case.causal else 1) * (2.5 if case.what == "backward" else 1)
        if case.what == "decode":
            element = 2 if case.dtype == "bf16" else 4
            work, limit = 2 * case.batch * case.kv_heads * case.keys * case.size * element, bandwidth(threads)
        else:
            limit = heed.peak_gflops(case.dtype) * 1e9 * threads
        share = {peer: work / seconds / limit for peer, seconds in found.items()}
        for peer, seconds in found.items():
            rows.append(dict(zip(FIELDS, (str(case), threads, peer, 1e3 * seconds, share[peer]))))
        line = f"{str(case):44} {threads:7} {1e3 * found['heed']:9.3f} {100 * share['heed']:5.0f}%"
        others = {peer: s for peer, s in found.items() if peer != "heed"}
        if others:
            best = min(others, key=others.get)
            line += f"  {best:14} {100 * share[best]:5.0f}%  {others[best] / found['heed']:5.2f}"
        print(line, flush=True)
    return rows


def run_apart(arguments):
    """run_cases() for every number of threads, each in a process of its own."""
    rows = []
    for threads in arguments.threads:
        with tempfile.NamedTemporaryFile(suffix=".csv") as file:
            command = [sys.executable, __file__, "--threads", str(threads), "--rounds", str(arguments.rounds)]
            command += ["--only", arguments.only, "--csv", file.name, "--quiet-head"]
            subprocess.run(command, check=True)
            with open(file.name, newline="", encoding="utf-8") as read:
                rows += [
                    {**row, "threads": int(row["threads"]), "milliseconds": float(row["milliseconds"]),
                     "share": float(row["share"])}
                    for row in csv.DictReader(read)
                ]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="timings of each peer, of which the median counts")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--csv", help="write all numbers to this file")
    parser.add_argument("--svg", help="write a plot to this file")
    parser.add_argument("--quiet-head", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not any(arguments.only in str(case) for case in CASES):
        sys.exit(f"attention.py: no case's name holds {arguments.only!r}")
    peers.run_inside(__file__, attention_peers.PACKAGES)
    if not arguments.quiet_head:
        head = f"{'case':44} {'threads':>7} {'heed ms':>9} {'share':>6}  {'best peer':14} {'share':>6}  {'ratio':>5}"
        print(head, flush=True)
    if len(arguments.threads) > 1:
        rows = run_apart(arguments)
    else:
        rows = run_cases(arguments.threads[0], arguments.rounds, arguments.only)
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)
    if arguments.svg:
        plot(rows, arguments.svg)


if __name__ == "__main__":
    main()
