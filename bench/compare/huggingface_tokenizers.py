#!/usr/bin/env python3
"""heed's tokenizers beside PyPI's `tokenizers`: the same ids and spans on random texts, and the time on one thread.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python bench/compare/huggingface_tokenizers.py build/release/bin/heed tests/data/tokenizers/*.json --count 100000

Prints for each tokenizer.json how many texts are equal (ids, spans in bytes, segments and special masks), the hash of all
ids, and megabytes a second of both. heed's time is that of the program over a file, less that over an empty one; it
writes ids as text meanwhile. With --families, the time of texts of up to --largest MiB that are awkward for an
algorithm that is not linear. With --write, the hashes of PyPI's ids go to tests/data/tokenizers/hashes.json, which the
tests compare heed's with.
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer, __version__  # noqa: E402  (the variables come first)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "text"))
from random_texts import WORDS, random_texts  # noqa: E402
FAMILIES = {
    "spaces": " ", "one letter": "a", "line ends": "\n", "marks": "\u0301", "letters with marks": "a\u0301\u0323",
    "ideographs": "\u4f60", "emoji": "\U0001f600", "joined emoji": "\U0001f468\u200d", "Hangul jamo": "\u1100\u1161\u11a8",
    "words": "house ", "digits": "1", "punctuation": "!", "apostrophes": "'", "brackets": "[CLS", "angles": "<|",
    "meta spaces": "\u2581", "spaces and line ends": " \n", "zero width": "\u200b", "two letters": "ab", "controls": "\u0001",
}


def run_heed(heed, file, lines, *options):
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as texts:
        texts.write("".join(line + "\n" for line in lines))
        texts.flush()
        command = [heed, "tokenize", str(file), "--input", texts.name, "--threads", "1", "--quiet", *options]
        began = time.perf_counter()
        made = subprocess.run(command, check=True, capture_output=True)
        return made.stdout.decode().split("\n")[:-1], time.perf_counter() - began


def in_bytes(text, spans):
    places = [0]
    for character in text:
        places.append(places[-1] + len(character.encode()))
    return [[places[a], places[b]] for a, b in spans]


def compare(heed, file, texts):
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    lines, _ = run_heed(heed, file, [json.dumps(text) for text in texts], "--json-input", "--parse-special", "--json")
    equal, digest, their_digest = 0, hashlib.sha256(), hashlib.sha256()
    for text, line in zip(texts, lines, strict=True):
        ours, theirs = json.loads(line), tokenizer.encode(text)
        digest.update(json.dumps(ours["ids"]).encode())
        their_digest.update(json.dumps(theirs.ids).encode())
        same = ours["ids"] == theirs.ids and ours["spans"] == in_bytes(text, theirs.offsets)
        same = same and ours["special"] == theirs.special_tokens_mask and ours["segments"] == theirs.type_ids
        equal += same
        if not same and os.environ.get("SHOW"):
            print(repr(text), theirs.ids, ours["ids"], sep="\n  ")
    return equal, digest.hexdigest(), their_digest.hexdigest()


def speed(heed, file):
    lines = [" ".join(WORDS[i:i + 40]) for i in range(0, len(WORDS) - 40, 7)] * 40
    size = sum(len(line.encode()) for line in lines) / 1e6
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    theirs = ours = float("inf")
    for _ in range(3):  # turn by turn, so that both meet the same machine
        began = time.perf_counter()
        for i in range(0, len(lines), 1000):
            tokenizer.encode_batch_fast(lines[i:i + 1000])
        theirs = min(theirs, time.perf_counter() - began)
        ours = min(ours, run_heed(heed, file, lines)[1] - run_heed(heed, file, [])[1])
    return size / ours, size / theirs


def families(heed, file, largest):
    for name, unit in FAMILIES.items():
        row = []
        size = largest
        for mebibytes in (size / 16, size / 4, size):
            text = unit * int(mebibytes * 2**20 / len(unit.encode()))
            _, seconds = run_heed(heed, file, [json.dumps(text, ensure_ascii=False)], "--json-input")
            row.append(f"{seconds:8.2f}")
        print(f"  {name:22} {' '.join(row)} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--families", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--largest", type=float, default=64, help="MiB")
    options = parser.parse_args()
    print(f"tokenizers {__version__}, one thread; seed {options.seed}")
    texts = random_texts(options.count, options.seed)
    kept = {"tokenizers": __version__, "count": options.count, "seed": options.seed,
            "texts": hashlib.sha256(json.dumps(texts).encode()).hexdigest(), "ids": {}}
    for file in options.files:
        if options.families:
            print(f"{file.stem}: texts of 1/16, 1/4 and all of {options.largest:g} MiB")
            families(options.heed, file, options.largest)
            continue
        equal, digest, kept["ids"][file.name] = compare(options.heed, file, texts)
        ours, theirs = speed(options.heed, file)
        print(f"{file.stem:12} {equal} of {len(texts)} equal  sha256 {digest[:16]}  heed {ours:6.1f} MB/s  "
              f"tokenizers {theirs:6.1f} MB/s  {ours / theirs:5.1f} times", flush=True)
    if options.write:
        (ROOT / "tests/data/tokenizers/hashes.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
