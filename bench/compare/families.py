#!/usr/bin/env python3
"""What heed computes with folders of Hugging Face beside what transformers computes with them.

    python3 -m venv venv && venv/bin/pip install sentence-transformers sentencepiece
    make && venv/bin/python bench/compare/families.py FOLDER_OR_NAME ... [--text FILE]

Prints a row for each model: of encoders the smallest cosine and the largest deviation of the texts' vectors (by
modules.json where the folder has one, else the mean of the states), of classifiers the largest deviation of a probability,
of encoder-decoders how many greedy and beam-4 outputs are the same text. FILE has a text a line; without it, English
sentences of demo/sentences.txt. A cosine below 0.9999, a probability off by 1e-3 or a text that differs makes it fail.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.remove(str(pathlib.Path(__file__).resolve().parent))  # transformers.py is a neighbour of this file


def run_heed(heed, *arguments, lines):
    text = "".join(line + "\n" for line in lines)
    return subprocess.run([heed, *map(str, arguments)], input=text, capture_output=True, text=True, check=True).stdout


def vectors_of_transformers(folder, texts):
    import torch
    import transformers

    if (pathlib.Path(folder) / "modules.json").exists():
        import sentence_transformers

        return sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(texts)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    rows = []
    with torch.no_grad():
        for text in texts:  # one by one: no padding
            rows.append(model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(dim=0))
    return torch.stack(rows).numpy()


def compare_vectors(heed, folder, texts):
    import numpy

    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "vectors.npy"
        run_heed(heed, "embed", folder, "--output", file, lines=texts)
        ours = numpy.load(file)
    theirs = vectors_of_transformers(folder, texts)
    cosines = (ours * theirs).sum(1) / numpy.linalg.norm(ours, axis=1) / numpy.linalg.norm(theirs, axis=1)
    return f"cosine {cosines.min():.8f}, deviation {abs(ours - theirs).max():.1e}", cosines.min() >= 0.9999


def compare_classes(heed, folder, texts):
    import torch
    import transformers

    ours = [json.loads(line)["scores"] for line in run_heed(heed, "classify", folder, "--json", lines=texts).splitlines()]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    worst = 0.0
    with torch.no_grad():
        for text, scores in zip(texts, ours):
            logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
            wanted = logits.softmax(-1) if len(logits) > 1 else logits.sigmoid()
            found = torch.tensor([scores[label] for label in model.config.id2label.values()])
            worst = max(worst, float((found - wanted).abs().max()))
    return f"probability off by {worst:.1e} at most", worst < 1e-3


def compare_texts(heed, folder, texts):
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    same = {}
    for beam in (1, 4):
        ours = run_heed(heed, "translate", folder, "--beam", beam, "--max-length", 64, "--length-factor", 0,
                        lines=texts).splitlines()
        theirs = []
        with torch.no_grad():
            for text in texts:
                ids = model.generate(**tokenizer(text, return_tensors="pt"), num_beams=beam, max_new_tokens=64, do_sample=False)
                theirs.append(tokenizer.decode(ids[0], skip_special_tokens=True))
        same[beam] = sum(a.strip() == b.strip() for a, b in zip(ours, theirs))
    result = ", ".join(f"beam {beam}: {count} of {len(texts)} the same" for beam, count in same.items())
    return result, all(count == len(texts) for count in same.values())


def compare(heed, folder, texts):
    import transformers

    transformers.logging.set_verbosity_error()
    config = json.loads((pathlib.Path(folder) / "config.json").read_text(encoding="utf-8"))
    kind = (config.get("architectures") or [""])[0]
    if config.get("is_encoder_decoder") or "ConditionalGeneration" in kind:
        return compare_texts(heed, folder, texts)
    if kind.endswith("ForSequenceClassification"):
        return compare_classes(heed, folder, texts)
    return compare_vectors(heed, folder, texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="FOLDER_OR_NAME")
    parser.add_argument("--text", default=str(ROOT / "demo/sentences.txt"))
    parser.add_argument("--heed", default=str(ROOT / "build/release/bin/heed"))
    args = parser.parse_args()
    texts = [line for line in pathlib.Path(args.text).read_text(encoding="utf-8").splitlines() if line]
    failed = False
    for name in args.models:
        folder = name
        if not pathlib.Path(name).exists():
            import huggingface_hub

            folder = huggingface_hub.snapshot_download(name, local_files_only=True)
        result, good = compare(args.heed, folder, texts)
        failed |= not good
        print(f"{name:50} {result}{'' if good else '  <-- differs'}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
