#!/usr/bin/env python3
"""The time until one text has its vector, by heed and by its peers, alone and on a machine that others use.

    python3 -m venv venv && venv/bin/pip install sentence-transformers onnx onnxscript onnxruntime openvino nncf
    make && PYTHONPATH=build/release/python venv/bin/python bench/compare/latency.py FOLDER [--weights f32] [--threads 2]

FOLDER is a model such as sentence-transformers/all-MiniLM-L6-v2. Each engine has a process of its own, in Python, and embeds
the same texts of 3 words, 13 words and 128 tokens one at a time. The peers are those of embed.py. "Busy": as many other
programs run as the machine has cores, each with an endless loop.

Prints the median milliseconds of a text, and how much longer heed's fastest peer takes.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
SENTENCE = "The quick brown fox jumps over the lazy dog near the river bank. "
TEXTS = {"3 words": "A small cat.", "13 words": SENTENCE.strip(), "128 tokens": (SENTENCE * 10).strip()}
LIMIT = 128  # tokens


def median_of(embed, text, seconds):
    """Median milliseconds of a call."""
    for _ in range(5):
        embed(text)
    taken, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 5:
        began = time.perf_counter()
        embed(text)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e3


def heed_engine(args):
    import heed

    heed.set_num_threads(args.threads)
    model = heed.SentenceTransformer(args.model, weights={"f32": "float32"}.get(args.weights, args.weights))
    model.max_seq_length = LIMIT
    return lambda text: model.encode([text])


def peer_engine(args, folder):
    import embed

    sys.path.remove(str(pathlib.Path(__file__).resolve().parent))  # transformers.py is a neighbour of this file
    import sentence_transformers
    import torch

    torch.set_num_threads(args.threads)
    peer = sentence_transformers.SentenceTransformer(args.model, device="cpu")
    peer.max_seq_length = LIMIT
    kind = next(k for k in (embed.PyTorch, embed.OnnxRuntime, embed.OpenVino, *embed.INT8_PEERS) if k.name == args.engine)
    encode = kind(peer, folder).with_threads(args.threads)
    return lambda text: encode([text], 32)


def measure(args):
    """Prints what this engine takes, as JSON: {"3 words": [alone, busy], ...}."""
    with tempfile.TemporaryDirectory() as folder:
        embed = heed_engine(args) if args.engine == "heed" else peer_engine(args, pathlib.Path(folder))
        times = {name: [median_of(embed, text, args.seconds)] for name, text in TEXTS.items()}
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
                  for _ in range(os.cpu_count())]
        try:
            for name, text in TEXTS.items():
                times[name].append(median_of(embed, text, args.seconds))
        finally:
            for each in others:
                each.kill()
    print(json.dumps(times))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--weights", choices=["f32", "int8"], default="f32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="for a text, each time")
    parser.add_argument("--engine", help=argparse.SUPPRESS)  # of the processes that this one starts
    args = parser.parse_args()
    if args.engine:
        measure(args)
        return
    peers = {"f32": ["PyTorch", "ONNX Runtime", "OpenVINO"],
             "int8": ["ONNX Runtime int8", "OpenVINO int8", "OpenVINO dynamic int8"]}[args.weights]
    found = {engine: {name: ([], []) for name in TEXTS} for engine in ["heed", *peers]}
    for _ in range(args.rounds):
        for engine, of_texts in found.items():
            done = subprocess.run([sys.executable, __file__, args.model, "--engine", engine, "--threads", str(args.threads),
                                   "--weights", args.weights, "--seconds", str(args.seconds)],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"latency.py: {engine}: {done.stderr.strip().splitlines()[-1]}")
            for name, times in json.loads(done.stdout.splitlines()[-1]).items():
                for list_of, each in zip(of_texts[name], times):
                    list_of.append(each)
    print(f"{args.weights}, {args.threads} threads, milliseconds; medians of {args.rounds} rounds")
    for name in TEXTS:
        for at, kind in enumerate(("alone", "busy")):
            medians = {engine: statistics.median(of_texts[name][at]) for engine, of_texts in found.items()}
            best = min(value for engine, value in medians.items() if engine != "heed")
            shown = ", ".join(f"{engine} {value:.2f}" for engine, value in medians.items())
            print(f"{name:11} {kind:6} {shown}; ratio {best / medians['heed']:.2f}", flush=True)


if __name__ == "__main__":
    main()
