#!/usr/bin/env python3
"""Training with several processes beside one with several threads, alternating in one run.

  gpt          6 layers, 6 heads, d 384, context 256, batch 12, no biases, tied output; AdamW; 65 characters
  transformer  3+3 layers, d 256, 8 heads, ffn 1024, 64 pairs of 16+16 tokens, vocabulary 8,000; Adam

Each line is one way to use the same cores: processes x threads, shards. Tokens a second are medians; "waiting" is the
share of an update's time that rank 0 waits for others, and MB what it sends in an update. Every way with the same
number of shards must end with the same weights; this is checked.

With --peer, PyTorch trains the models of training.py in the same rounds (data_parallel.py): one process, or several with
DistributedDataParallel over gloo and loopback. heed's encoder-decoder then has an output layer of its own (tie_output),
as PyTorch's has. "of first" is over the first way of the same program, "of torch" over the first way of PyTorch. The last
lines say whether the number of processes changes the weights; an update of Adam moves a weight by about 1e-3 here.

  make && bench/compare/processes.py [--rounds 3] [--peer] [--ways 1x2x1,1x2x2,2x1x2] [--mpirun "mpirun ..."]
"""
import argparse
import array
import hashlib
import json
import operator
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

sys.path.insert(0, str(peers.ROOT / "bench"))
import cluster_model  # noqa: E402

TOKENS = {"gpt": 3072, "transformer": 1024}  # of targets, an update
WEIGHTS = {"gpt": 10.7e6, "transformer": 9.6e6}

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
tie_output = {tied}
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
        folder=folder, updates=updates, log=log, shards=shards, smoothing=0.1 if model == "transformer" else 0.0,
        tied="false" if arguments.peer else "true"))
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


def memory_speed():
    """Bytes a second that one core reads and writes."""
    source, target = bytearray(1 << 28), bytearray(1 << 28)
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        memoryview(target)[:] = source
        seconds.append(time.perf_counter() - start)
    return 2 * len(source) / min(seconds)


def predicted(model, way, rates, arguments):
    """Tokens a second by the model of docs/cluster.md, from what one process with as many threads reaches."""
    tokens, weights = TOKENS[model], WEIGHTS[model]
    adam = 4 * weights * 7 / arguments.memory  # the model counts it by itself
    a_token = 1 / rates[(1, way[1], 1)] - adam / tokens
    return tokens / cluster_model.seconds(weights, tokens, a_token, way[0], arguments.link * 1e9 / 8, arguments.memory)


