#!/usr/bin/env python3
"""Translation of a file by heed and by CTranslate2 with the same weights, alternating in one run.

The model is demo/en-zh; the lines are the distinct English sentences of demo/heldout.tsv. CTranslate2, SentencePiece and
NumPy come from PyPI into a virtual environment that this script makes (build/venv-translate); heed is the Python module of
build/release. CTranslate2 gets heed's weights through its own TransformerSpec. Both go from text to text in this process,
without scores; loading is not counted. With --by-program heed is the program, a new process each time that asks the system for its memory:
its time is that of a process that translates the lines less that of one that translates a single line.

Prints medians of sentences a second for f32 and int8, beam 5 and greedy, and each number of threads: CTranslate2's by the
faster of its two ways to use several threads ("side by side" where each translates a batch). Fails where the
greedy f32 translations are not the same text.

  make && bench/compare/translate.py [--rounds 5] [--threads 1 2] [--weights f32 int8] [--processor-time] [--by-program]
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VENV = ROOT / "build" / "venv-translate"
MODEL = ROOT / "demo" / "en-zh"
BEAMS = (5, 1)


def run_inside():
    """Runs this script again inside its virtual environment, which is made first where needed."""
    if sys.prefix == str(VENV):
        return
    python = VENV / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        check = subprocess.run([str(python), "-c", "import ctranslate2, numpy, sentencepiece"], capture_output=True)
        if check.returncode != 0:
            subprocess.run([str(python), "-m", "pip", "install", "-q", "ctranslate2", "numpy", "sentencepiece"], check=True)
    except subprocess.CalledProcessError:
        sys.exit(f"translate.py: CTranslate2 must install from PyPI into {VENV.relative_to(ROOT)}; see the messages above")
    modules = str(ROOT / "build" / "release" / "python")
    # Threads of CTranslate2 that wait do not take the cores from others that work.
    environment = dict(os.environ, PYTHONPATH=modules, OMP_WAIT_POLICY="passive")
    os.execve(str(python), [str(python), __file__, *sys.argv[1:]], environment)


def read_safetensors(path):
    import numpy

    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    types = {"F32": numpy.float32, "F16": numpy.float16}
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(data[8 + size + begin : 8 + size + end], types[entry["dtype"]])
        tensors[name] = values.astype(numpy.float32).reshape(entry["shape"])
    return tensors


def sinusoidal_positions(length, width):
    """sin and cos by turns, as in Vaswani et al. 2017, section 3.5."""
    import numpy

    angle = numpy.arange(length)[:, None] / 10000.0 ** (numpy.arange(0, width, 2) / width)
    return numpy.stack([numpy.sin(angle), numpy.cos(angle)], axis=2).reshape(length, width).astype(numpy.float32)


def convert(folder):
    """Writes MODEL in CTranslate2's format."""
    import ctranslate2
    import numpy
    import sentencepiece

    config = json.loads((MODEL / "config.json").read_text())
    weights = read_safetensors(MODEL / "model.safetensors")
    spec = ctranslate2.specs.TransformerSpec.from_config(
        (config["encoder_layers"], config["decoder_layers"]), config["heads"], pre_norm=False,
        activation=ctranslate2.specs.Activation.RELU)

    def linear(target, *names):
        target.weight = numpy.concatenate([weights[name + ".weight"] for name in names])
        target.bias = numpy.concatenate([weights[name + ".bias"] for name in names])

    def norm(target, name):
        target.gamma, target.beta = weights[name + ".gain"], weights[name + ".bias"]

    def attention(target, name, of_memory):
        query, key, value = (f"{name}.{part}" for part in ("query", "key", "value"))
        if of_memory:
            linear(target.linear[0], query)
            linear(target.linear[1], key, value)
        else:
            linear(target.linear[0], query, key, value)
        linear(target.linear[-1], name + ".output")
        norm(target.layer_norm, name + "_norm")

    def stack(target, name):
        for i, layer in enumerate(target.layer):
            path = f"{name}.layers.{i}"
            attention(layer.self_attention, path + ".self_attention", False)
            if name == "decoder":
                attention(layer.attention, path + ".cross_attention", True)
            linear(layer.ffn.linear_0, path + ".feed_forward.inner")
            linear(layer.ffn.linear_1, path + ".feed_forward.outer")
            norm(layer.ffn.layer_norm, path + ".feed_forward_norm")
        target.scale_embeddings = True
        target.position_encodings.encodings = sinusoidal_positions(config["max_length"], config["width"])

    stack(spec.encoder, "encoder")
    stack(spec.decoder, "decoder")
    spec.encoder.embeddings[0].weight = weights["encoder.embedding.tokens.weight"]
    spec.decoder.embeddings.weight = weights["decoder.embedding.tokens.weight"]
    spec.decoder.projection.weight = weights["decoder.embedding.tokens.weight"]
    for side, register in (("source", spec.register_source_vocabulary), ("target", spec.register_target_vocabulary)):
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(MODEL / f"{side}.model"))
        register([pieces.id_to_piece(i) for i in range(pieces.get_piece_size())])
        setattr(convert, side, pieces)
    spec.config.bos_token = convert.target.id_to_piece(config["begin_id"])
    spec.config.eos_token = convert.target.id_to_piece(config["end_id"])
    spec.config.unk_token = convert.target.id_to_piece(config["unknown_id"])
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config["norm_epsilon"]
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    return convert.source, convert.target


