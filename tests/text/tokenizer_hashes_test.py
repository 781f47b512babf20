#!/usr/bin/env python3
"""Compares the ids that heed gives 100,000 random texts with those of PyPI's `tokenizers`, by their hash.

    tests/text/tokenizer_hashes_test.py build/release/bin/heed

bench/compare/huggingface_tokenizers.py --write has made the hashes (tests/data/tokenizers/hashes.json); where they differ,
it shows the texts (SHOW=1).
"""
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

from random_texts import random_texts

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "tokenizers"


def hash_of_ids(heed, file, texts):
    made = subprocess.run([heed, "tokenize", str(file), "--input", texts, "--json-input", "--parse-special", "--quiet"],
                          check=True, capture_output=True)
    digest = hashlib.sha256()
    for line in made.stdout.split(b"\n")[:-1]:  # "2 5 6" becomes "[2, 5, 6]", as json.dumps writes it
        digest.update(b"[" + line.replace(b" ", b", ") + b"]")
    return digest.hexdigest()


def main(heed):
    expected = json.loads((DATA / "hashes.json").read_text())
    texts = random_texts(expected["count"], expected["seed"])
    if hashlib.sha256(json.dumps(texts).encode()).hexdigest() != expected["texts"]:
        return "tokenizer_hashes_test: this Python draws other random numbers than the one that made hashes.json"
    wrong = []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as lines:
        lines.write("".join(json.dumps(text) + "\n" for text in texts))
        lines.flush()
        for name, digest in expected["ids"].items():
            if hash_of_ids(heed, DATA / name, lines.name) != digest:
                wrong.append(name)
    if wrong:
        return f"tokenizer_hashes_test: other ids than those of tokenizers {expected['tokenizers']}: {', '.join(wrong)}"
    print(f"{expected['count']} texts, {len(expected['ids'])} tokenizers: the ids of tokenizers {expected['tokenizers']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
