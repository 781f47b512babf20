#!/usr/bin/env python3
"""Runs what takes minutes and compares the outcomes with the figures that the documents give for them.

  tools/check_results.py build/release/bin/heed                  everything; make results
  tools/check_results.py build/release/bin/heed --only demo      one of the runs below
  tools/check_results.py --places                                runs nothing: each figure must stand where it is looked for

heed computes the same bits on every machine and with any number of threads, so there are no tolerances: a figure has to be
the outcome, rounded to as many digits as the page shows. Times are printed and never compared. What is trained lies in
build/results afterwards.
"""
import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


# ---- What is run, and where its figures stand --------------------------------------------------------------------------

@dataclasses.dataclass
class Figure:
    """A number that a run computes, and the pages that give it. `places` are (page, pattern): the pattern's group is the
    figure, and each match has to be right. A third member names a section (a part of its heading), of which the first match
    counts."""
    what: str
    read: collections.abc.Callable  # (the folder with what was run, the command's output) -> number
    places: list


@dataclasses.dataclass
class Run:
    name: str
    command: str  # for sh, in a folder with demo/, recipes/ and tests/; $heed is the program
    figures: list
    needs: str  # the run is left out where this file is missing


def final_loss(model):
    def read(folder, _):
        log = (folder / model / "log.jsonl").read_text(encoding="utf-8")
        return json.loads(log.splitlines()[-1])["loss"]
    return read


def from_json(*keys):
    def read(_, output):
        value = json.loads(output)
        for key in keys:
            value = value[key]
        return value
    return read


NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
RESULTS, CARD = "docs/results.md", "demo/en-zh/MODEL_CARD.md"
EVALUATE_DEMO = "$heed evaluate demo/en-zh --pairs demo/heldout.tsv --tokenize zh --json --quiet"

RUNS = [
    Run("demo", EVALUATE_DEMO, [
        Figure("BLEU of the demo's model, beam 5", from_json("bleu", "score"), [
            (RESULTS, r"^\|.*`tatoeba-en-zh\.toml`.*\*\*" + NUMBER + r"\*\*"),
            (RESULTS, r"^ *BLEU = " + NUMBER, "Tatoeba"),
            (CARD, r"^\| beam 5.*\| \**" + NUMBER),
            ("README.md", NUMBER + r" BLEU"),
            ("README.zh-CN.md", NUMBER + r" BLEU"),
        ]),
        Figure("loss of the demo's model", from_json("loss"), [
            (RESULTS, r"^ *loss " + NUMBER + r" ", "Tatoeba"),
            (CARD, r"\b[Ll]oss " + NUMBER + r" a token"),
        ]),
        Figure("perplexity of the demo's model", from_json("perplexity"), [
            (RESULTS, r"^ *loss.* perplexity " + NUMBER + r" ", "Tatoeba"),
            (CARD, r"perplexity " + NUMBER),
        ]),
        Figure("pairs held back", from_json("sentences"), [
            (RESULTS, r"^\|.*Tatoeba.* " + NUMBER + r" held-back pairs"),
            (CARD, r"^\| held back \| " + NUMBER + r" pairs"),
            ("demo/README.md", NUMBER + r" of these pairs"),
        ]),
    ], needs="demo/en-zh/model.safetensors"),
    Run("demo, greedy", EVALUATE_DEMO + " --beam 1", [
        Figure("BLEU of the demo's model, greedy", from_json("bleu", "score"), [
            (RESULTS, r"^\|.*`tatoeba-en-zh\.toml`.*\(greedy " + NUMBER),
            (CARD, r"^\| greedy.*\| \**" + NUMBER),
        ]),
    ], needs="demo/en-zh/model.safetensors"),
    Run("shakespeare", "$heed train --config recipes/shakespeare-chars.toml --output build/shakespeare", [
        Figure("validation loss of Tiny Shakespeare", final_loss("build/shakespeare"), [
            (RESULTS, r"^\|.*`shakespeare-chars\.toml`.*\*\*" + NUMBER + r"\*\*"),
            ("recipes/shakespeare-chars.toml", r"this reaches " + NUMBER),
        ]),
    ], needs="recipes/shakespeare-chars.toml"),
    Run("shakespeare, nanoGPT's rate",
        "$heed train --config recipes/shakespeare-chars.toml --schedule.peak 1e-3 --output build/nanogpt-rate", [
            Figure("validation loss of Tiny Shakespeare with nanoGPT's learning rate", final_loss("build/nanogpt-rate"), [
                (RESULTS, r"with 1e-3 the same recipe ends at " + NUMBER),
                ("recipes/shakespeare-chars.toml", r"1e-3 reaches " + NUMBER),
            ]),
        ], needs="recipes/shakespeare-chars.toml"),
]