class Watch:
    """Seconds since it was made: by the clock, or of the processor, this process's or its children's."""

    processor_time = False

    def __init__(self, children=False):
        who = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
        self.now = (lambda: sum(resource.getrusage(who)[:2])) if Watch.processor_time else time.perf_counter
        self.began = self.now()

    def seconds(self):
        return self.now() - self.began


class Peer:
    """CTranslate2, loaded once for each number of threads and type of weights.

    Several threads share each batch (intra_threads), or translate one each side by side (inter_threads).
    """

    # Source tokens in a batch, the fastest of 256 to 4,096 for it on Zen 4.
    batch_tokens = {("f32", 5): 1024, ("f32", 1): 4096, ("int8", 5): 512, ("int8", 1): 1024}

    def __init__(self, folder, tokenizers, side_by_side=False):
        self.folder, (self.source, self.target), self.side_by_side = str(folder), tokenizers, side_by_side
        self.loaded = {}

    def translate(self, lines, weights, beam, threads):
        """The translations and the seconds they took."""
        import ctranslate2

        key = weights, threads
        if key not in self.loaded:
            kind = {"f32": "float32", "int8": "int8_float32"}[weights]
            ways = {"inter_threads": threads, "intra_threads": 1} if self.side_by_side else {"intra_threads": threads}
            self.loaded[key] = ctranslate2.Translator(self.folder, compute_type=kind, **ways)
        watch = Watch()
        pieces = self.source.encode(lines, out_type=str)
        results = self.loaded[key].translate_batch(pieces, beam_size=beam, max_batch_size=self.batch_tokens[weights, beam],
                                                   batch_type="tokens", max_decoding_length=127)
        # SentencePiece writes " ⁇ " for the unknown token, heed nothing.
        known = [[piece for piece in result.hypotheses[0] if piece != "<unk>"] for result in results]
        texts = self.target.decode(known)
        return texts, watch.seconds()


class Module:
    """heed in this process, loaded once for each type of weights."""

    def __init__(self):
        self.loaded = {}

    def translate(self, lines, weights, beam, threads):
        import heed

        heed.set_num_threads(threads)
        if weights not in self.loaded:
            self.loaded[weights] = heed.load(MODEL, weights={"f32": "float32", "int8": "int8"}[weights])
        watch = Watch()
        texts = [best[0].text for best in self.loaded[weights].translate(lines, beam=beam, scores=False)]
        return texts, watch.seconds()


class Program:
    """heed as a process of its own."""

    def __init__(self, program):
        self.program = program

    def process(self, text, weights, beam, threads):
        command = [self.program, "translate", str(MODEL), "--beam", str(beam), "--threads", str(threads)]
        if weights != "f32":
            command += ["--weights", weights]
        watch = Watch(children=True)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return done.stdout.splitlines(), watch.seconds()

    def translate(self, lines, weights, beam, threads):
        texts, all_lines = self.process("\n".join(lines) + "\n", weights, beam, threads)
        _, one_line = self.process(lines[0] + "\n", weights, beam, threads)
        return texts, all_lines - one_line


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--weights", nargs="+", choices=["f32", "int8"], default=["f32", "int8"])
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "bin" / "heed"))
    parser.add_argument("--by-program", action="store_true", help="heed as a new process each time")
    parser.add_argument("--processor-time", action="store_true", help="not the clock, where others use the machine")
    arguments = parser.parse_args()
    run_inside()
    Watch.processor_time = arguments.processor_time

    rows = [line.split("\t")[0] for line in (ROOT / "demo" / "heldout.tsv").read_text().splitlines()]
    lines = list(dict.fromkeys(rows))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        tokenizers = convert(folder)
        one_batch, side_by_side = Peer(folder, tokenizers), Peer(folder, tokenizers, True)
        heed = Program(arguments.program) if arguments.by_program else Module()
        print("| weights | search | threads | heed | CTranslate2 | ratio |")
        print("| --- | --- | --- | --- | --- | --- |")
        for weights in arguments.weights:
            for beam in BEAMS:
                for threads in arguments.threads:
                    peers = (one_batch, side_by_side) if threads > 1 else (one_batch,)
                    times = {side: [] for side in (heed, *peers)}
                    texts = {}
                    for side in times:
                        side.translate(lines[:8], weights, beam, threads)  # loads
                    for _ in range(arguments.rounds):
                        for side in times:
                            texts[side], seconds = side.translate(lines, weights, beam, threads)
                            times[side].append(seconds)
                    speeds = {side: len(lines) / statistics.median(times[side]) for side in times}
                    peer = max(peers, key=speeds.get)
                    ours, theirs = speeds[heed], speeds[peer]
                    print(f"| {weights} | {'greedy' if beam == 1 else f'beam {beam}'} | {threads} | {ours:.0f} | "
                          f"{theirs:.0f}{' side by side' if peer is side_by_side else ''} | **{ours / theirs:.2f}** |", flush=True)
                    differing = sum(a != b for a, b in zip(texts[heed], texts[peer]))
                    if weights == "f32" and beam == 1 and differing > 0:
                        sys.exit(f"translate.py: {differing} of {len(lines)} greedy translations differ, for example "
                                 f"{next((a, b) for a, b in zip(texts[heed], texts[peer]) if a != b)}")


if __name__ == "__main__":
    main()
