#!/usr/bin/env python3
"""Translation by heed and by CTranslate2 with a model of the size of OPUS-MT or of NLLB, alternating in one run.

    python3 -m venv venv && venv/bin/pip install torch transformers sentencepiece ctranslate2
    make && venv/bin/python bench/compare/translate_large.py [--rounds 3] [--threads 1 2] [--weights f32 int8]
    ... bench/compare/translate_large.py --nllb --lines 40

The model is a Marian of transformers with random weights: 6 + 6 layers, width 512, a vocabulary of 58,101 tokens that both
sides share, 77 million weights. With --nllb it is an M2M100 of the size of NLLB-200-distilled-600M: 12 + 12 layers, width
1,024, 256,206 tokens, 615 million weights in 2.5 GB; the comparison needs 12 GB of memory. Such a model never ends a
sentence, so each translation gets the same number of tokens (--tokens). The lines are the first distinct English sentences
of demo/heldout.tsv. CTranslate2 gets the folder through its own converter, and the fastest of its ways: batches of 512 or
2,048 tokens (of the larger model: 2,048), which all threads share, or one for each thread. Loading is not counted, nor is a
first translation of all lines.

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


def make_opus(folder):
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


LANGUAGES = {"eng_Latn": 256047, "zho_Hans": 256200}


def make_nllb(folder):
    """An M2M100 with random weights, and the words of the lines as tokens, with others that no text has."""
    import torch
    import transformers

    folder.mkdir()
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, **LANGUAGES}
    special = dict(vocabulary)
    rows = (line.split("\t")[0] for line in (ROOT / "demo" / "heldout.tsv").read_text().splitlines())
    words = iter(dict.fromkeys(word for row in rows for word in row.split()))
    for i in sorted(set(range(256206)) - set(vocabulary.values())):
        vocabulary[next(words, f"token{i}")] = i
    around = [{"SpecialToken": {"id": "eng_Latn", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    kinds = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "decoder": None,
        "added_tokens": [{"id": i, "content": token, **kinds} for token, i in sorted(special.items(), key=lambda x: x[1])],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {"type": "TemplateProcessing", "single": around, "pair": around, "special_tokens": {
            token: {"id": token, "ids": [special[token]], "tokens": [token]} for token in ("eng_Latn", "</s>")}},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "NllbTokenizer", "model_max_length": 1024}))
    torch.manual_seed(1)
    transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(
        vocab_size=256206, d_model=1024, encoder_layers=12, decoder_layers=12, encoder_attention_heads=16,
        decoder_attention_heads=16, encoder_ffn_dim=4096, decoder_ffn_dim=4096, max_position_embeddings=1024,
        scale_embedding=True, activation_function="relu", init_std=0.05)).save_pretrained(folder)


def convert(folder, to):
    """Through CTranslate2's own converter, which knows real tokenizers of NLLB only."""
    import ctranslate2
    import transformers

    if not is_nllb(folder):
        ctranslate2.converters.TransformersConverter(str(folder)).convert(str(to))
        return
    loader = ctranslate2.converters.transformers.M2M100Loader()
    spec = loader.get_model_spec(transformers.M2M100ForConditionalGeneration.from_pretrained(folder))
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(list(tokens))
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "<unk>"
    spec.config.decoder_start_token = "</s>"
    spec.validate()
    spec.optimize()
    to.mkdir()
    spec.save(str(to))


def is_nllb(folder):
    return (folder / "tokenizer.json").exists()


def target_of(folder):
    return "zho_Hans" if is_nllb(folder) else ""


class Heed:
    def __init__(self, folder, weights, threads):
        import heed

        self.heed, self.threads, self.target = heed, threads, target_of(folder)
        self.model = heed.load(folder, weights={"f32": "float32", "int8": "int8"}[weights])

    def translate(self, lines, beam, tokens):
        self.heed.set_num_threads(self.threads)
        self.model.translate(lines, beam=beam, max_length=tokens, scores=False, target_language=self.target)


class CTranslate2:
    def __init__(self, folder, weights, threads, batch, side_by_side):
        import ctranslate2

        self.batch, self.target = batch, target_of(folder)
        self.pieces = self.words if is_nllb(folder) else self.pieces_of(folder)
        self.model = ctranslate2.Translator(
            str(folder / "ctranslate2"), compute_type={"f32": "float32", "int8": "int8_float32"}[weights],
            inter_threads=threads if side_by_side else 1, intra_threads=1 if side_by_side else threads)

    def translate(self, lines, beam, tokens):
        self.model.translate_batch(self.pieces(lines), beam_size=beam, max_decoding_length=tokens,
                                   max_batch_size=self.batch, batch_type="tokens",
                                   target_prefix=[[self.target]] * len(lines) if self.target else None)

    @staticmethod
    def words(lines):
        return [["eng_Latn", *line.split(), "</s>"] for line in lines]

    @staticmethod
    def pieces_of(folder):
        import sentencepiece

        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
        return lambda lines: [line + ["</s>"] for line in model.encode(lines, out_type=str)]


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
    parser.add_argument("--nllb", action="store_true")
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
        (make_nllb if options.nllb else make_opus)(folder)
        convert(folder, folder / "ctranslate2")
        text = pathlib.Path(scratch) / "lines"
        text.write_text("".join(line + "\n" for line in lines))
        print("| weights | search | threads | heed | CTranslate2 | ratio | heed, MB | CTranslate2, MB |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for weights in options.weights:
            for threads in options.threads:
                batches = BATCHES[-1:] if options.nllb else BATCHES
                ways = [(batch, side_by_side) for batch in batches for side_by_side in ((0, 1) if threads > 1 else (0,))]
                sides = [Heed(folder, weights, threads), *(CTranslate2(folder, weights, threads, *way) for way in ways)]
                for beam in (5, 1):
                    for side in sides:  # the system gives a process its memory where it is first written
                        side.translate(lines, beam, options.tokens)
                    seconds = [[] for _ in sides]
                    for _ in range(options.rounds):
                        for side, times in zip(sides, seconds):
                            began = time.perf_counter()
                            side.translate(lines, beam, options.tokens)
                            times.append(time.perf_counter() - began)
                    speeds = [len(lines) / statistics.median(times) for times in seconds]
                    best = max(range(1, len(sides)), key=speeds.__getitem__)
                    ours = peak([PROGRAM, "translate", folder, "--weights", weights, "--beam", beam, "--threads", threads,
                                 "--max-length", options.tokens, "--input", text,
                                 *(["--target-language", target_of(folder)] if options.nllb else [])])
                    theirs = peak([sys.executable, __file__, "--lines", options.lines, "--tokens", options.tokens,
                                   "--peer-alone", folder, weights, beam, threads, *ways[best - 1]])
                    print(f"| {weights} | {'greedy' if beam == 1 else f'beam {beam}'} | {threads} | {speeds[0]:.1f} | "
                          f"{speeds[best]:.1f} | **{speeds[0] / speeds[best]:.2f}** | {ours / 1e6:.0f} | {theirs / 1e6:.0f} |",
                          flush=True)


if __name__ == "__main__":
    main()
