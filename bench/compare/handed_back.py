#!/usr/bin/env python3
"""Encoders and decoders that heed trained, read by transformers: the same tokens, text and probabilities.

    python3 -m venv venv && venv/bin/pip install numpy torch transformers
    make && PYTHONPATH=build/release/python venv/bin/python bench/compare/handed_back.py [--texts 2000] [--seed 1]

Trains small encoders and decoders for a few steps, with each kind of tokenizer that heed makes, on the lines of
demo/heldout.tsv. `heed convert --layout huggingface` writes each in the layout of transformers, which opens the folder with
AutoTokenizer and AutoModel. Compared are the ids of texts (the lines, and random ones with characters that no model knows),
the text of these ids, and what comes of it: the probabilities of masked tokens, greedy text, vectors of texts, or scores of
classes; the same of demo/shakespeare. Prints a line for each model, and fails where one differs.
"""
import argparse
import functools
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.remove(str(pathlib.Path(__file__).resolve().parent))  # transformers.py is a neighbour of this file
os.environ["HF_HUB_OFFLINE"] = "1"

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = [(task, kind, language, "") for task in ("masked_language_model", "language_model")
          for kind, language in (("unigram", "en"), ("unigram", "zh"), ("bpe", "en"), ("bpe", "zh"), ("characters", "en"),
                                 ("pieces", "en"))]
# With other keys of the model than a BERT or a GPT-2 has.
MODELS += [(task, "characters", "en", keys) for task, keys in (
    ("masked_language_model", "positions=sinusoidal scale_embedding=true bias=false key_value_heads=2"),
    ("language_model", "positions=sinusoidal scale_embedding=true key_value_heads=1"),
    ("language_model", "positions=none bias=false tie_output=false"),
    ("language_model", "positions=alibi bias=false feed_forward=512"))]
PARTS = ["a", "e", "the", "中", "文", " ", "  ", "   ", "\t", "\n", "\u2581", "é", "e\u0301", "ﬁ", "①", "Ａ", "，", "。", "!", "😀",
         "\u200b", "\u00a0", "\u3000", "ZZ", "@@", " .", "x@@ ", "İ", "ß", "\ufeff", "aaaa", "eeee", "11", "2", "\\", '"']


def awkward(generator):
    return "".join(generator.choice(PARTS) for _ in range(generator.randrange(15)))


def make(heed, folder, task, kind, language, keys, corpus):
    name = "-".join([task, kind, language, *keys.split()])
    model, handed = folder / name, folder / f"{name}-transformers"
    subprocess.run([heed, "train", "--task", task, "--train-source", corpus[language], "--preset", "tiny", "--vocabulary", "2000",
                    "--tokenizer", "sentencepiece" if kind in ("unigram", "bpe") else kind, "--bpe",
                    "true" if kind == "bpe" else "false", "--max-updates", "20", "--quiet", "--output", model,
                    *(f"--model.{key}" for key in keys.split())], check=True)
    subprocess.run([heed, "convert", model, handed, "--layout", "huggingface", "--quiet"], check=True)
    return model, handed


def largest(numbers):
    """NaN where one of them is."""
    return functools.reduce(lambda most, number: number if number != number or number > most else most, numbers, 0.0)


def largest_difference(ours, theirs, text):
    """Of the probabilities of a masked token in the text."""
    import torch

    wanted = {guess.id: guess.probability for guess in ours.fill(text, count=100)[0]}
    tokenizer, model = theirs
    batch = tokenizer(text, return_tensors="pt")
    place = (batch["input_ids"][0] == tokenizer.mask_token_id).nonzero()[0, 0]
    with torch.no_grad():
        found = model(**batch).logits[0, place].softmax(-1)
    return largest(abs(found[i].item() - p) for i, p in wanted.items())


def greedy_texts(ours, handed, lines):
    """How many are the same, and the largest difference between the log-probabilities of their tokens."""
    import torch
    import transformers

    tokenizer, theirs = transformers.AutoTokenizer.from_pretrained(handed), transformers.AutoModelForCausalLM.from_pretrained(handed)
    same, differences = 0, []
    for line in lines:
        batch = tokenizer(line, return_tensors="pt")
        out = theirs.eval().generate(**batch, max_new_tokens=20, do_sample=False, output_logits=True, return_dict_in_generate=True)
        made = out.sequences[0, batch["input_ids"].shape[1] :]
        found = ours.generate(line, max_tokens=20, temperature=0)
        same += found.text.strip() == tokenizer.decode(made, skip_special_tokens=True).strip()
        for logits, token, log_prob in zip(out.logits, made, found.log_probs):
            differences.append(abs(torch.log_softmax(logits[0].double(), -1)[token].item() - log_prob))
    return same, largest(differences)


