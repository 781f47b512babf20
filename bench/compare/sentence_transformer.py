#!/usr/bin/env python3
"""heed.SentenceTransformer, or heed.CrossEncoder, beside sentence-transformers' own class: every argument of encode(), or of
predict() and rank(), and what stands around it.

    python3 -m venv venv && venv/bin/pip install sentence-transformers numpy
    make && PYTHONPATH=build/release/python venv/bin/python bench/compare/sentence_transformer.py FOLDER [--cross-encoder]

FOLDER is a model such as sentence-transformers/all-MiniLM-L6-v2, or a cross-encoder. The Python must be the one that
heed's module was built for.
Each line of the table is a call with the same arguments of both: equal types and shapes, and the largest deviation (of
quantised vectors: the share of numbers that differ, by one). Then the arguments that only one of the two knows. Fails above
1e-4 or 1 %.
"""
import argparse
import inspect
import os
import pathlib
import sys
import warnings

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def texts():
    lines = (ROOT / "demo/heldout.tsv").read_text(encoding="utf-8").splitlines()
    words = (ROOT / "tests/data/text/the-verdict.txt").read_text(encoding="utf-8")
    found = list(dict.fromkeys(line.split("\t")[0] for line in lines))[:150]
    return [*found, "", " ", "Ünïcödé 🙂 漢字", words[:5000], words[5000:5600]]


def numbers(result):
    import numpy as np

    return np.asarray(result)


def compare(ours, theirs):
    """The largest deviation, or the share of whole numbers that differ; infinite where types or shapes do."""
    import numpy as np

    if isinstance(theirs, dict):
        if set(ours) != set(theirs):
            return float("inf")
        return max(compare(ours[name], theirs[name]) for name in theirs)
    if type(ours) is not type(theirs):
        return float("inf")
    if isinstance(theirs, list):
        return max(map(compare, ours, theirs)) if len(ours) == len(theirs) else float("inf")
    a, b = numbers(ours), numbers(theirs)
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if a.dtype.kind in "iu":
        far = np.abs(a.astype(int) - b.astype(int)).max(initial=0)
        return float("inf") if far > 1 and a.dtype.itemsize > 1 else float((a != b).mean())
    return float(np.abs(a - b).max(initial=0))


def calls():
    many = texts()
    yield "encode(texts)", lambda m: m.encode(many)
    yield "encode(one text)", lambda m: m.encode(many[0])
    yield "encode([])", lambda m: m.encode([])
    yield "encode(sentences=...)", lambda m: m.encode(sentences=many)
    for name, options in {
        "batch_size=7": {"batch_size": 7},
        "prompt": {"prompt": "query: "},
        "convert_to_tensor": {"convert_to_tensor": True},
        "convert_to_numpy=False": {"convert_to_numpy": False},
        "normalize_embeddings": {"normalize_embeddings": True},
        "truncate_dim=100": {"truncate_dim": 100},
        "truncate_dim=100, normalize": {"truncate_dim": 100, "normalize_embeddings": True},
        "device=cpu": {"device": "cpu"},
        "show_progress_bar": {"show_progress_bar": True},
        "token_embeddings": {"output_value": "token_embeddings"},
        "precision=int8": {"precision": "int8"},
        "precision=uint8": {"precision": "uint8"},
        "precision=binary": {"precision": "binary"},
        "precision=ubinary": {"precision": "ubinary"},
        "precision=int8, tensor": {"precision": "int8", "convert_to_tensor": True},
    }.items():
        yield name, lambda m, options=options: m.encode(many, **options)
    yield "token_embeddings, one text", lambda m: m.encode(many[0], output_value="token_embeddings")
    yield "encode_query", lambda m: m.encode_query(many)
    yield "encode_document", lambda m: m.encode_document(many)
    yield "similarity", lambda m: m.similarity(m.encode(many[:9]), m.encode(many[9:20]))
    yield "similarity, one vector", lambda m: m.similarity(m.encode(many[0]), m.encode(many[9:20]))
    yield "similarity_pairwise", lambda m: m.similarity_pairwise(m.encode(many[:9]), m.encode(many[9:18]))
    names = ("input_ids", "attention_mask", "token_type_ids")  # (theirs has a "modality" too, which is "text")
    yield "tokenize", lambda m: {name: m.tokenize(many[:20])[name] for name in names}
    yield "max_seq_length", lambda m: [numbers(m.max_seq_length), numbers(m.get_max_seq_length())]
    yield "get_sentence_embedding_dimension", lambda m: [numbers(m.get_sentence_embedding_dimension())]

    def shorter(m):
        before, m.max_seq_length = m.max_seq_length, 16
        try:
            return m.encode(many)
        finally:
            m.max_seq_length = before

    yield "max_seq_length = 16", shorter


