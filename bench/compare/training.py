#!/usr/bin/env python3
"""Training steps of heed and of PyTorch, alternating in one run, on the same two models.

  gpt          6 layers, 6 heads, d 384, context 256, batch 12, vocabulary 65, no biases, tied output; AdamW
  transformer  nn.Transformer 3+3, d 256, 8 heads, ffn 1024, 64 pairs of 16+16 tokens, vocabulary 8,000, Adam

A step is forward, backward and optimizer; f32, or with --precision bf16 the matrix products in bf16: PyTorch under
torch.autocast, heed in ops::Precision::bf16 (weights, sums and the optimizer are f32 in both). PyTorch comes from PyPI into a virtual environment that this script makes
(build/venv-compare); heed is the program of build/release. Prints medians of target tokens a second and the ratio.

  make && bench/compare/training.py [--rounds 5] [--steps 4] [--threads 2] [--precision bf16]
"""
import argparse
import contextlib
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import peers

ROOT = peers.ROOT


# torch_gpt and torch_transformer return a model, a batch (tensors with a row for each sequence, the targets last), the
# loss of a model on a batch, and the optimizer.


def torch_gpt():
    """nanoGPT's model in the configuration above."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(d, bias=False), nn.LayerNorm(d, bias=False)
            self.qkv, self.project = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
            self.inner, self.outer = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)

        def forward(self, x):
            b, l, d = x.shape
            q, k, v = (t.view(b, l, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(d, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(y.transpose(1, 2).reshape(b, l, d))
            return x + self.outer(F.gelu(self.inner(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self, vocabulary=65, context=256, d=384, heads=6, layers=6):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
            self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
            self.norm = nn.LayerNorm(d, bias=False)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.norm(x) @ self.tokens.weight.T

    def loss(model, ids, targets):
        return F.cross_entropy(model(ids).view(-1, 65), targets.view(-1))

    model = Gpt()
    batch = torch.randint(0, 65, (12, 256)), torch.randint(0, 65, (12, 256))
    return model, batch, loss, torch.optim.AdamW(model.parameters(), lr=1e-3)


def torch_transformer():
    """nn.Transformer with embeddings and an output layer."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Transformer(nn.Module):
        def __init__(self, vocabulary=8000, d=256, length=16):
            super().__init__()
            self.body = nn.Transformer(d, 8, 3, 3, 1024, dropout=0.0, batch_first=True)
            self.source, self.target = nn.Embedding(vocabulary, d), nn.Embedding(vocabulary, d)
            self.output = nn.Linear(d, vocabulary, bias=False)
            self.mask = nn.Transformer.generate_square_subsequent_mask(length)

        def forward(self, source, target):
            return self.output(self.body(self.source(source), self.target(target), tgt_mask=self.mask, tgt_is_causal=True))

    def loss(model, source, target, labels):
        return F.cross_entropy(model(source, target).view(-1, 8000), labels.view(-1), label_smoothing=0.1)

    model = Transformer()
    batch = tuple(torch.randint(4, 8000, (64, 16)) for _ in range(3))
    return model, batch, loss, torch.optim.Adam(model.parameters(), lr=1e-3)


MODELS = {"gpt": torch_gpt, "transformer": torch_transformer}


def torch_step(model, batch, loss, optimizer, autocast=contextlib.nullcontext):
    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            value = loss(model, *batch)
        value.backward()
        optimizer.step()

    return step


def torch_rate(step, tokens, steps):
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return tokens / statistics.median(seconds)


def heed_rate(program, model, steps, threads, precision):
    output = subprocess.run([program, "--threads", str(threads), "--json", "bench", "training", "--model", model, "--steps",
                             str(steps), "--precision", precision], check=True, capture_output=True, text=True).stdout
    return json.loads(output)[0]["tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often the two alternate")
    parser.add_argument("--steps", type=int, default=4, help="timed steps a round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--heed", default=str(ROOT / "build" / "release" / "bin" / "heed"))
    arguments = parser.parse_args()
    peers.run_inside(__file__)
    import torch

    torch.set_num_threads(arguments.threads)
    autocast = functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16, enabled=arguments.precision == "bf16")
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    print(f"{cpu}, {arguments.threads} threads, PyTorch {torch.__version__}, {arguments.precision}; medians of {arguments.rounds} rounds")
    print(f"{'model':12} {'heed':>10} {'PyTorch':>10} {'ratio':>7}   target tokens/s")
    for name, make in MODELS.items():
        model, batch, loss, optimizer = make()
        step, tokens = torch_step(model, batch, loss, optimizer, autocast), batch[-1].numel()
        torch_rate(step, tokens, 2)  # warm-up
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            ours.append(heed_rate(arguments.heed, name, arguments.steps, arguments.threads, arguments.precision))
            theirs.append(torch_rate(step, tokens, arguments.steps))
        a, b = statistics.median(ours), statistics.median(theirs)
        print(f"{name:12} {a:10.0f} {b:10.0f} {a / b:7.2f}")


if __name__ == "__main__":
    main()
