#!/usr/bin/env python3
"""The same fine-tuning with heed and with PyTorch: losses, accuracies and times.

    make && python3 bench/compare/finetune.py ENCODER [--task TASK] [--updates N] [--threads N]

ENCODER is a folder of transformers or sentence-transformers. TASK is classification, pairs, masked or translation; all of
them by default. Both sides start from the same weights, read the same batches in the same order with the same tokens
masked, without dropout, with AdamW and the same learning rates, in f32. heed draws the new head of the classifier, and
transformers that of masked tokens where ENCODER has none; the translator is demo/en-zh as a Marian. The data is made from
demo/tatoeba-cmn-eng.tsv.gz: is an English sentence a question; which Chinese sentence belongs to an English one; hidden
tokens of English sentences; English to Chinese. The script makes a virtual environment of its own under build/.
"""
import argparse
import gzip
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGES = (("transformers", "transformers"), ("sentencepiece", "sentencepiece"))
TASKS = {"classification": "sequence_classification", "pairs": "sentence_embedding", "masked": "masked_language_model",
         "translation": "translation"}
COUNTS_NOT = -100  # a target that is none
BATCH, RATE, WARMUP, SEED, SCALE = 32, 5e-5, 10, 1, 20.0
MASK32 = 0xFFFFFFFF


# ---- The order of heed's batches: src/text/batch_order.cc ----


def philox(key, high, low):
    k0, k1 = key & MASK32, key >> 32
    c = [low & MASK32, low >> 32, high & MASK32, high >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & MASK32, (a >> 32) ^ c[3] ^ k1, a & MASK32]
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return c


def permutation(count, seed, stream):
    order = list(range(count))
    for i in range(count - 1, -1, -1):
        words = philox(seed, stream, i)
        pick = (((words[0] << 32) | words[1]) * (i + 1)) >> 64
        order[i], order[pick] = order[pick], order[i]
    return order


def batches_of_epoch(lengths, seed, epoch):
    order = sorted(permutation(len(lengths), seed, 2 * epoch), key=lambda index: lengths[index])
    cut = [order[i:i + BATCH] for i in range(0, len(order), BATCH)]
    return [cut[i] for i in permutation(len(cut), seed, 2 * epoch + 1)]


def learning_rate(update, updates):
    if update < WARMUP:
        return RATE * update / WARMUP
    done = (update - WARMUP) / (updates - WARMUP) if updates > WARMUP else 1.0
    return 0.5 * RATE * (1 + math.cos(math.pi * min(max(done, 0.0), 1.0)))


# ---- Data ----


def make_data(task, folder, lines):
    """Two files of tab-separated lines; of every ten lines one is for validation."""
    rows, seen = [], set()
    with gzip.open(ROOT / "demo" / "tatoeba-cmn-eng.tsv.gz", "rt", encoding="utf-8") as file:
        for line in file:
            english, chinese = line.split("\t")[:2]
            if task in ("pairs", "translation"):
                row, key = f"{english}\t{chinese}", english
            elif task == "masked":
                row, key = english, english
            else:
                mark, text = english[-1], "".join(c for c in english if c not in ".?!,\"").lower()
                if mark not in ".?" or not text:
                    continue
                row, key = f"{text}\t{'question' if mark == '?' else 'statement'}", text
            if key not in seen:
                seen.add(key)
                rows.append(row)
    step = max(1, len(rows) // lines)
    rows = rows[::step][:lines]
    files = folder / "train.tsv", folder / "valid.tsv"
    files[0].write_text("\n".join(row for i, row in enumerate(rows) if i % 10) + "\n", encoding="utf-8")
    files[1].write_text("\n".join(row for i, row in enumerate(rows) if i % 10 == 0) + "\n", encoding="utf-8")
    return files


def read_rows(file):
    return [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]


# ---- heed ----


def recipe_of(task, start, train, valid, updates, rate):
    recipe = {"task": TASKS[task], "from": str(start), "label_smoothing": 0.0, "batch_sentences": BATCH, "batch_tokens": 1000000,
              "max_tokens_per_sentence": 128, "max_updates": updates, "validate_every": updates, "log_every": 1,
              "seed": SEED, "adam": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01},
              "schedule": {"kind": "cosine", "peak": rate, "warmup": WARMUP},
              "model": {"dropout": 0.0, "attention_dropout": 0.0}}
    if task in ("classification", "masked"):
        return {**recipe, "train_source": str(train), "valid_source": str(valid)}
    columns = {}
    for kind, file in (("train", train), ("valid", valid)):
        for column, side in enumerate(("source", "target")):
            text = file.with_suffix(f".{side}")
            text.write_text("\n".join(row[column] for row in read_rows(file)) + "\n", encoding="utf-8")
            columns[f"{kind}_{side}"] = str(text)
    return {**recipe, **columns}


