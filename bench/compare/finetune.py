#!/usr/bin/env python3
"""The same fine-tuning with heed and with PyTorch: losses, accuracies and times.

    make && python3 bench/compare/finetune.py ENCODER [--task classification|pairs] [--updates N] [--threads N]

ENCODER is a folder of transformers or sentence-transformers. Both sides start from the same weights (heed draws the new
head of the classifier), read the same batches in the same order, without dropout, with AdamW and the same learning rates,
in f32. The data is made from demo/tatoeba-cmn-eng.tsv.gz: is an English sentence a question; which Chinese sentence
belongs to an English one. The script makes a virtual environment of its own under build/.
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
PACKAGES = (("transformers", "transformers"),)
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
            if task == "pairs":
                row, key = f"{english}\t{chinese}", english
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
    name = "sequence_classification" if task == "classification" else "sentence_embedding"
    recipe = {"task": name, "from": str(start), "label_smoothing": 0.0, "batch_sentences": BATCH, "batch_tokens": 1000000,
              "max_tokens_per_sentence": 128, "max_updates": updates, "validate_every": updates, "log_every": 1,
              "seed": SEED, "adam": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01},
              "schedule": {"kind": "cosine", "peak": rate, "warmup": WARMUP},
              "model": {"dropout": 0.0, "attention_dropout": 0.0}}
    if task == "classification":
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
    train = [line for line in log if line["type"] == "train"]
    speed = [BATCH / line["tokens_per_second"] for line in train]  # seconds an update
    return [line["loss"] for line in train], [line for line in log if line["type"] == "end"][-1], sum(speed)


# ---- PyTorch ----


class Peer:
    """The same model, batches and updates in PyTorch."""

    def __init__(self, task, start):
        import torch
        import transformers

        self.torch, self.task = torch, task
        kind = transformers.AutoModelForSequenceClassification if task == "classification" else transformers.AutoModel
        config = transformers.AutoConfig.from_pretrained(start)
        for key in list(vars(config)):
            if "dropout" in key and isinstance(getattr(config, key), float):
                setattr(config, key, 0.0)
        self.model = kind.from_pretrained(start, config=config, dtype=torch.float32)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(start)
        self.labels = config.label2id

    def lengths(self, rows):
        texts = 1 if self.task == "classification" else 2
        ids = [self.tokenizer([row[i] for row in rows], truncation=True, max_length=128).input_ids for i in range(texts)]
        return [max(len(column[i]) for column in ids) for i in range(len(rows))]

    def inputs_of(self, rows):
        """What the model reads, made before the clock runs: heed has its tokens before it trains."""
        texts = range(1 if self.task == "classification" else 2)
        return [self.tokenizer([row[i] for row in rows], padding=True, truncation=True, max_length=128, return_tensors="pt")
                for i in texts]

    def vectors(self, inputs):
        states, mask = self.model(**inputs).last_hidden_state, inputs["attention_mask"].unsqueeze(-1).float()
        return self.torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)

    def logits_and_targets(self, rows, inputs):
        if self.task == "classification":
            return self.model(**inputs[0]).logits, self.torch.tensor([self.labels[row[1]] for row in rows])
        return SCALE * self.vectors(inputs[0]) @ self.vectors(inputs[1]).T, self.torch.arange(len(rows))

    def train(self, rows, updates):
        torch = self.torch
        used = [value for name, value in self.model.named_parameters() if self.task == "classification" or "pooler" not in name]
        optimizer = torch.optim.AdamW([{"params": [p for p in used if p.dim() == 2], "weight_decay": 0.01},
                                       {"params": [p for p in used if p.dim() != 2], "weight_decay": 0.0}],
                                      lr=RATE, betas=(0.9, 0.999), eps=1e-8)
        lengths, losses, epoch, plan, seconds = self.lengths(rows), [], 0, [], 0.0
        self.model.train()
        for update in range(1, updates + 1):
            if not plan:
                plan = batches_of_epoch(lengths, SEED, epoch)
                epoch += 1
            batch = [rows[i] for i in plan.pop(0)]
            inputs = self.inputs_of(batch)
            begin = time.perf_counter()
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(update, updates)
            logits, targets = self.logits_and_targets(batch, inputs)
            loss = torch.nn.functional.cross_entropy(logits, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seconds += time.perf_counter() - begin
            losses.append(loss.item())
        return losses, seconds

    def validate(self, rows):
        torch = self.torch
        self.model.eval()
        loss, right = 0.0, 0
        with torch.no_grad():
            for batch in batches_of_epoch(self.lengths(rows), 0, 0):
                chosen = [rows[i] for i in batch]
                logits, targets = self.logits_and_targets(chosen, self.inputs_of(chosen))
                loss += torch.nn.functional.cross_entropy(logits, targets, reduction="sum").item()
                right += int((logits.argmax(1) == targets).sum())
        return loss / len(rows), right / len(rows)


def compare(task, options, folder):
    train, valid = make_data(task, folder, options.lines)
    start = options.encoder
    if task == "classification":  # the new head, with weights that no update has changed
        run_heed(options.heed, recipe_of(task, start, train, valid, 1, 1e-30), folder / "start", options.threads)
        start = folder / "start"
    losses, end, seconds = run_heed(options.heed, recipe_of(task, start, train, valid, options.updates, RATE),
                                    folder / "heed", options.threads)
    peer = Peer(task, start)
    peer_losses, peer_seconds = peer.train(read_rows(train), options.updates)
    peer_loss, accuracy = peer.validate(read_rows(valid))
    print(f"{task}: {options.updates} updates of {BATCH}, {options.threads} threads\n")
    print("| update | loss, heed | loss, PyTorch |\n| --- | --- | --- |")
    for update in sorted({1, 2, 5, 10, 20, 50, 100, 200, options.updates}):
        if update <= options.updates:
            print(f"| {update} | {losses[update - 1]:.4f} | {peer_losses[update - 1]:.4f} |")
    print(f"| validation | {end['loss']:.4f} | {peer_loss:.4f} |")
    print(f"| accuracy | {end['accuracy']:.4f} | {accuracy:.4f} |")
    print(f"| seconds | {seconds:.1f} | {peer_seconds:.1f} |")
    print(f"\nlargest difference of a loss: {max(abs(a - b) for a, b in zip(losses, peer_losses)):.1e}\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", type=pathlib.Path)
    parser.add_argument("--task", choices=("classification", "pairs"), action="append")
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
    for task in options.task or ("classification", "pairs"):
        with tempfile.TemporaryDirectory() as folder:
            compare(task, options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
