#!/usr/bin/env python3
"""Training with several processes beside one with several threads, alternating in one run.

  gpt          6 layers, 6 heads, d 384, context 256, batch 12, no biases, tied output; AdamW; 65 characters
  transformer  3+3 layers, d 256, 8 heads, ffn 1024, 64 pairs of 16+16 tokens, vocabulary 8,000; Adam

Each line is one way to use the same cores: processes x threads, shards. Tokens a second are medians; "waiting" is the
share of an update's time that rank 0 waits for others, and MB what it sends in an update. Every way with the same
number of shards must end with the same weights; this is checked.

  make && bench/compare/processes.py [--rounds 3] [--ways 1x2x1,1x2x2,2x1x2] [--mpirun "mpirun ..."]
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import peers

COMMON = """
max_updates = {updates}
validate_every = 1000000
log_every = {log}
label_smoothing = {smoothing}
shards = {shards}
compare_every = 0
[schedule]
kind = "constant"
peak = 1e-3
warmup = 1
"""
GPT = """
task = "language_model"
train_source = "{folder}/text"
tokenizer = "characters"
preset = "tiny"
context = 256
batch_sentences = 12
""" + COMMON + """
[model]
decoder_layers = 6
width = 384
heads = 6
feed_forward = 1536
activation = "gelu"
norm_placement = "pre"
final_norm = true
bias = false
positions = "learned"
max_length = 256
scale_embedding = false
dropout = 0.0
"""
TRANSFORMER = """
task = "translation"
train_source = "{folder}/words"
train_target = "{folder}/words"
tokenizer = "pieces"
preset = "small"
batch_tokens = 1024
""" + COMMON + """
[model]
dropout = 0.0
attention_dropout = 0.0
max_length = 32
"""


def write_texts(folder):
    draw = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,;:!?-'&3$"[:64]
    (folder / "text").write_text("".join(draw.choices(letters, k=400_000)) + "\n")
    words = [f"w{i}" for i in range(7996)]
    lines = [" ".join(words[(i * 15 + k) % len(words)] for k in range(15)) for i in range(1600)]
    (folder / "words").write_text("\n".join(lines) + "\n")


def train(arguments, folder, model, way, updates, log):
    """Tokens a second, the share of waiting, MB an update, and a hash of the weights."""
    processes, threads, shards = way
    recipe = folder / f"{model}.toml"
    recipe.write_text({"gpt": GPT, "transformer": TRANSFORMER}[model].format(
        folder=folder, updates=updates, log=log, shards=shards, smoothing=0.1 if model == "transformer" else 0.0))
    output = folder / f"run{time.monotonic_ns()}"
    command = [arguments.heed, "--threads", str(threads), "train", "--config", str(recipe), "--output", str(output)]
    if processes > 1:
        command = [*arguments.mpirun.split(), "-n", str(processes), *command]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR="/tmp")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    rates = [line["tokens_per_second"] for line in lines if line["type"] == "train"][1:]  # the first warms up
    waiting = [int(x) for x in re.findall(r"waiting (\d+) %", done.stderr)][1:] or [0]
    sent = [float(x) for x in re.findall(r"sent ([\d.]+) MB", done.stderr)][1:] or [0]
    weights = hashlib.sha256((output / "model.safetensors").read_bytes()).hexdigest()[:12]
    return statistics.median(rates), statistics.median(waiting), statistics.median(sent), weights


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=24)
    parser.add_argument("--models", default="gpt,transformer")
    parser.add_argument("--ways", default="1x2x1,1x2x2,2x1x2", help="processes x threads x shards")
    parser.add_argument("--heed", default=str(peers.ROOT / "build" / "release" / "bin" / "heed"))
    parser.add_argument("--mpirun", default="mpirun -q --oversubscribe --bind-to none")
    arguments = parser.parse_args()
    ways = [tuple(int(n) for n in way.split("x")) for way in arguments.ways.split(",")]
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    print(f"{cpu}, {len(os.sched_getaffinity(0))} cores; medians of {arguments.rounds} rounds")
    print(f"{'model':12} {'processes x threads, shards':30} {'tokens/s':>9} {'of first':>8} {'waiting':>8} {'MB sent':>8}")
    with tempfile.TemporaryDirectory(prefix="heed-processes-") as name:
        folder = pathlib.Path(name)
        write_texts(folder)
        for model in arguments.models.split(","):
            results = {way: [] for way in ways}
            for _ in range(arguments.rounds):
                for way in ways:
                    results[way].append(train(arguments, folder, model, way, arguments.updates, arguments.updates // 6))
            weights = {}
            for way in ways:
                for _, _, _, found in results[way]:
                    if weights.setdefault(way[2], found) != found:
                        sys.exit(f"{model}, {way}: other weights than another way with {way[2]} shards")
            first = statistics.median(r[0] for r in results[ways[0]])
            for way in ways:
                rate, waiting, sent = (statistics.median(r[i] for r in results[way]) for i in range(3))
                label = f"{way[0]} x {way[1]}, {way[2]}"
                print(f"{model:12} {label:30} {rate:9,.0f} {rate / first:8.2f} {waiting:6.0f} % {sent:8.1f}", flush=True)


if __name__ == "__main__":
    main()
