#!/usr/bin/env python3
"""Vectors of sentences by heed and by its peers with the same model, alternating in one run.

    python3 -m venv venv && venv/bin/pip install sentence-transformers onnx onnxscript onnxruntime openvino nncf
    make && venv/bin/python bench/compare/embed.py FOLDER [--rounds 5] [--threads 1 2] [--weights f32] [--processor-time]

FOLDER is a model such as sentence-transformers/all-MiniLM-L6-v2. The peers are sentence-transformers on PyTorch, and,
where they are installed, ONNX Runtime and OpenVINO, which get the model as PyTorch exports it. With `--weights int8` the
peers are ONNX Runtime with its dynamic quantisation, and OpenVINO in two ways. For both, NNCF quantises the model; the
ranges of the inputs come from other texts, or OpenVINO finds them while it runs. The short texts are the distinct English
sentences of demo/heldout.tsv; the long ones are pieces of 110 words of tests/data/text/the-verdict.txt, cut to 128
tokens. All go from text to vectors. Loading is not counted: heed's time is that of a process that embeds the lines four times
less that of one that embeds a single line, and each peer embeds all lines once before it is timed. The peers sort texts by
length, as heed does, and get the best of three batch sizes.

Prints medians of texts a second for each number of threads; the smallest and the mean cosine with the vectors of PyTorch
in f32, for each peer and for heed; and heed's largest deviation. Fails where a cosine of heed is below 0.99999 (int8: the
mean below 0.999).
"""
import argparse
import contextlib
import gzip
import io
import logging
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
REPEATS = 4  # so often heed's process embeds the lines: loading, which is subtracted, is then a small part of its time
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def short_texts():
    lines = (ROOT / "demo/heldout.tsv").read_text(encoding="utf-8").splitlines()
    return list(dict.fromkeys(line.split("\t")[0] for line in lines))


def long_texts():
    words = (ROOT / "tests/data/text/the-verdict.txt").read_text(encoding="utf-8").split()
    return [" ".join(words[i:i + 110]) for i in range(0, len(words) - 110, 25)]