def run_heed(heed, recipe, folder, threads):
    file = folder.with_suffix(".json")
    file.write_text(json.dumps(recipe))
    subprocess.run([heed, "train", "--config", file, "--output", folder, "--threads", str(threads), "--quiet"], check=True)
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line for line in log if line["type"] == "train"], [line for line in log if line["type"] == "end"][-1]


# ---- PyTorch ----


def masked(ids, begin, seed, epoch, row, mask_id, vocabulary):
    """What heed hides of a sentence, and what is to be found there: src/train/data.cc."""
    import numpy

    def share(bits):
        return numpy.float32(bits >> 8) * numpy.float32(2.0**-24)

    def draw(place):
        return philox(seed, epoch, (row << 24) | place)

    def hide(place, words):
        targets[place] = ids[place]
        fate = share(words[1])
        if fate < numpy.float32(0.8):
            inputs[place] = mask_id
        elif fate < numpy.float32(0.9):
            inputs[place] = (words[2] * vocabulary) >> 32

    inputs, targets = list(ids), [COUNTS_NOT] * len(ids)
    count = len(ids) - 2 * begin  # as many behind as before
    for place in range(begin, begin + count):
        words = draw(place)
        if share(words[0]) < numpy.float32(0.15):
            hide(place, words)
    if all(target == COUNTS_NOT for target in targets):
        place = begin + draw(0)[3] % count
        hide(place, draw(place))
    return inputs, targets


