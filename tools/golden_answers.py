#!/usr/bin/env python3
"""Writes tests/data/families/answers.json: what the models bert-answer and distilbert-answer answer.

    python3 -m venv build/venv-golden
    build/venv-golden/bin/pip install torch transformers
    build/venv-golden/bin/python tools/golden_answers.py

transformers 5 has no question-answering pipeline any more. Tokens, windows and words are those of its tokenizers, logits
those of its models; the spans are computed here as that pipeline computed them (softmax over passage and first token,
start * end, 15 tokens at most), but
that equal spans of two windows count once, with the larger score, and that no window cuts a word.
"""
import json
import pathlib
import sys
import tempfile

import numpy
import torch
import transformers

FAMILIES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "families"
# Those of tests/pipelines/hugging_face.h.
WORDS = ("[PAD] [UNK] [CLS] [SEP] [MASK] paris is the capital of france a query : ##s city").split()
QUESTIONS = ("the capital of France ?", "a city", "query : is the city of Paris")
PASSAGES = (
    "Paris is the capital of France",
    "the citys of France: a capital, a query",
    "Éa is a city of the paris of france. " * 6,
    "a capitals the query is of Paris; the citys " * 9 + "is the capitals",
    "a",
)
MOST = 24  # tokens that the models read
LONGEST = 15


def softmax(values):
    shares = numpy.exp(values - values.max())
    return shares / shares.sum()


def answers(model, tokenizer, question, passage, count):
    overlap = min(MOST // 2, 128)
    encoded = tokenizer(question, passage, truncation="only_second", max_length=MOST, stride=overlap,
                        return_overflowing_tokens=True, return_offsets_mapping=True)
    whole = tokenizer(passage)  # so that a word which a window cuts is a whole one
    none, found = 1.0, {}
    for i, ids in enumerate(encoded["input_ids"]):
        inputs = {"input_ids": torch.tensor([ids])}
        if model.config.model_type == "bert":
            inputs["token_type_ids"] = torch.tensor([encoded["token_type_ids"][i]])
        with torch.no_grad():
            logits = model(**inputs)
        allowed = numpy.array([sequence == 1 for sequence in encoded.sequence_ids(i)])
        counted = allowed.copy()
        counted[0] = True
        starts, ends = (numpy.where(counted, softmax(numpy.where(counted, x[0].double().numpy(), -1e4)), 0)
                        for x in (logits.start_logits, logits.end_logits))
        none = min(none, starts[0] * ends[0])
        starts, ends = starts * allowed, ends * allowed
        scores = numpy.tril(numpy.triu(numpy.outer(starts, ends)), LONGEST - 1)
        for place in numpy.argsort(-scores, axis=None, kind="stable")[:count]:
            first, last = numpy.unravel_index(place, scores.shape)
            if not allowed[first] or not allowed[last]:
                continue
            words = [whole.char_to_word(encoded["offset_mapping"][i][at][0]) for at in (first, last)]
            begin, end = whole.word_to_chars(words[0]).start, whole.word_to_chars(words[1]).end
            found[begin, end] = max(found.get((begin, end), 0), float(scores[first, last]))
    bytes_before = [len(passage[:at].encode()) for at in range(len(passage) + 1)]
    best = sorted(found.items(), key=lambda item: -item[1])
    return {"none": float(none),
            "answers": [{"text": passage[begin:end], "begin": bytes_before[begin], "end": bytes_before[end],
                         "score": score} for (begin, end), score in best[:count]],
            "windows": len(encoded["input_ids"])}


def main():
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = pathlib.Path(folder) / "vocab.txt"
        vocabulary.write_text("\n".join(WORDS) + "\n")
        tokenizer = transformers.BertTokenizer(vocab={word: i for i, word in enumerate(WORDS)})
        for name in ("bert-answer", "distilbert-answer"):
            model = transformers.AutoModelForQuestionAnswering.from_pretrained(FAMILIES / name).double().eval()
            for question in QUESTIONS:
                for passage in PASSAGES:
                    for count in (1, 4):
                        case = {"model": name, "question": question, "passage": passage, "count": count}
                        cases.append(case | answers(model, tokenizer, question, passage, count))
    (FAMILIES / "answers.json").write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")
    print(len(cases), "cases, windows:", sorted({case["windows"] for case in cases}))


if __name__ == "__main__":
    sys.exit(main())