# Pages that a reader follows from the first command to the last. Their commands are run in their order. Each line of what they
# show, each "BLEU <figure>" and each "prints `<text>`" has to be among what was printed. A picture that is followed by
# <!-- is FILE --> has to have the bytes of FILE, which the commands have made.
WALKS = {"tutorial": "docs/tutorial.md"}
COMMAND = re.compile(r"\$?heed[ =]|(?:make|mkdir|zcat|gzip|perl|awk|sed|echo|head|tail|wc|cut|grep|paste)\b")
LEFT_OUT = re.compile(r"heed=|make\b")  # the program is built and named already


# ---- Pages -------------------------------------------------------------------------------------------------------------

def line_of(text, position):
    return text.count("\n", 0, position) + 1


def section_of(text, heading):
    """(start, end) of the section whose heading contains `heading`."""
    found = re.search(rf"^(#+) .*{re.escape(heading)}.*$", text, re.MULTILINE)
    if not found:
        return 0, 0
    following = re.compile(rf"^#{{1,{len(found[1])}}} ", re.MULTILINE).search(text, found.end())
    return found.start(), following.start() if following else len(text)


def figures_on(root, page, pattern, section=None):
    """(line, text of the figure) of every match; of the first one in a section."""
    path = root / page
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    start, end = section_of(text, section) if section else (0, len(text))
    matches = re.compile(pattern, re.MULTILINE).finditer(text, start, end)
    found = [(line_of(text, match.start(1)), match[1]) for match in matches]
    return found[:1] if section else found


def as_on_page(value, shown):
    """The value with as many digits as the page shows."""
    digits = len(shown.partition(".")[2])
    return f"{value:,.{digits}f}" if "," in shown or value < 1000 else f"{value:.{digits}f}"


def compare(root, figure, value, problems):
    compared = 0
    for place in figure.places:
        page, pattern = place[:2]
        found = figures_on(root, *place)
        if not found:
            problems.append(f"{page}: {figure.what} does not stand there any more; if it moved, change the pattern in "
                            f"tools/check_results.py: {pattern}")
        for line, shown in found:
            compared += 1
            if value is None or as_on_page(value, shown) == shown:
                continue
            problems.append(f"{page}:{line}: {figure.what}: the page says {shown}; found {value}")
    return compared


# ---- Pages that are walked through -------------------------------------------------------------------------------------

def blocks(text):
    """(line, lines) of every block of code, whether indented or fenced."""
    lines, start, block, fenced = text.splitlines() + [""], 0, [], False
    for number, line in enumerate(lines, 1):
        fence = line.startswith("```")
        inside = fenced and not fence or not fenced and line.startswith("    ")
        if inside:
            start = start if block else number
            block.append(line if fenced else line[4:])
        elif block:
            yield start, block
            block = []
        fenced ^= fence


def commands_of(block, first_line):
    """(line, command) of a block; a backslash at the end of a line continues the command."""
    command, start = "", first_line
    for number, line in enumerate(block, first_line):
        start = start if command else number
        command += line
        if command.endswith("\\"):
            command = command[:-1]
            continue
        yield start, command.strip()
        command = ""


def without_times(line):
    line = re.sub(r"\d[\d,]* tokens/s", "tokens/s", line)
    return re.sub(r"\b\d+(?::\d\d)+\b", "time", line).strip()


