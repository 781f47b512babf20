#!/usr/bin/env python3
"""heed's tokenizers beside PyPI's `tokenizers`: the same ids and spans on random texts, and the time on one thread.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python bench/compare/huggingface_tokenizers.py build/release/bin/heed tests/data/tokenizers/*.json --count 100000

Prints for each tokenizer.json how many texts are equal (ids, spans in bytes, segments and special masks), the hash of all
ids, and megabytes a second of both. heed's time is that of the program over a file, less that over an empty one; it
writes ids as text meanwhile. With --families, the time of texts of up to --largest MiB that are awkward for an
algorithm that is not linear.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import subprocess
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer, __version__  # noqa: E402  (the variables come first)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORDS = (ROOT / "tests/data/text/the-verdict.txt").read_text(encoding="utf-8").split()
FAMILIES = {
    "spaces": " ", "one letter": "a", "line ends": "\n", "marks": "\u0301", "letters with marks": "a\u0301\u0323",
    "ideographs": "\u4f60", "emoji": "\U0001f600", "joined emoji": "\U0001f468\u200d", "Hangul jamo": "\u1100\u1161\u11a8",
    "words": "house ", "digits": "1", "punctuation": "!", "apostrophes": "'", "brackets": "[CLS", "angles": "<|",
    "meta spaces": "\u2581", "spaces and line ends": " \n", "zero width": "\u200b", "two letters": "ab", "controls": "\u0001",
}


def random_texts(count, seed):
    """Texts of all kinds of characters, words among them, and special tokens."""
    rng = random.Random(seed)

    def any_character():
        while True:
            c = rng.randrange(1, 0x110000)
            if not 0xd800 <= c < 0xe000:
                return chr(c)

    special = ["[CLS]", "[MASK]", "</s>", "<s>", "<mask>", "<|endoftext|>", " the", "ing", "newword", "   ", "'s", "'LL"]
    odd = "\u1100\u1161\u11a8\u200d\ufe0f\u0301\u0323\u0345\u200b\u2028\u0085\u00a0\u180e\ufeff\r\n\t \u2581\u017f"
    ranges = [(32, 127), (0xa0, 0x250), (0x300, 0x370), (0x370, 0x2000), (0x2000, 0x3100), (0x4e00, 0x9fff),
              (0xac00, 0xd7a4), (0x1f300, 0x1fb00)]
    kinds = [lambda r=r: chr(rng.randrange(*r)) for r in ranges]
    kinds += [any_character, lambda: rng.choice(odd), lambda: rng.choice(special), lambda: rng.choice("abcde etaoin  ")]

    def text():
        kind = rng.random()
        if kind < 0.3:
            return "".join(rng.choice(kinds)() for _ in range(rng.randrange(40)))
        if kind < 0.6:
            one = rng.choice(kinds)
            return "".join(one() for _ in range(rng.randrange(40)))
        words = [rng.choice(WORDS) for _ in range(rng.randrange(20))]
        for _ in range(3 if kind < 0.8 else 0):
            words.insert(rng.randrange(len(words) + 1), rng.choice(kinds)())
        return rng.choice([" ", " ", "", "  ", "\n"]).join(words)

    return [text() for _ in range(count)]


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
    equal, digest = 0, hashlib.sha256()
    for text, line in zip(texts, lines, strict=True):
        ours, theirs = json.loads(line), tokenizer.encode(text)
        digest.update(json.dumps(ours["ids"]).encode())
        same = ours["ids"] == theirs.ids and ours["spans"] == in_bytes(text, theirs.offsets)
        same = same and ours["special"] == theirs.special_tokens_mask and ours["segments"] == theirs.type_ids
        equal += same
        if not same and os.environ.get("SHOW"):
            print(repr(text), theirs.ids, ours["ids"], sep="\n  ")
    return equal, digest.hexdigest()


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
    parser.add_argument("--largest", type=float, default=64, help="MiB")
    options = parser.parse_args()
    print(f"tokenizers {__version__}, one thread; seed {options.seed}")
    texts = random_texts(options.count, options.seed)
    for file in options.files:
        if options.families:
            print(f"{file.stem}: texts of 1/16, 1/4 and all of {options.largest:g} MiB")
            families(options.heed, file, options.largest)
            continue
        equal, digest = compare(options.heed, file, texts)
        ours, theirs = speed(options.heed, file)
        print(f"{file.stem:12} {equal} of {len(texts)} equal  sha256 {digest[:16]}  heed {ours:6.1f} MB/s  "
              f"tokenizers {theirs:6.1f} MB/s  {ours / theirs:5.1f} times", flush=True)


if __name__ == "__main__":
    main()
