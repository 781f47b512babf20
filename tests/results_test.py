#!/usr/bin/env python3
"""tools/check_results.py must find a wrong figure, name its place and end with 1; on faked pages, with a faked program."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECKER = ROOT / "tools" / "check_results.py"

# Stands for heed: a training that writes its log, and an evaluation. Its times differ from run to run.
PROGRAM = """#!/bin/sh
case "$*" in
  *--beam\\ 1*) echo '{"bleu": {"score": 36.44}, "loss": 2.1463, "perplexity": 8.5529, "sentences": 1153}' ;;
  evaluate*) echo '{"bleu": {"score": 38.0867}, "loss": 2.1463, "perplexity": 8.5529, "sentences": 1153}' ;;
  *1e-3*)
    mkdir -p build/nanogpt-rate
    printf '{"type":"end","loss":1.9061}\\n' >build/nanogpt-rate/log.jsonl ;;
  *shakespeare*)
    mkdir -p build/shakespeare
    printf '{"type":"start"}\\n{"type":"end","loss":1.77791}\\n' >build/shakespeare/log.jsonl ;;
  *first.toml*)
    test -f build/first/words.tsv
    echo "epoch 1  update 50  loss 2.9821  $$ tokens/s" >&2
    echo "epoch 1  update 50  validation  BLEU 44.89  after 0:07" >&2 ;;
  translate*) read word || word=olleh; echo $word ;;
esac
"""

PAGES = {
    "docs/results.md": """# Results
| task | recipe | published | heed |
| Tiny Shakespeare | `shakespeare-chars.toml` | 1.88 | **1.778**, over all |
| Tatoeba English-Chinese, 1,153 held-back pairs | `tatoeba-en-zh.toml` | 35.9 | **38.1** (greedy 36.4) |

With 3e-3; with 1e-3 the same recipe ends at 1.906.

## Multi30k

    loss 1.5413  perplexity 4.671  tokens 14,447
    BLEU = 41.15 71.6/48.1/34.7/25.2

## Tatoeba English-Chinese

    loss 2.1463  perplexity 8.553  tokens 9,610
    BLEU = 38.09 72.8/48.2/34.5/25.8
""",
    "demo/en-zh/MODEL_CARD.md": """| held back | 1,153 pairs with 1,097 sentences |
| beam 5 (the default) | **38.1** |
| greedy | 36.4 |

Loss 2.146 a token (perplexity 8.55), without smoothing.
""",
    "demo/en-zh/model.safetensors": "",
    "demo/README.md": "the 1,153 of these pairs that the training holds back\n",
    "README.md": "reaches 38.1 BLEU on sentences\n",
    "README.zh-CN.md": "得到 38.1 BLEU\n",
    "recipes/shakespeare-chars.toml": "# this reaches 1.78; 1e-3 reaches 1.91\n",
    "docs/tutorial.md": r"""# Tutorial

    make
    heed=build/release/bin/heed

## Make the text

    mkdir -p build/first
    printf 'a b\nc d\n' | cat >build/first/words.txt
    cat build/first/words.txt \
        >build/first/words.tsv

`head -n 1 build/first/words.tsv` should show

    a b

## Train

    $heed train --config recipes/first.toml

You should see

    epoch 1  update 50  loss 2.9821  9,012 tokens/s
    ...
    epoch 1  update 50  validation  BLEU 44.89  after 2:02

BLEU is 44.9 here.

![The words](words.svg)
<!-- is build/first/words.tsv -->

```
$heed translate build/first/model
```

prints `olleh`.
""",
    "docs/words.svg": "a b\nc d\n",
}


def run(changes=(), arguments=()):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in PAGES.items():
            for page, before, after in changes:
                if page == name:
                    assert before in text, before
                    text = text.replace(before, after)
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        program = root / "heed"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        command = [sys.executable, str(CHECKER), "--root", folder, *(arguments or [str(program)])]
        return subprocess.run(command, capture_output=True, text=True, check=False)


# (what is wrong, the change to a page, what has to be said)
CASES = [
    ("a figure of the table", ("docs/results.md", "**1.778**", "**1.782**"),
     "docs/results.md:3: validation loss of Tiny Shakespeare: the page says 1.782; found 1.77791"),
    ("rounded wrongly", ("README.md", "38.1 BLEU", "38.0 BLEU"), "README.md:1: BLEU of the demo's model, beam 5"),
    ("a figure of a section", ("docs/results.md", "BLEU = 38.09", "BLEU = 38.9"), "docs/results.md:16: BLEU"),
    ("a count", ("demo/README.md", "1,153", "1,154"), "demo/README.md:1: pairs held back: the page says 1,154"),
    ("a recipe", ("recipes/shakespeare-chars.toml", "reaches 1.78;", "reaches 1.88;"), "recipes/shakespeare-chars.toml:1"),
    ("greedy", ("demo/en-zh/MODEL_CARD.md", "| greedy | 36.4 |", "| greedy | 38.1 |"), "MODEL_CARD.md:3: BLEU"),
    ("a figure that moved away", ("README.md", "38.1 BLEU", "a good score"), "README.md: BLEU of the demo's model, beam 5 does"),
    ("a line of a walk", ("docs/tutorial.md", "loss 2.9821", "loss 2.9822"), "docs/tutorial.md:23: the page shows"),
    ("a line of a file", ("docs/tutorial.md", "    a b", "    a c"), "docs/tutorial.md:15: the page shows"),
    ("BLEU in the prose", ("docs/tutorial.md", "BLEU is 44.9 ", "BLEU is 45.0 "), "docs/tutorial.md:27: the page says BLEU 45.0"),
    ("words in the prose", ("docs/tutorial.md", "`olleh`", "`hello`"), "docs/tutorial.md:36: the page shows \"hello\""),
    ("a picture", ("docs/words.svg", "c d", "c e"), "docs/tutorial.md:29: the picture words.svg is not what the commands draw"),
    ("a command that fails", ("docs/tutorial.md", ">build/first/words.tsv", ">build/second/words.tsv"), "docs/tutorial.md:10"),
]


def main():
    result = run()
    if result.returncode != 0 or "are what the program gives" not in result.stdout:
        sys.exit(f"right pages were refused: {result.stdout}{result.stderr}")
    for what, change, expected in CASES:
        result = run([change])
        if result.returncode != 1 or expected not in result.stderr:
            sys.exit(f"{what}: expected status 1 and {expected!r}; found {result.returncode}: {result.stderr}")
    result = run([CASES[0][1]], ["--places"])
    if result.returncode != 0:
        sys.exit(f"--places compared figures: {result.stderr}")
    result = run([CASES[6][1]], ["--places"])
    if result.returncode != 1 or CASES[6][2] not in result.stderr:
        sys.exit(f"--places did not miss a figure: {result.stderr}")
    print(f"{len(CASES)} wrong pages found")


if __name__ == "__main__":
    main()
