#!/usr/bin/env python3
"""Measures how much memory `heed train` takes for a text that is larger than it: run by hand.

    tools/measure_token_cache.py build/release/bin/heed --megabytes 10000 --task translation --folder /tmp/big

Writes a text of that size into the folder (once), trains a small model on it for some updates, twice: the first run fills the
token cache, the second one reads it. Prints for each step of both runs the seconds, the largest resident memory, and how
much of it is the process's own (the rest are pages of mapped files, which the system may drop). Ends with 1 where the
resident memory was above --limit megabytes. The files stay in the folder.
"""
import argparse
import pathlib
import random
import subprocess
import sys
import threading
import time

TASKS = ("translation", "language_model", "masked_language_model")


def write_text(file, megabytes, seed):
    """Lines of 3 to 25 words, drawn from 50,000 words with Zipf's law. 64 MB of them are repeated one after the other."""
    if file.exists() and file.stat().st_size >= megabytes * 10**6:
        return
    draw = random.Random(seed)
    words = ["".join(draw.choices("etaoinshrdlucmfwypvbgk", k=draw.randint(1, 9))) for _ in range(50000)]
    weights = [1 / (rank + 2) for rank in range(len(words))]
    blocks = []
    for _ in range(max(1, min(64, megabytes))):
        drawn = iter(draw.choices(words, weights, k=260000))
        lines, size = [], 0
        while size < 10**6:
            # The same number of words a line in every text, so that sources and targets have as many lines.
            line = " ".join(next(drawn) for _ in range(3 + (len(lines) * 7919) % 23))
            lines.append(line)
            size = len(lines) * 75
        blocks.append("\n".join(lines).encode() + b"\n")
    with open(file, "wb") as out:
        for number in range(megabytes):
            out.write(blocks[number % len(blocks)])


class Memory(threading.Thread):
    """Samples the memory of a process; a step begins where mark() is called."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.steps = process, []
        self.mark("start")

    def mark(self, name):
        self.steps.append({"name": name, "begin": time.time(), "end": time.time(), "all": 0, "own": 0})

    def run(self):
        while self.process.poll() is None:
            try:
                with open(f"/proc/{self.process.pid}/status") as status:
                    fields = dict(line.split(":", 1) for line in status)
                step = self.steps[-1]
                step["end"] = time.time()
                step["all"] = max(step["all"], int(fields["VmRSS"].split()[0]) / 1000)
                step["own"] = max(step["own"], int(fields["RssAnon"].split()[0]) / 1000)
            except (OSError, KeyError, ValueError):
                pass
            time.sleep(0.05)


def train(command, name):
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    memory = Memory(process)
    memory.start()
    for line in process.stderr:
        print("   ", line.rstrip(), flush=True)
        if "reused" in line:
            memory.mark("after the tokens are there")
    if process.wait() != 0:
        sys.exit(f"{name}: {' '.join(command)} ended with {process.returncode}")
    memory.join()
    for step in memory.steps:
        print(f"{name}, {step['name']}: {step['end'] - step['begin']:.0f} s, {step['all']:.0f} MB resident, "
              f"{step['own']:.0f} MB own", flush=True)
    return max(step["all"] for step in memory.steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--megabytes", type=int, default=1000, help="of text, both sides together")
    parser.add_argument("--task", choices=TASKS, default="translation")
    parser.add_argument("--tokenizer", default="sentencepiece")
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--vocabulary-lines", type=int, default=100000)
    parser.add_argument("--batch-tokens", type=int, default=512)
    parser.add_argument("--limit", type=int, default=1000)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    sides = 2 if options.task == "translation" else 1
    texts = [options.folder / f"text-{options.megabytes}-{sides}-{side}.txt" for side in range(sides)]
    for side, text in enumerate(texts):
        write_text(text, options.megabytes // sides, side)
    name = f"{options.task}-{options.tokenizer}-{options.megabytes}"
    command = [options.program, "--threads", "2", "train", "--task", options.task, "--tokenizer", options.tokenizer,
               "--vocabulary", "4000", "--vocabulary-lines", str(options.vocabulary_lines), "--preset", "tiny",
               "--token-cache", str(options.folder / f"cache-{name}"), "--train-source", str(texts[0]),
               "--batch-tokens", str(options.batch_tokens), "--max-updates", str(options.updates), "--validate-every", str(options.updates),
               "--schedule.warmup", "5"]
    if sides == 2:
        command += ["--train-target", str(texts[1])]
    most = 0
    for run in ("first run", "second run"):
        folder = options.folder / f"model-{name}-{time.time_ns()}"
        most = max(most, train(command + ["--output", str(folder)], run))
    print(f"{name}: {most:.0f} MB resident at most, of {options.limit}")
    sys.exit(most > options.limit)


if __name__ == "__main__":
    main()
