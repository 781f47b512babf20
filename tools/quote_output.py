#!/usr/bin/env python3
"""Keeps what the documents quote of the program: runs it again and compares, or (--update) rewrites the quotation.

In a document,
    <!-- heed ARGUMENTS -->   is followed by a text block: what `heed ARGUMENTS` prints, run in the root of the project.

  tools/quote_output.py build/release/bin/heed             compares; run by the tests
  tools/quote_output.py build/release/bin/heed --update    after a model was trained anew, say
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUOTE = re.compile(r"<!-- heed ([^\n]+) -->\n```text\n(.*?)```", re.DOTALL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed", type=pathlib.Path, help="the program")
    parser.add_argument("--update", action="store_true", help="rewrite the quotations")
    options = parser.parse_args()
    problems, quotes = [], 0

    def run(match):
        nonlocal quotes
        quotes += 1
        result = subprocess.run([options.heed.resolve(), *shlex.split(match.group(1))], cwd=ROOT, capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"heed {match.group(1)}: {result.stderr}")
        return f"<!-- heed {match.group(1)} -->\n```text\n{result.stdout}```"

    for document in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        text = document.read_text(encoding="utf-8")
        current = QUOTE.sub(run, text)
        if current == text:
            continue
        if options.update:
            document.write_text(current, encoding="utf-8")
        else:
            problems.append(f"{document.relative_to(ROOT)}: the program prints something else now; "
                            "tools/quote_output.py build/release/bin/heed --update writes it down")
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{quotes} quotations are what the program prints")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