def cross_encoder_calls():
    import torch

    many = texts()
    pairs = list(zip(many, many[1:])) + [(many[-2], many[-1]), (many[3], many[-2])]
    yield "predict(pairs)", lambda m: m.predict(pairs)
    yield "predict(one pair)", lambda m: m.predict(pairs[0])
    yield "predict(one text)", lambda m: m.predict(many[0])
    yield "predict([])", lambda m: m.predict([])
    yield "predict(array)", lambda m: m.predict(np_array(pairs))
    yield "predict(sentences=...)", lambda m: m.predict(sentences=pairs)
    for name, options in {
        "batch_size=7": {"batch_size": 7},
        "prompt": {"prompt": "query: "},
        "activation_fn=Tanh": {"activation_fn": torch.nn.Tanh()},
        "activation_fn=Sigmoid": {"activation_fn": torch.nn.Sigmoid()},
        "apply_softmax": {"apply_softmax": True},
        "convert_to_tensor": {"convert_to_tensor": True},
        "convert_to_numpy=False": {"convert_to_numpy": False},
        "device=cpu": {"device": "cpu"},
        "show_progress_bar": {"show_progress_bar": True},
    }.items():
        yield name, lambda m, options=options: m.predict(pairs, **options)
    yield "first prompt by name", lambda m: m.predict(pairs, prompt_name=next(iter(m.prompts), None))
    yield "num_labels", lambda m: [numbers(m.num_labels), numbers(m.max_seq_length)]

    def shorter(m):
        before, m.max_seq_length = m.max_seq_length, 16
        try:
            return m.predict(pairs)
        finally:
            m.max_seq_length = before

    yield "max_seq_length = 16", shorter

    def ranked(m, **options):
        found = m.rank(many[0], many[1:40], **options)
        return [numbers([one[name] for one in found]) for name in ("corpus_id", "score")]

    def rank(m, **options):
        return ranked(m, **options) if m.num_labels == 1 else [numbers(0)]

    yield "rank", rank
    yield "rank, top_k=5", lambda m: rank(m, top_k=5)
    yield "rank, prompt, documents", lambda m: rank(m, prompt="query: ", return_documents=True)


def np_array(pairs):
    import numpy as np

    return np.array(pairs)


def differences(ours, theirs, name):
    known = [set(inspect.signature(getattr(c, name)).parameters) - {"self", "kwargs"} for c in (ours, theirs)]
    print(f"{name}(): arguments of theirs that heed's lacks: {', '.join(sorted(known[1] - known[0])) or 'none'}; of heed's "
          f"alone: {', '.join(sorted(known[0] - known[1])) or 'none'}")
    return known[1] - known[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--cross-encoder", action="store_true")
    args = parser.parse_args()
    sys.path.remove(str(pathlib.Path(__file__).resolve().parent))  # transformers.py is a neighbour of this file
    import sentence_transformers

    import heed

    warnings.simplefilter("ignore")
    print(f"sentence-transformers {sentence_transformers.__version__}, heed {heed.__version__}")
    kind = "CrossEncoder" if args.cross_encoder else "SentenceTransformer"
    peer = getattr(sentence_transformers, kind)(args.model, device="cpu")
    own = getattr(heed, kind)(args.model, device="cpu")
    failed = []
    for name, call in cross_encoder_calls() if args.cross_encoder else calls():
        found = compare(call(own), call(peer))
        bound = 0.01 if "precision" in name else 1e-4
        print(f"{name:34} {found:.1e}" + ("" if found <= bound else "  too far"))
        if not found <= bound:
            failed.append(name)
    for name in ("__init__", *(("predict", "rank") if args.cross_encoder else ("encode",))):
        if differences(getattr(heed, kind), getattr(sentence_transformers, kind), name):
            failed.append(name)
    sys.exit(f"different: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
