#!/usr/bin/env python3
"""Keeps the documents true: quoted code must stand in the file it is quoted from, quoted output in the program's header.

In a document,
    <!-- from FILE -->        is followed by a code block whose text occurs in FILE, line by line;
    <!-- printed by FILE -->  is followed by a code block equal to the "// Prints:" block of FILE (the tests of the examples
                              compare that block with what the program prints).
--update rewrites the second kind. Links must lead to a file, and to a heading of the same page, that exists. A path and a test
(`Suite.Name`) that a page names must exist. A guide says how to run each example that it quotes. A page of docs/ and its
translation NAME.zh-CN.md have the same code blocks, and in each section the same numbers and the same words in `code`. A file
that a comment in src/, include/ or tests/ names (FILE.h, FOLDER/FILE.cc) must exist. Run by the tests.
"""
import argparse
import collections
import fnmatch
import io
import pathlib
import re
import sys
import tokenize

QUOTE = re.compile(r"<!-- from (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)
PRINTED = re.compile(r"<!-- printed by (\S+) -->\n(?:```text\n.*?```\n)?", re.DOTALL)
EXAMPLE = re.compile(r"<!-- (?:from|printed by) examples/(\w+)\.cc -->")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
CODE_BLOCK = re.compile(r"^```\w*\n.*?^```\n", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:src|include|tests|tools|bench|docs|recipes|demo|examples|python|kernels)/[\w./-]+")
TEST = re.compile(r"((?:[A-Z]\w+|\*)\.(?:[A-Z]\w+|\*))(?:/\w+)?")  # `Suite.Name`, `Suite.*`, `*.Name`, `Suite.Name/bf16`
TEST_IN_CODE = re.compile(r"\bTEST(?:_[FP])?\((\w+),\s*(\w+)\)")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
COMMENT = re.compile(r"//(.*)")
QUOTED = re.compile(r"\"[^\"]*\"")  # what another program prints, say
SOURCE_NAME = re.compile(r"(?<![\w./:*<>{}-])[\w./-]*\w\.(?:h|cc|py|md)\b(?![\w-])")


def printed_text(file):
    found = re.search(r"// Prints:\n((?://[^\n]*\n)+)", file.read_text(encoding="utf-8"))
    if not found:
        sys.exit(f"{file}: no \"// Prints:\" block")
    return "".join(re.sub(r"^// {0,3}", "", line) + "\n" for line in found.group(1).splitlines())


def anchors(text):
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.*)$", CODE_BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def sections(text):
    """For each section its heading, its numbers and its words in `code`, both without order."""
    text = re.sub(r"<!--.*?-->|\]\([^)]*\)", "", CODE_BLOCK.sub("", text), flags=re.DOTALL)
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        code = collections.Counter(CODE.findall(section))
        yield section.splitlines()[0], collections.Counter(NUMBER.findall(CODE.sub("", section))), code


def difference(found, expected):
    return ", ".join([f"{item} is missing" for item in expected - found] + [f"{item} is too many" for item in found - expected])


def compare_translation(name, original, translation):
    """What differs between a page and its translation."""
    blocks = [(CODE_BLOCK.findall(text)) for text in (original, translation)]
    if len(blocks[0]) != len(blocks[1]):
        yield f"{name}: {len(blocks[1])} code blocks; the original has {len(blocks[0])}"
    for mine, theirs in zip(*blocks):
        if mine != theirs:
            yield f"{name}: the code block that begins with {theirs.splitlines()[1]!r} differs from the original"
    parts = [list(sections(text)) for text in (original, translation)]
    if len(parts[0]) != len(parts[1]):
        yield f"{name}: {len(parts[1])} sections; the original has {len(parts[0])}"
    for (heading, numbers, code), (_, found_numbers, found_code) in zip(*parts):
        for found, expected in ((found_numbers, numbers), (found_code, code)):
            if found != expected:
                yield f"{name}: the section {heading!r} of the original says otherwise: {difference(found, expected)}"


def missing_names(root, text):
    """Paths and tests that a page names and that do not exist."""
    tests = {".".join(name) for file in root.glob("tests/**/*.cc")
             for name in TEST_IN_CODE.findall(file.read_text(encoding="utf-8"))}
    for code in CODE.findall(CODE_BLOCK.sub("", text)):
        word = code.split()[0]
        test = TEST.fullmatch(word)
        if test and not fnmatch.filter(tests, test.group(1)):
            yield word
        if PATH.fullmatch(word) and not (root / word).exists() and not (root / "src" / word).exists():
            yield word


def check(root, document, update):
    """Problems of one page, and how many quotations it has."""
    problems = []
    text = document.read_text(encoding="utf-8")
    name = document.relative_to(root)
    for file, quoted in QUOTE.findall(text):
        if quoted not in (root / file).read_text(encoding="utf-8"):
            problems.append(f"{name}: the code quoted from {file} is not there any more")
    current = PRINTED.sub(
        lambda m: f"<!-- printed by {m.group(1)} -->\n```text\n{printed_text(root / m.group(1))}```\n", text)
    if current != text:
        if update:
            document.write_text(current, encoding="utf-8")
        else:
            problems.append(f"{name}: quoted output differs from the examples; run tools/check_docs.py --update")
    for target, anchor in LINK.findall(text):
        if target and "://" not in target and not (document.parent / target).exists():
            problems.append(f"{name}: link to {target}, which does not exist")
        if anchor and not target and anchor not in anchors(text):
            problems.append(f"{name}: link to #{anchor}, but no heading of the page is called so")
    problems += [f"{name}: names {missing}, which does not exist" for missing in missing_names(root, text)]
    if document.stem.startswith("guide"):
        for example in sorted(set(EXAMPLE.findall(text))):
            if f"```sh\nbuild/release/examples/{example}\n```" not in text:
                problems.append(f"{name}: quotes examples/{example}.cc and does not say how to run it")
    if document.parent.name == "docs" and document.name.endswith(".zh-CN.md"):
        original = document.with_name(document.name.replace(".zh-CN", "")).read_text(encoding="utf-8")
        problems += compare_translation(name, original, current)
    return problems, len(QUOTE.findall(text)) + len(PRINTED.findall(text))


def comments(file):
    """(line, text) of every comment of a C++ or Python file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return [(token.start[0], token.string) for token in tokenize.generate_tokens(io.StringIO(text).readline)
                if token.type == tokenize.COMMENT]
    return [(number, found[1]) for number, line in enumerate(text.splitlines(), 1) if (found := COMMENT.search(line))]


def check_comments(root):
    """Comments that name a file which does not exist. A name may leave out the first folders of the path."""
    folders = [entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith((".", "build"))]
    files = [file.relative_to(root).parts for folder in folders for file in folder.rglob("*") if file.is_file()]
    files += [(entry.name,) for entry in root.iterdir() if entry.is_file()]
    known = {"/".join(parts[start:]) for parts in files for start in range(len(parts))}
    for folder in ("include", "src", "tests"):
        for file in sorted(file for ending in ("h", "cc", "py") for file in (root / folder).rglob(f"*.{ending}")):
            for line, text in comments(file):
                for name in SOURCE_NAME.findall(QUOTED.sub("", text)):
                    if name not in known:
                        yield f"{file.relative_to(root)}:{line}: the comment names {name}, which does not exist"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path, nargs="?", default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--update", action="store_true", help="rewrite quoted output")
    options = parser.parse_args()
    root = options.root
    problems, quotes = [], 0
    for document in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("demo/**/*.md")]):
        found, count = check(root, document, options.update)
        problems += found
        quotes += count
    problems += check_comments(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{quotes} quotations are as in the files they come from")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
