#!/usr/bin/env python3
"""Vectors of sentences by heed and by sentence-transformers with the same model, alternating in one run.

    python3 -m venv venv && venv/bin/pip install sentence-transformers
    make && venv/bin/python bench/compare/embed.py FOLDER [--rounds 5] [--threads 1 2]

FOLDER is a model such as sentence-transformers/all-MiniLM-L6-v2. The short texts are the distinct English sentences of
demo/heldout.tsv; the long ones are pieces of 110 words of tests/data/text/the-verdict.txt, cut to 128 tokens. Both go from text
to vectors; loading is not counted: heed's time is that of a process that embeds the lines less that of one that embeds
a single line. sentence-transformers sorts texts by length, as heed does, and gets the best of three batch sizes.

Prints medians of texts a second for each number of threads, the smallest cosine between the two programs' vectors, and
the largest deviation, and fails where a cosine is below 0.99999.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def short_texts():
    lines = (ROOT / "demo/heldout.tsv").read_text(encoding="utf-8").splitlines()
    return list(dict.fromkeys(line.split("\t")[0] for line in lines))


def long_texts():
    words = (ROOT / "tests/data/text/the-verdict.txt").read_text(encoding="utf-8").split()
    return [" ".join(words[i:i + 110]) for i in range(0, len(words) - 110, 25)]


def run_heed(heed, model, lines, threads, weights, folder):
    texts, vectors = folder / "lines.txt", folder / "vectors.npy"
    texts.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    began = time.perf_counter()
    subprocess.run([heed, "embed", model, "--input", texts, "--output", vectors, "--threads", str(threads), "--quiet",
                    "--too-long", "cut", "--weights", weights], check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began, vectors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--heed", default=str(ROOT / "build/release/bin/heed"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--weights", default="f32")
    args = parser.parse_args()

    sys.path.remove(str(pathlib.Path(__file__).resolve().parent))  # transformers.py is a neighbour of this file
    import numpy
    import sentence_transformers
    import torch

    peer = sentence_transformers.SentenceTransformer(args.model, device="cpu")
    peer.max_seq_length = 128
    print(f"sentence-transformers {sentence_transformers.__version__}, PyTorch {torch.__version__}, medians of "
          f"{args.rounds} rounds, texts a second")
    worst = 1.0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = folder / "model"  # with the limit that the peer has
        model.mkdir()
        for path in pathlib.Path(args.model).iterdir():
            (model / path.name).symlink_to(path.resolve())
        (model / "sentence_bert_config.json").unlink(missing_ok=True)
        (model / "sentence_bert_config.json").write_text('{"max_seq_length": 128, "do_lower_case": false}')
        for kind, lines in (("short", short_texts()), ("128 tokens", long_texts())):
            for threads in args.threads:
                torch.set_num_threads(threads)
                ours, theirs = [], {size: [] for size in (16, 32, 128)}
                for _ in range(args.rounds):
                    loading, _ = run_heed(args.heed, model, lines[:1], threads, args.weights, folder)
                    taken, vectors = run_heed(args.heed, model, lines, threads, args.weights, folder)
                    ours.append((len(lines) - 1) / (taken - loading))
                    for size, rates in theirs.items():
                        began = time.perf_counter()
                        wanted = peer.encode(lines, batch_size=size, show_progress_bar=False)
                        rates.append(len(lines) / (time.perf_counter() - began))
                made = numpy.load(vectors)
                product = (made.astype("f8") * wanted).sum(1)
                cosines = product / numpy.linalg.norm(made, axis=1) / numpy.linalg.norm(wanted, axis=1)
                best = max(statistics.median(rates) for rates in theirs.values())
                rate = statistics.median(ours)
                print(f"{kind:12}{len(lines)} texts, {threads} threads: heed {rate:.0f}, sentence-transformers {best:.0f}, "
                      f"ratio {rate / best:.2f}; smallest cosine {cosines.min():.8f}, largest deviation "
                      f"{abs(made - wanted).max():.1e}", flush=True)
                worst = min(worst, cosines.min())
    return 0 if worst > 0.99999 or args.weights != "f32" else 1


if __name__ == "__main__":
    sys.exit(main())