def further_trained(heed_program, folder, model, task, lines):
    """The masked language model, trained for a few steps to embed texts or to tell three classes apart, and handed over."""
    trained, handed = folder / task, folder / f"{task}-transformers"
    source = folder / f"{task}.txt"
    options = ["--train-source", source]
    if task == "sentence_embedding":
        (folder / "positives.txt").write_text("".join(line.lower() + "\n" for line in lines))
        options += ["--train-target", folder / "positives.txt"]
        source.write_text("".join(line + "\n" for line in lines))
    else:
        source.write_text("".join(f"{line}\t{'abc'[len(line) % 3]}\n" for line in lines))
    subprocess.run([heed_program, "train", "--task", task, "--from", model, *options, "--max-updates", "20", "--quiet", "--output",
                    trained], check=True)
    subprocess.run([heed_program, "convert", trained, handed, "--layout", "huggingface", "--quiet"], check=True)
    return trained, handed


def difference_of_vectors(ours, handed, lines):
    import numpy
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(handed)
    model = transformers.AutoModel.from_pretrained(handed).eval()
    with torch.no_grad():
        theirs = [model(**tokenizer(line, return_tensors="pt")).last_hidden_state[0].mean(0).numpy() for line in lines]
    return float(numpy.abs(ours.embed(lines) - numpy.array(theirs)).max())


def difference_of_scores(ours, handed, lines):
    import transformers

    classify = transformers.pipeline("text-classification", str(handed), top_k=None)
    differences = []
    for line, found in zip(lines, ours.classify(lines)):
        scores = dict(zip(ours.labels, found.scores))
        differences += [abs(scores[each["label"]] - each["score"]) for each in classify([line])[0]]
    return largest(differences)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--heed", default=ROOT / "build" / "release" / "bin" / "heed")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    import heed
    import transformers

    generator = random.Random(options.seed)
    rows = [line.split("\t") for line in (ROOT / "demo" / "heldout.tsv").read_text().splitlines()]
    texts = [text for row in rows[:500] for text in row[:2]] + [awkward(generator) for _ in range(options.texts)]
    all_equal = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        corpus = {language: folder / language for language in ("en", "zh")}
        for column, file in enumerate(corpus.values()):
            file.write_text("".join(row[column] + "\n" for row in rows))
        for task, kind, language, keys in MODELS:
            model, handed = make(options.heed, folder, task, kind, language, keys, corpus)
            ours, tokenizer = heed.load(model), transformers.AutoTokenizer.from_pretrained(handed)
            ids = ours.tokenizer.encode_batch(texts)
            equal = sum(list(ids[i].ids) == tokenizer(text)["input_ids"] for i, text in enumerate(texts))
            decoded = sum(ours.tokenizer.decode(each.ids) == tokenizer.decode(each.ids, skip_special_tokens=True) for each in ids)
            lines = [row[language == "zh"] for row in rows[500:520]]
            if task == "masked_language_model":
                theirs = transformers.AutoModelForMaskedLM.from_pretrained(handed).eval()
                masked = [line[: len(line) // 2] + "[MASK]" + line[len(line) // 2 :] for line in lines]
                worst = largest(largest_difference(ours, (tokenizer, theirs), text) for text in masked)
                again = heed.load(handed)  # by heed
                same = all(again.fill(text, count=100) == ours.fill(text, count=100) for text in masked)
                result, good = f"probabilities differ by {worst:.1e} at most", worst < 1e-4 and same
            else:
                same, worst = greedy_texts(ours, handed, lines)
                result = f"{same} of {len(lines)} greedy texts, their log-probabilities differ by {worst:.1e} at most"
                good = same == len(lines) and worst < 1e-4
            name = ", ".join(part for part in (task, kind, language, keys) if part)
            print(f"{name}: ids of {equal} and text of {decoded} of {len(texts)}; {result}", flush=True)
            all_equal &= good and equal == decoded == len(texts)
        shipped, handed = ROOT / "demo" / "shakespeare", folder / "shakespeare-transformers"
        subprocess.run([options.heed, "convert", shipped, handed, "--layout", "huggingface", "--quiet"], check=True)
        lines = ["ROMEO:", "To be, or not to be", "KING RICHARD III:\nMy lord", "What light", "Enter the"]
        same, worst = greedy_texts(heed.load(shipped), handed, lines)
        print(f"demo/shakespeare: {same} of {len(lines)} greedy texts, their log-probabilities differ by {worst:.1e} at most")
        all_equal &= same == len(lines) and worst < 1e-4
        model = folder / "masked_language_model-unigram-en"
        lines = [row[0] for row in rows[:200]]
        for task, compare in (("sentence_embedding", difference_of_vectors),
                              ("sequence_classification", difference_of_scores)):
            trained, handed = further_trained(options.heed, folder, model, task, lines)
            worst = compare(heed.load(trained), handed, [row[0] for row in rows[500:520]])
            print(f"{task}: numbers differ by {worst:.1e} at most", flush=True)
            all_equal &= worst < 1e-4
    sys.exit(not all_equal)


if __name__ == "__main__":
    main()
