"""PyTorch's attention and heed's on the same tensors, and the map of what was attended to.

    pip install . torch && python examples/python/faster_attention.py
"""

import time

import torch

import heed.torch

query, value = torch.randn(2, 1, 8, 4096, 64, generator=torch.Generator().manual_seed(0))
key = query  # each position resembles itself most: the map shows the diagonal
attentions = {
    "PyTorch": torch.nn.functional.scaled_dot_product_attention,
    "heed": heed.torch.scaled_dot_product_attention,
}
outputs = {}
for name, attention in attentions.items():
    attention(query, key, value, is_causal=True)
    start = time.perf_counter()
    outputs[name] = attention(query, key, value, is_causal=True)
    print(f"{name:8} {time.perf_counter() - start:.3f} s")
print(f"largest difference {(outputs['heed'] - outputs['PyTorch']).abs().max():.1e}")

taps = {"map": (16, 48), "map_largest": True}
cells = heed.attention(query, key, value, causal="top_left", taps=taps).taps.map[0].mean(0)
for row in cells / cells.max():
    print("".join(" .:-=+*#%@"[int(9 * x)] for x in row))