def calibration_texts():
    """300 texts that are not measured: half are sentences of the demo's training data, half pieces of Shakespeare."""
    measured = set(short_texts())
    with gzip.open(ROOT / "demo/tatoeba-cmn-eng.tsv.gz", "rt", encoding="utf-8") as file:
        sentences = [line for line in dict.fromkeys(row.split("\t")[0] for row in file) if line not in measured]
    words = (ROOT / "tests/data/text/tinyshakespeare.txt").read_text(encoding="utf-8").split()
    begins = range(0, len(words) - 110, len(words) // 150)
    return sentences[::len(sentences) // 150][:150] + [" ".join(words[i:i + 110]) for i in begins[:150]]


class Watch:
    """Seconds since it was made: by the clock, or of the processor, this process's or its children's."""

    def __init__(self, args, children=False):
        who = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
        used = lambda: sum(resource.getrusage(who)[:2])
        self.now = used if args.processor_time else time.perf_counter
        self.began = self.now()

    def seconds(self):
        return self.now() - self.began


def run_heed(args, model, lines, threads, folder):
    texts, vectors = folder / "lines.txt", folder / "vectors.npy"
    texts.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    watch = Watch(args, children=True)
    subprocess.run([args.heed, "embed", model, "--input", texts, "--output", vectors, "--threads", str(threads), "--quiet",
                    "--too-long", "cut", "--weights", args.weights], check=True, stderr=subprocess.DEVNULL)
    return watch.seconds(), vectors


class Exported:
    """The model without its pooling, run by another engine; tokens and pooling are sentence-transformers' own."""

    def __init__(self, peer, run):
        self.peer, self.run = peer, run

    def encode(self, lines, batch_size):
        import numpy
        import torch

        order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
        vectors = [None] * len(lines)
        for begin in range(0, len(order), batch_size):
            members = order[begin:begin + batch_size]
            tokens = self.peer.tokenizer([lines[i] for i in members], padding=True, truncation=True,
                                         max_length=self.peer.max_seq_length, return_tensors="np")
            mask = tokens["attention_mask"].astype("int64")
            states = self.run(tokens["input_ids"].astype("int64"), mask)
            features = {"token_embeddings": torch.from_numpy(states), "attention_mask": torch.from_numpy(mask)}
            for module in list(self.peer)[1:]:
                features = module(features)
            for i, vector in zip(members, features["sentence_embedding"].numpy()):
                vectors[i] = vector
        return numpy.stack(vectors)


class PyTorch:
    name = "PyTorch"

    def __init__(self, peer, _folder):
        self.peer = peer

    def with_threads(self, threads):
        import torch

        torch.set_num_threads(threads)
        return lambda lines, size: self.peer.encode(lines, batch_size=size, show_progress_bar=False)


def exportable(peer):
    """The states of the model as a function of ids and mask, and arguments to export it with."""
    import torch

    class States(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = list(peer)[0].auto_model

        def forward(self, ids, mask):
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    example = torch.ones((2, 16), dtype=torch.int64)
    return States().eval(), (example, example.clone())


class OnnxRuntime:
    name = "ONNX Runtime"

    def __init__(self, peer, folder):
        import onnxruntime
        import torch

        self.peer, self.path = peer, folder / "model.onnx"
        axes = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("length", min=2, max=512)}
        model, example = exportable(peer)
        with torch.no_grad(), contextlib.redirect_stdout(None), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, example, str(self.path), dynamo=True, dynamic_shapes=(axes, axes),
                              input_names=["ids", "mask"])
        self.runtime = onnxruntime

    def with_threads(self, threads):
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = threads
        session = self.runtime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        return Exported(self.peer, lambda ids, mask: session.run(None, {"ids": ids, "mask": mask})[0]).encode


class OnnxRuntimeInt8(OnnxRuntime):
    name = "ONNX Runtime int8"

    def __init__(self, peer, folder):
        super().__init__(peer, folder)
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantised = folder / "model-int8.onnx"
        quantize_dynamic(str(self.path), str(quantised), weight_type=QuantType.QInt8, per_channel=True,
                         extra_options={"DefaultTensorType": 1})
        self.path = quantised


class OpenVino:
    name = "OpenVINO"
    options = {}

    def __init__(self, peer, _folder):
        import openvino
        import torch

        model, example = exportable(peer)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = openvino.convert_model(model, example_input=example)
        self.peer, self.core = peer, openvino.Core()

    def with_threads(self, threads):
        compiled = self.core.compile_model(self.model, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
            **self.options})
        return Exported(self.peer, lambda ids, mask: compiled([ids, mask])[0].copy()).encode


class OpenVinoInt8(OpenVino):
    """Weights and inputs in int8. The range of each input is fixed: NNCF finds it on the calibration texts."""

    name = "OpenVINO int8"

    def __init__(self, peer, folder):
        import nncf

        super().__init__(peer, folder)
        texts = nncf.Dataset(calibration_texts(), self.inputs)
        with quiet(nncf):
            self.model = nncf.quantize(self.model, texts, model_type=nncf.ModelType.TRANSFORMER, subset_size=300)

    def inputs(self, text):
        tokens = self.peer.tokenizer([text], truncation=True, max_length=self.peer.max_seq_length, return_tensors="np")
        return [tokens["input_ids"].astype("int64"), tokens["attention_mask"].astype("int64")]


class OpenVinoDynamicInt8(OpenVino):
    """Weights in int8; OpenVINO quantises the inputs while it runs, 128 numbers of a row together.

    On Zen 4, 32 numbers (its default) are a fifth slower and a little more precise. A whole row is up to a tenth faster,
    but then OpenVINO with fixed ranges is faster and as precise.
    """

    name = "OpenVINO dynamic int8"
    options = {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 128}

    def __init__(self, peer, folder):
        import nncf

        super().__init__(peer, folder)
        with quiet(nncf):
            self.model = nncf.compress_weights(self.model, mode=nncf.CompressWeightsMode.INT8_SYM)


def quiet(nncf):
    """A context in which NNCF shows no progress."""
    nncf.set_log_level(logging.ERROR)
    return contextlib.redirect_stdout(io.StringIO())