def walk(root, page, folder, shell, problems):
    text = (root / page).read_text(encoding="utf-8")
    events = []  # (line, "run" or "shows", text)
    for start, block in blocks(text):
        if COMMAND.match(block[0]):
            events += [(line, "run", command) for line, command in commands_of(block, start)]
        else:
            events += [(line, "shows", shown) for line, shown in enumerate(block, start) if shown.strip() not in ("", "...")]
    prose = [(r"`((?:head|wc) [^`]+)`", "run"), (r"\bprints\s+`([^`]+)`", "shows"), (r"\bBLEU (?:is |of )?(\d+\.\d+)", "BLEU")]
    pictures = re.compile(r"!\[[^\]]*\]\((\S+)\)\s*<!-- is (\S+) -->")
    events += [(line_of(text, match.start()), "picture", match.groups()) for match in pictures.finditer(text)]
    for pattern, kind in prose:
        events += [(line_of(text, match.start(1)), kind, match[1]) for match in re.finditer(pattern, text)]
    printed, compared = set(), 0
    for line, kind, content in sorted(events, key=lambda event: (event[0], event[1] != "run")):
        where = f"{page}:{line}"
        if kind == "run":
            if not LEFT_OUT.match(content):
                output = shell(content, where)
                printed |= {without_times(each) for each in output.splitlines()}
            continue
        compared += 1
        if kind == "picture":
            picture, made = (root / page).parent / content[0], folder / content[1]
            if not made.exists() or picture.read_bytes() != made.read_bytes():
                problems.append(f"{where}: the picture {content[0]} is not what the commands draw, {made}")
        if kind == "shows" and without_times(content) not in printed:
            problems.append(f"{where}: the page shows \"{content}\", which no command of the page has printed")
        if kind == "BLEU":
            found = {float(value) for each in printed for value in re.findall(r"BLEU (?:= )?(\d+\.\d+)", each)}
            if content not in {as_on_page(value, content) for value in found}:
                problems.append(f"{where}: the page says BLEU {content}, which no command of the page has printed")
    return compared


# ---- Running -----------------------------------------------------------------------------------------------------------

def prepare(root):
    """A folder with what the commands read, in which they may write: build/results, new."""
    folder = root / "build" / "results"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "build").mkdir(parents=True)
    for name in ("demo", "tests", "docs"):
        if (root / name).exists():
            (folder / name).symlink_to(root / name)
    shutil.copytree(root / "recipes", folder / "recipes")  # their paths start with "..", which must lead here
    return folder


class Failed(Exception):
    pass


def make_shell(folder, program):
    def shell(command, where):
        print(f"  {command}", flush=True)
        started = time.monotonic()
        done = subprocess.run(["sh", "-ec", command], cwd=folder, env={**os.environ, "heed": str(program)},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(f"    {time.monotonic() - started:.0f} s", flush=True)
        if done.returncode != 0:
            raise Failed(f"{where}: \"{command}\" ended with status {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout
    return shell


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed", type=pathlib.Path, nargs="?", help="the program")
    parser.add_argument("--only", metavar="NAME", choices=[run.name for run in RUNS] + list(WALKS), help="one run alone")
    parser.add_argument("--places", action="store_true", help="run nothing; look for the figures on the pages")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the project whose pages are checked")
    options = parser.parse_args()
    if options.heed is None and not options.places:
        parser.error("the program, such as build/release/bin/heed")
    if options.heed is not None and not options.heed.is_file():
        parser.error(f"{options.heed} is not there; make builds build/release/bin/heed")
    root, problems, compared = options.root.resolve(), [], 0
    folder = None if options.places else prepare(root)
    shell = None if options.places else make_shell(folder, options.heed.resolve())
    for run in RUNS:
        if options.only not in (None, run.name):
            continue
        if not (root / run.needs).exists():
            print(f"{run.name}: left out, for {run.needs} is not there")
            continue
        print(f"{run.name}:")
        try:
            output = "" if options.places else shell(run.command, run.name)
            for figure in run.figures:
                value = None if options.places else figure.read(folder, output)
                compared += compare(root, figure, value, problems)
        except Failed as failure:
            problems.append(str(failure))
    for name, page in WALKS.items():
        if options.places or options.only not in (None, name):
            continue
        if not (root / page).exists():
            print(f"{name}: left out, for {page} is not there")
            continue
        print(f"{name}:")
        try:
            compared += walk(root, page, folder, shell, problems)
        except Failed as failure:
            problems.append(str(failure))
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{compared} figures and lines " + ("stand where they are looked for" if options.places else "are what the program gives"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
