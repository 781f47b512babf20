#!/usr/bin/env python3
"""How long an update takes on many machines, from what one machine takes and what the network carries.

    seconds(P) = T c / P                                        T tokens, c seconds a token on one machine
               + max(0, 4 N (P - 1) / P / b - T c / P / 2)      gradients travel during half of the last backward pass
               + 4 N (P - 1) / P / b                            weights travel when they are updated
               + 4 N (3 + 7 / P) / m                            rows zeroed and added, and Adam; m: bytes a second of memory
               + 2 log2(P) a + 2 (P - 1) g                      rounds of messages of a seconds; g: seconds to post one

N is the number of weights; each process has one shard. Without arguments it prints the table of docs/cluster.md;
with --measured it prints the prediction for one point: N, T, c, P and b as numbers.
"""
import argparse
import math

MEMORY = 150e9  # bytes a second, a machine of 64 cores
LATENCY = 40e-6
POST = 2e-6
# Floating-point operations a second (a multiply-add counts as two) in f32 while training, of 64 cores: 64 times what a
# core of a Zen 4 reaches in bench/compare/training.py (7,400 tokens a second of the 10.7-million-weight GPT on two
# cores), times 0.6 for what 64 cores lose to memory.
RATE = 64 * 0.6 * 7400 * 6 * 10.7e6 / 2

MODELS = [("`base`, 25,000 pairs of tokens an update", 76.9e6, 50_000), ("`big`, 25,000 pairs", 241.9e6, 50_000),
          ("a decoder of 1 billion weights, 500,000 tokens", 1e9, 500_000)]


def seconds(weights, tokens, a_token, machines, link, memory=MEMORY):
    compute = tokens * a_token / machines
    moved = 4 * weights * (machines - 1) / machines / link if machines > 1 else 0
    passes = 4 * weights * (3 + 7 / machines) / memory
    talk = 2 * math.log2(machines) * LATENCY + 2 * (machines - 1) * POST
    return compute + max(0.0, moved - compute / 2) + moved + passes + talk


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", nargs=5, type=float, metavar=("N", "T", "c", "P", "b"))
    parser.add_argument("--memory", type=float, default=MEMORY)
    arguments = parser.parse_args()
    if arguments.measured:
        weights, tokens, a_token, machines, link = arguments.measured
        print(f"{seconds(weights, tokens, a_token, machines, link, arguments.memory):.3f} s an update")
        return
    print("| model | link | 1 machine | 8 | 64 | 512 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, weights, tokens in MODELS:
        for gigabits in (25, 100):
            one = seconds(weights, tokens, 6 * weights / RATE, 1, math.inf)
            row = [f"{one:.3g} s"]
            for machines in (8, 64, 512):
                many = seconds(weights, tokens, 6 * weights / RATE, machines, gigabits * 1e9 / 8)
                row.append(f"{many:.3g} s, {one / many:.1f} times")
            print(f"| {name} | {gigabits} Gbit/s | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
