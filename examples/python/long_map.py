#!/usr/bin/env python3
"""A text's attention to itself, 32,768 x 32,768 characters, as a picture of 512 x 512 cells.

    pip install . && python examples/python/long_map.py TEXT PICTURE.png

Each character is a vector of the eight characters that end there, so it attends to where the text said the same before:
refrains in a song, names in a play, copied lines in a program. The weights would be 4 GB; the map is gathered while the output is
computed, in memory linear in the length.
"""

import struct
import sys
import time
import zlib

import numpy as np

import heed

LENGTH, SIZE, CONTEXT, CELLS = 32768, 64, 8, 512


def embed(text):
    """(L, SIZE), each of length 1: the sum of a random vector for each of the last CONTEXT characters and its place."""
    codes = np.frombuffer(text.encode()[:LENGTH], np.uint8)
    table = np.random.default_rng(0).standard_normal((CONTEXT, 256, SIZE)).astype(np.float32)
    padded = np.concatenate([np.zeros(CONTEXT - 1, np.uint8), codes])
    x = sum(table[n][padded[CONTEXT - 1 - n : len(padded) - n]] for n in range(CONTEXT))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def write_png(path, grey):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    header = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def main():
    if len(sys.argv) != 3:
        sys.exit("long_map.py: TEXT PICTURE.png")
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"long_map.py: {sys.argv[1]}: {error}")
    if len(text) < CELLS:
        sys.exit(f"long_map.py: {sys.argv[1]}: a text of at least {CELLS} characters; found {len(text)}")
    x = embed(text)
    start = time.perf_counter()
    earlier = {"causal": -CONTEXT, "scale": 24.0}  # a query sees what ended before its own characters began
    r = heed.attention(x, x, x, **earlier, taps={"map": (CELLS, CELLS)})
    print(f"{len(x):,} x {len(x):,} weights in {time.perf_counter() - start:.1f} s")
    cells = r.taps.map.reshape(CELLS, CELLS)
    write_png(sys.argv[2], np.uint8(255 * (1 - (cells / cells.max()) ** 0.4)))


if __name__ == "__main__":
    main()