class Peer:
    """The same model, batches and updates in PyTorch."""

    def __init__(self, task, start):
        import torch
        import transformers

        self.torch, self.task = torch, task
        kind = {"classification": transformers.AutoModelForSequenceClassification, "pairs": transformers.AutoModel,
                "masked": transformers.AutoModelForMaskedLM, "translation": transformers.AutoModelForSeq2SeqLM}[task]
        config = transformers.AutoConfig.from_pretrained(start)
        for key in list(vars(config)):
            if "dropout" in key and isinstance(getattr(config, key), float):
                setattr(config, key, 0.0)
        self.model = kind.from_pretrained(start, config=config, dtype=torch.float32)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(start)
        self.labels = config.label2id

    def ids(self, texts, target=False):
        return self.tokenizer(**{"text_target" if target else "text": texts}, truncation=True, max_length=128).input_ids

    def sides(self, rows):
        """The ids of each text of a row."""
        if self.task in ("classification", "masked"):
            return [self.ids([row[0] for row in rows])]
        return [self.ids([row[i] for row in rows], i == 1 and self.task == "translation") for i in range(2)]

    def lengths(self, rows):
        return [max(map(len, row)) for row in zip(*self.sides(rows))]

    def padded(self, ids, value):
        longest = max(map(len, ids))
        return self.torch.tensor([[*row, *[value] * (longest - len(row))] for row in ids])

    def texts(self, ids):
        return {"input_ids": self.padded(ids, self.tokenizer.pad_token_id),
                "attention_mask": self.padded([[1] * len(row) for row in ids], 0)}

    def batch(self, rows, chosen, seed, epoch):
        """What the model reads and the targets, made before the clock runs: heed has its tokens before it trains."""
        sides = self.sides([rows[i] for i in chosen])
        if self.task == "classification":
            return [self.texts(sides[0])], self.torch.tensor([self.labels[rows[i][1]] for i in chosen])
        if self.task == "pairs":
            return [self.texts(side) for side in sides], self.torch.arange(len(chosen))
        if self.task == "translation":
            return [self.texts(sides[0])], self.padded(sides[1], COUNTS_NOT)
        made = [masked(ids, 1, seed, epoch, row, self.tokenizer.mask_token_id, len(self.tokenizer))
                for row, ids in zip(chosen, sides[0])]
        inputs = {**self.texts(sides[0]), "input_ids": self.padded([m[0] for m in made], self.tokenizer.pad_token_id)}
        return [inputs], self.padded([m[1] for m in made], COUNTS_NOT)

    def vectors(self, inputs):
        states, mask = self.model(**inputs).last_hidden_state, inputs["attention_mask"].unsqueeze(-1).float()
        return self.torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)

    def logits(self, inputs, targets):
        if self.task == "pairs":
            return SCALE * self.vectors(inputs[0]) @ self.vectors(inputs[1]).T
        return self.model(**inputs[0], **({"labels": targets} if self.task == "translation" else {})).logits

    def loss(self, logits, targets, reduction="mean"):
        return self.torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=COUNTS_NOT,
                                                      reduction=reduction)

    def train(self, rows, updates):
        """Of each update its loss, how many targets it has, and its seconds."""
        torch = self.torch
        used = [value for name, value in self.model.named_parameters()
                if value.requires_grad and (self.task != "pairs" or "pooler" not in name)]
        optimizer = torch.optim.AdamW([{"params": [p for p in used if p.dim() == 2], "weight_decay": 0.01},
                                       {"params": [p for p in used if p.dim() != 2], "weight_decay": 0.0}],
                                      lr=RATE, betas=(0.9, 0.999), eps=1e-8)
        lengths, done, epoch, plan = self.lengths(rows), [], -1, []
        self.model.train()
        for update in range(1, updates + 1):
            if not plan:
                epoch += 1
                plan = batches_of_epoch(lengths, SEED, epoch)
            inputs, targets = self.batch(rows, plan.pop(0), SEED, epoch)
            begin = time.perf_counter()
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(update, updates)
            loss = self.loss(self.logits(inputs, targets), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seconds = time.perf_counter() - begin
            done.append((loss.item(), int((targets != COUNTS_NOT).sum()), seconds))
        return done

    def validate(self, rows):
        """The mean loss, and the share of right classes."""
        torch = self.torch
        self.model.eval()
        loss, right, count = 0.0, 0, 0
        with torch.no_grad():
            for chosen in batches_of_epoch(self.lengths(rows), 0, 0):
                inputs, targets = self.batch(rows, chosen, 0, 0)
                logits = self.logits(inputs, targets)
                loss += self.loss(logits, targets, "sum").item()
                right += int((logits.argmax(-1) == targets).sum())
                count += int((targets != COUNTS_NOT).sum())
        return loss / count, right / count


def start_of(task, options, train, valid, folder):
    """The folder that both sides start from."""
    if task == "translation":
        subprocess.run([options.heed, "convert", ROOT / "demo" / "en-zh", folder / "start", "--layout", "huggingface"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elif task == "classification":  # the new head, with weights that no update has changed
        run_heed(options.heed, recipe_of(task, options.encoder, train, valid, 1, 1e-30), folder / "start", options.threads)
    elif task == "masked":
        import torch
        import transformers

        torch.manual_seed(SEED)
        transformers.AutoModelForMaskedLM.from_pretrained(options.encoder, dtype=torch.float32).save_pretrained(folder / "start")
        transformers.AutoTokenizer.from_pretrained(options.encoder).save_pretrained(folder / "start")
    else:
        return options.encoder
    return folder / "start"


def compare(task, options, folder):
    train, valid = make_data(task, folder, options.lines)
    start = start_of(task, options, train, valid, folder)
    lines, end = run_heed(options.heed, recipe_of(task, start, train, valid, options.updates, RATE), folder / "heed",
                          options.threads)
    peer = Peer(task, start)
    done = peer.train(read_rows(train), options.updates)
    losses, peer_losses = [line["loss"] for line in lines], [loss for loss, _, _ in done]
    seconds = sum(count / line["tokens_per_second"] for line, (_, count, _) in zip(lines, done))
    peer_seconds = sum(seconds for _, _, seconds in done)
    peer_loss, accuracy = peer.validate(read_rows(valid))
    print(f"{task}: {options.updates} updates of {BATCH}, {options.threads} threads\n")
    print("| update | loss, heed | loss, PyTorch |\n| --- | --- | --- |")
    for update in sorted({1, 2, 5, 10, 20, 50, 100, 200, options.updates}):
        if update <= options.updates:
            print(f"| {update} | {losses[update - 1]:.4f} | {peer_losses[update - 1]:.4f} |")
    print(f"| validation | {end['loss']:.4f} | {peer_loss:.4f} |")
    if "accuracy" in end:
        print(f"| accuracy | {end['accuracy']:.4f} | {accuracy:.4f} |")
    print(f"| seconds | {seconds:.1f} | {peer_seconds:.1f} |")
    print(f"\nlargest difference of a loss: {max(abs(a - b) for a, b in zip(losses, peer_losses)):.1e}\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", type=pathlib.Path)
    parser.add_argument("--task", choices=tuple(TASKS), action="append")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--lines", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--heed", default=str(ROOT / "build" / "release" / "bin" / "heed"))
    parser.add_argument("--here", action="store_true", help="this Python has torch and transformers already")
    options = parser.parse_args()
    if not options.here:
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
        import peers

        peers.run_inside(__file__, PACKAGES)
    sys.path = [path for path in sys.path if pathlib.Path(path).resolve() != pathlib.Path(__file__).resolve().parent]
    import torch  # transformers.py is a neighbour of this file

    torch.set_num_threads(options.threads)
    for task in options.task or TASKS:
        with tempfile.TemporaryDirectory() as folder:
            compare(task, options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