INT8_PEERS = OnnxRuntimeInt8, OpenVinoInt8, OpenVinoDynamicInt8


def peers_of(weights, peer, folder):
    found = []
    for kind in INT8_PEERS if weights == "int8" else (PyTorch, OnnxRuntime, OpenVino):
        try:
            found.append(kind(peer, folder))
        except ImportError as error:
            print(f"without {kind.name}: {error}")
    return found


def cosines(made, wanted):
    import numpy

    product = (made.astype("f8") * wanted).sum(1)
    return product / numpy.linalg.norm(made, axis=1) / numpy.linalg.norm(wanted, axis=1)


def compare(args, peer, peers, model, lines, kind, threads, folder):
    """Prints a line for each peer; returns the cosine that counts."""
    import numpy
    import torch

    torch.set_num_threads(threads)  # pooling is PyTorch's in every peer
    encoders = {p.name: p.with_threads(threads) for p in peers}
    loading, taken, theirs = [], [], {(name, size): [] for name in encoders for size in (16, 32, 128)}
    vectors_of = {(name, size): encoders[name](lines, size) for name, size in theirs}  # prepares for the batches' shapes
    for _ in range(args.rounds):
        time.sleep(1)  # until the peers' threads sleep, too: they spin for a while after their work
        loading.append(run_heed(args, model, lines[:1], threads, folder)[0])
        seconds, vectors = run_heed(args, model, lines * REPEATS, threads, folder)
        taken.append(seconds)
        for (name, size), rates in theirs.items():
            watch = Watch(args)
            encoders[name](lines, size)
            rates.append(len(lines) / watch.seconds())
    wanted = peer.encode(lines, show_progress_bar=False)
    made = numpy.load(vectors)[:len(lines)]
    found = cosines(made, wanted)
    rate = (REPEATS * len(lines) - 1) / (statistics.median(taken) - statistics.median(loading))
    for name in encoders:
        best, size = max((statistics.median(rates), size) for (of, size), rates in theirs.items() if of == name)
        their = cosines(vectors_of[name, size], wanted)
        print(f"{kind:12}{threads} threads: heed {rate:.0f}, {name} {best:.0f}, ratio {rate / best:.2f}, its cosines from "
              f"{their.min():.5f}, mean {their.mean():.5f}", flush=True)
    print(f"{kind:12}{len(lines)} texts: heed's cosines from {found.min():.8f}, mean {found.mean():.8f}, largest deviation "
          f"{abs(made - wanted).max():.1e}", flush=True)
    return found.min() if args.weights == "f32" else found.mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--heed", default=str(ROOT / "build/release/bin/heed"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--weights", choices=["f32", "int8"], default="f32")
    parser.add_argument("--processor-time", action="store_true", help="not the clock, where others use the machine")
    args = parser.parse_args()

    sys.path.remove(str(pathlib.Path(__file__).resolve().parent))  # transformers.py is a neighbour of this file
    import sentence_transformers

    peer = sentence_transformers.SentenceTransformer(args.model, device="cpu")
    peer.max_seq_length = 128
    worst = 1.0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        peers = peers_of(args.weights, peer, folder)
        print(f"sentence-transformers {sentence_transformers.__version__} and {', '.join(p.name for p in peers)}; medians of "
              f"{args.rounds} rounds, texts a second")
        model = folder / "model"  # with the limit that the peer has
        model.mkdir()
        for path in pathlib.Path(args.model).iterdir():
            (model / path.name).symlink_to(path.resolve())
        (model / "sentence_bert_config.json").unlink(missing_ok=True)
        (model / "sentence_bert_config.json").write_text('{"max_seq_length": 128, "do_lower_case": false}')
        for kind, lines in (("short", short_texts()), ("128 tokens", long_texts())):
            for threads in args.threads:
                worst = min(worst, compare(args, peer, peers, model, lines, kind, threads, folder))
    return 0 if worst > (0.99999 if args.weights == "f32" else 0.999) else 1


if __name__ == "__main__":
    sys.exit(main())