def peer_version(python):
    """The version of PyTorch, which must have gloo."""
    asked = "import torch; assert torch.distributed.is_available() and torch.distributed.is_gloo_available()"
    done = subprocess.run([python, "-c", asked + "; print(torch.__version__)"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"processes.py: --peer needs a PyTorch with gloo; the one in {peers.VENV.relative_to(peers.ROOT)} has none")
    return done.stdout.strip()


def weights_file(folder, way):
    return folder / f"weights{way[0]}x{way[1]}"


def train_peer(python, folder, model, way, updates, log):
    """Like train() for PyTorch: tokens a second, and a hash of the weights after ten updates, which go to a file."""
    processes, threads = way
    command = [python, pathlib.Path(__file__).with_name("data_parallel.py"), "--model", model,
               "--processes", str(processes), "--threads", str(threads), "--updates", str(updates), "--log", str(log),
               "--weights", weights_file(folder, way)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stderr}processes.py: PyTorch with {processes} x {threads} failed; the messages above say why")
    answer = json.loads(done.stdout.splitlines()[-1])
    return statistics.median(answer["tokens_per_second"]), answer["weights"]


def difference(folder, way, first):
    """How the weights of two ways of PyTorch differ, in words."""
    a, b = array.array("f"), array.array("f")
    a.frombytes(weights_file(folder, first).read_bytes())
    b.frombytes(weights_file(folder, way).read_bytes())
    differ = sum(map(operator.ne, a, b)) / len(a)
    most = max(map(abs, map(operator.sub, a, b)))
    return f"other bits than {first[0]} x {first[1]}: {100 * differ:.1f} % of the weights differ, by at most {most:.1e}"


def weights_lines(folder, model, results, arguments):
    """Lines that say which ways of `results` ended with the same weights."""
    hashes = {way: {result[-1] for result in results[way]} for way in results}
    for shards in sorted({way[2] for way in arguments.ways}):
        same = [way for way in arguments.ways if way[2] == shards]
        if len(set().union(*(hashes[way] for way in same))) > 1:
            sys.exit(f"{model}, {shards} shards: all ways must end with the same weights; found {[hashes[w] for w in same]}")
        if len(same) > 1:
            names = " and ".join(f"{processes} x {threads}" for processes, threads, _ in same)
            yield f"{model:12} heed, shards {shards}, after {arguments.updates} updates: {names} have the same bits"
    first, *others = arguments.peer or [None]
    for way in others:
        name = f"{model:12} torch, after 10 updates: {way[0]} x {way[1]} has "
        rounds = "" if len(hashes[way]) == len(hashes[first]) == 1 else "; another round gives other bits"
        same = hashes[way] == hashes[first] and not rounds
        yield name + (f"the bits of {first[0]} x {first[1]}" if same else difference(folder, way, first)) + rounds


def table_line(model, way, results, rates, arguments):
    if len(way) == 3:
        waiting, sent = (statistics.median(result[i] for result in results[way]) for i in (1, 2))
        label, costs, first = f"heed {way[0]} x {way[1]}, {way[2]}", f"{waiting:6.0f} % {sent:8.1f}", arguments.ways[0]
    else:
        label, costs, first = f"torch {way[0]} x {way[1]}", f"{'-':>8} {'-':>8}", arguments.peer[0]
    line = f"{model:12} {label:30} {rates[way]:9,.0f} {rates[way] / rates[first]:8.2f} {costs}"
    if arguments.link and len(way) == 3 and way[0] > 1:
        line += f"   predicted {predicted(model, way, rates, arguments):9,.0f}"
    return line + (f" {rates[way] / rates[arguments.peer[0]]:8.2f}" if arguments.peer else "")


def ways_of(text, numbers):
    example = {2: "1x2,2x1", 3: "1x2x1,2x1x2"}[numbers]
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*(,[1-9]\d*(x[1-9]\d*)*)*", text):
        raise argparse.ArgumentTypeError(f"ways such as {example}; found {text}")
    ways = [tuple(int(n) for n in way.split("x")) for way in text.split(",")]
    if any(len(way) != numbers for way in ways):
        raise argparse.ArgumentTypeError(f"{numbers} numbers for each way, such as {example}; found {text}")
    return ways


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=24)
    parser.add_argument("--models", default="gpt,transformer")
    parser.add_argument("--ways", type=lambda text: ways_of(text, 3), default="1x2x1,1x2x2,2x1x2",
                        help="processes x threads x shards")
    parser.add_argument("--peer", type=lambda text: ways_of(text, 2), nargs="?", default=[], const="1x2,2x1",
                        metavar="WAYS", help="PyTorch too; processes x threads (1x2,2x1)")
    parser.add_argument("--link", type=float, metavar="GBITS", help="print what the model of docs/cluster.md predicts for a "
                        "link of so many Gbit/s; needs a way of one process, one shard and as many threads")
    parser.add_argument("--heed", default=str(peers.ROOT / "build" / "release" / "bin" / "heed"))
    parser.add_argument("--mpirun", default="mpirun -q --oversubscribe --bind-to none")
    arguments = parser.parse_args()
    if arguments.updates < 6:
        parser.error(f"--updates: at least 6; found {arguments.updates}")
    if arguments.link:
        arguments.memory = memory_speed()
        print(f"one core moves {arguments.memory / 1e9:.1f} GB/s")
    ways, log = [*arguments.ways, *arguments.peer], arguments.updates // 6
    python = peers.python_with_torch() if arguments.peer else None
    version = f"; PyTorch {peer_version(python)}" if arguments.peer else ""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    print(f"{cpu}, {len(os.sched_getaffinity(0))} cores; medians of {arguments.rounds} rounds{version}")
    print(f"{'model':12} {'processes x threads, shards':30} {'tokens/s':>9} {'of first':>8} {'waiting':>8} {'MB sent':>8}"
          + (f" {'of torch':>8}" if arguments.peer else ""))
    at_end = []
    with tempfile.TemporaryDirectory(prefix="heed-processes-") as name:
        folder = pathlib.Path(name)
        write_texts(folder)
        for model in arguments.models.split(","):
            results = {way: [] for way in ways}
            for _ in range(arguments.rounds):
                for way in arguments.ways:
                    results[way].append(train(arguments, folder, model, way, arguments.updates, log))
                for way in arguments.peer:
                    results[way].append(train_peer(python, folder, model, way, arguments.updates - log, log))
            at_end += weights_lines(folder, model, results, arguments)
            rates = {way: statistics.median(result[0] for result in results[way]) for way in ways}
            for way in ways:
                print(table_line(model, way, results, rates, arguments), flush=True)
    for line in at_end:
        print(line)


if __name__ == "__main__":
    main()
