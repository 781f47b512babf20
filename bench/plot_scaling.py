#!/usr/bin/env python3
"""Draws what `heed bench scaling --json` measured: time against length, keys and batch, both axes logarithmic.

    build/release/bin/heed bench scaling --json | bench/plot_scaling.py > docs/scaling.svg
"""
import html
import json
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, GAP = 250, 260, 52, 46, 62
COLOURS = {"full": "#c0392b", "causal": "#e59866", "window of 256": "#2e86c1"}


def series(lines, grows, extent):
    """{name: [(x, milliseconds)]} of one panel."""
    found = {name: [] for name in COLOURS}
    for line in (line for line in lines if line["grows"] == grows):
        for name, key in zip(COLOURS, ("milliseconds", "causal_milliseconds", "window_milliseconds")):
            if key in line:
                found[name].append((line[extent], line[key]))
    return {name: points for name, points in found.items() if points}


def panel(lines, grows, extent, title, left):
    """One diagram as SVG elements."""
    curves = series(lines, grows, extent)
    xs = [x for points in curves.values() for x, _ in points]
    ys = [y for points in curves.values() for _, y in points]
    x0, x1 = math.log2(min(xs)), math.log2(max(xs))
    y0, y1 = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    x1, y1 = max(x1, x0 + 1), max(y1, y0 + 1)

    def at(x, y):
        return left + WIDTH * (math.log2(x) - x0) / (x1 - x0), TOP + HEIGHT * (y1 - math.log10(y)) / (y1 - y0)

    out = [f'<text x="{left}" y="{TOP - 10}" font-weight="bold">{title}</text>']
    for power in range(y0, y1 + 1):
        y = at(2**x0, 10**power)[1]
        out.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#666">{10**power:g}</text>')
    for power in range(round(x0), round(x1) + 1, 2 if x1 - x0 > 4 else 1):
        x = at(2**power, 10**y0)[0]
        out.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle" fill="#666">{2**power:,}</text>')
    for name, points in curves.items():
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
        out.append(f'<polyline points="{places}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        out += [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="2.5" fill="{COLOURS[name]}"/>' for p in places.split()]
    return out


def main():
    if len(sys.argv) != 1:
        sys.exit("plot_scaling.py: heed bench scaling --json | plot_scaling.py > PICTURE.svg")
    try:
        document = json.load(sys.stdin)
        lines = document["lines"]
        body = panel(lines, "length", "queries", "ms, L = S growing, 1 head", LEFT)
        body += panel(lines, "keys", "keys", "ms, S growing, L = 128, 8 heads", LEFT + WIDTH + GAP)
        body += panel(lines, "batch", "batch", "ms, B growing, L = S = 256, 4 heads", LEFT + 2 * (WIDTH + GAP))
    except (ValueError, KeyError, TypeError) as error:
        sys.exit(f"plot_scaling.py: what heed bench scaling --json prints; found {type(error).__name__}: {error}")
    width, height = LEFT + 3 * WIDTH + 2 * GAP + 20, TOP + HEIGHT + 50
    for n, (name, colour) in enumerate(COLOURS.items()):
        body.append(f'<rect x="{LEFT + 120 * n}" y="8" width="10" height="10" fill="{colour}"/>')
        body.append(f'<text x="{LEFT + 14 + 120 * n}" y="17">{name}</text>')
    threads = max(line["threads"] for line in lines)
    caption = f"heed bench scaling: D = 64, f32, {threads} threads, {document['processor']}, {document['isa']}"
    body.append(f'<text x="{LEFT}" y="{height - 10}" fill="#888">{html.escape(caption)}</text>')
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">'
          f'<rect width="100%" height="100%" fill="white"/>{"".join(body)}</svg>')


if __name__ == "__main__":
    main()
