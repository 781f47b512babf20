#!/usr/bin/env python3
"""Keeps the documents true: quoted code must stand in the file it is quoted from, quoted output in the program's header.

In a document,
    <!-- from FILE -->        is followed by a code block whose text occurs in FILE, line by line;
    <!-- printed by FILE -->  is followed by a code block equal to the "// Prints:" block of FILE (checked by the tests).
--update rewrites the second kind. Relative links must lead to something. Run by the tests.
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUOTE = re.compile(r"<!-- from (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)
PRINTED = re.compile(r"<!-- printed by (\S+) -->\n(?:```text\n.*?```\n)?", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def printed_text(file):
    source = (ROOT / file).read_text(encoding="utf-8")
    found = re.search(r"// Prints:\n((?://[^\n]*\n)+)", source)
    if not found:
        sys.exit(f"{file}: no \"// Prints:\" block")
    return "".join(re.sub(r"^// {0,3}", "", line) + "\n" for line in found.group(1).splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="rewrite quoted output")
    update = parser.parse_args().update
    problems, quotes = [], 0
    for document in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("demo/**/*.md")]):
        text = document.read_text(encoding="utf-8")
        name = document.relative_to(ROOT)
        for file, quoted in QUOTE.findall(text):
            quotes += 1
            if quoted not in (ROOT / file).read_text(encoding="utf-8"):
                problems.append(f"{name}: the code quoted from {file} is not there any more")
        current = PRINTED.sub(lambda m: f"<!-- printed by {m.group(1)} -->\n```text\n{printed_text(m.group(1))}```\n", text)
        quotes += len(PRINTED.findall(text))
        if current != text:
            if update:
                document.write_text(current, encoding="utf-8")
            else:
                problems.append(f"{name}: quoted output differs from the examples; run tools/check_docs.py --update")
        for target in LINK.findall(text):
            if "://" not in target and not (document.parent / target).exists():
                problems.append(f"{name}: link to {target}, which does not exist")
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{quotes} quotations are as in the files they come from")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
