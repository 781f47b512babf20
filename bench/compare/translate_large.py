#!/usr/bin/env python3
"""Translation by heed and by CTranslate2 with a model of the size of OPUS-MT, alternating in one run.

    python3 -m venv venv && venv/bin/pip install torch transformers sentencepiece ctranslate2
    make && venv/bin/python bench/compare/translate_large.py [--rounds 3] [--threads 1 2] [--weights f32 int8]

The model is a Marian of transformers with random weights: 6 + 6 layers, width 512, a vocabulary of 58,101 tokens that both
sides share, 77 million weights. Such a model never ends a sentence, so each translation gets the same number of tokens
(--tokens). The lines are the first distinct English sentences of demo/heldout.tsv. CTranslate2 gets the folder through its
own converter, and the fastest of its ways: batches of 512 or 2,048 tokens, which all threads share, or one for each thread.
Loading is not counted.

Prints medians of sentences a second and their ratio, and the largest memory of a process that loads the model and
translates the lines. CTranslate2's process is Python with CTranslate2 and SentencePiece, heed's is the program.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.remove(str(pathlib.Path(__file__).resolve().parent))  # transformers.py is a neighbour of this file

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "demo" / "en-zh"
PROGRAM = ROOT / "build" / "release" / "bin" / "heed"
BATCHES = (512, 2048)
VOCABULARY = 58101


def make_model(folder):
    """A Marian with random weights, and the tokenizers of the demo with tokens that no text has."""
    import sentencepiece
    import torch
    import transformers

    folder.mkdir()
    pieces = ["</s>", "<unk>"]
    for ours, theirs in (("source.model", "source.spm"), ("target.model", "target.spm")):
        shutil.copy(DEMO / ours, folder / theirs)
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / theirs))
        usual = [i for i in range(model.vocab_size()) if not model.is_control(i) and not model.is_unknown(i)]
        pieces += [piece for piece in map(model.id_to_piece, usual)]
    pieces = list(dict.fromkeys(pieces))
    pieces += [f"token{i}" for i in range(VOCABULARY - 1 - len(pieces))] + ["<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer", "model_max_length": 512}))
    torch.manual_seed(1)
    padding = VOCABULARY - 1
    transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="swish",
        scale_embedding=True, max_position_embeddings=512, pad_token_id=padding, decoder_start_token_id=padding,
        eos_token_id=0, forced_eos_token_id=0, init_std=0.05)).save_pretrained(folder)


class Heed:
    def __init__(self, folder, weights, threads):
        import heed

        self.heed, self.threads = heed, threads
        self.model = heed.load(folder, weights={"f32": "float32", "int8": "int8"}[weights])

    def translate(self, lines, beam, tokens):
        self.heed.set_num_threads(self.threads)
        self.model.translate(lines, beam=beam, max_length=tokens, scores=False)


class CTranslate2:
    def __init__(self, folder, weights, threads, batch, side_by_side):
        import ctranslate2
        import sentencepiece

        self.batch = batch
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
        self.model = ctranslate2.Translator(
            str(folder / "ctranslate2"), compute_type={"f32": "float32", "int8": "int8_float32"}[weights],
            inter_threads=threads if side_by_side else 1, intra_threads=1 if side_by_side else threads)

    def translate(self, lines, beam, tokens):
        pieces = [line + ["</s>"] for line in self.pieces.encode(lines, out_type=str)]
        self.model.translate_batch(pieces, beam_size=beam, max_decoding_length=tokens, max_batch_size=self.batch,
                                   batch_type="tokens")


def peak(command, **more):
    """The largest memory of a process, in bytes: that of a child which waits for it alone."""
    code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)")
    return int(subprocess.run([sys.executable, "-c", code, *map(str, command)], check=True, capture_output=True, text=True,
                              **more).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--weights", nargs="+", choices=["f32", "int8"], default=["f32", "int8"])
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=16, help="of each translation")
    parser.add_argument("--peer-alone", nargs=6, help=argparse.SUPPRESS)  # FOLDER WEIGHTS BEAM THREADS BATCH SIDE_BY_SIDE
    options = parser.parse_args()
    rows = (line.split("\t")[0] for line in (ROOT / "demo" / "heldout.tsv").read_text().splitlines())
    lines = list(dict.fromkeys(rows))[: options.lines]
    if options.peer_alone:
        folder, weights, *numbers = options.peer_alone
        beam, threads, batch, side_by_side = map(int, numbers)
        CTranslate2(pathlib.Path(folder), weights, threads, batch, side_by_side).translate(lines, beam, options.tokens)
        return
    sys.path.insert(0, str(ROOT / "build" / "release" / "python"))
    os.environ["OMP_WAIT_POLICY"] = "passive"
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "model"
        make_model(folder)
        import ctranslate2

        ctranslate2.converters.TransformersConverter(str(folder)).convert(str(folder / "ctranslate2"))
        text = pathlib.Path(scratch) / "lines"
        text.write_text("".join(line + "\n" for line in lines))
        print("| weights | search | threads | heed | CTranslate2 | ratio | heed, MB | CTranslate2, MB |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for weights in options.weights:
            for threads in options.threads:
                ways = [(batch, side_by_side) for batch in BATCHES for side_by_side in ((0, 1) if threads > 1 else (0,))]
                sides = [Heed(folder, weights, threads), *(CTranslate2(folder, weights, threads, *way) for way in ways)]
                for beam in (5, 1):
                    seconds = [[] for _ in sides]
                    for _ in range(options.rounds):
                        for side, times in zip(sides, seconds):
                            began = time.perf_counter()
                            side.translate(lines, beam, options.tokens)
                            times.append(time.perf_counter() - began)
                    speeds = [len(lines) / statistics.median(times) for times in seconds]
                    best = max(range(1, len(sides)), key=speeds.__getitem__)
                    ours = peak([PROGRAM, "translate", folder, "--weights", weights, "--beam", beam, "--threads", threads,
                                 "--max-length", options.tokens, "--input", text])
                    theirs = peak([sys.executable, __file__, "--lines", options.lines, "--tokens", options.tokens,
                                   "--peer-alone", folder, weights, beam, threads, *ways[best - 1]])
                    print(f"| {weights} | {'greedy' if beam == 1 else f'beam {beam}'} | {threads} | {speeds[0]:.1f} | "
                          f"{speeds[best]:.1f} | **{speeds[0] / speeds[best]:.2f}** | {ours / 1e6:.0f} | {theirs / 1e6:.0f} |",
                          flush=True)


if __name__ == "__main__":
    main()
