#!/usr/bin/env python3
"""tools/check_docs.py must fail on a page or a comment that is not true, and name it."""
import pathlib
import subprocess
import sys
import tempfile

CHECKER = pathlib.Path(__file__).resolve().parent.parent / "tools" / "check_docs.py"

PROGRAM = "// Adds.\n//\n// Prints:\n//   2\nint main() {\n  print(1 + 1);\n}\n"
GUIDE = """# Guide

1. [A sum](#1-a-sum)

## 1. A sum

The function `print` gives 2, see [the program](../examples/sum.cc) and the test `Sum.IsTwo` in `tests/sum_test.cc`.

<!-- from examples/sum.cc -->
```cpp
  print(1 + 1);
```

```sh
build/release/examples/sum
```

<!-- printed by examples/sum.cc -->
```text
2
```
"""
CHINESE = GUIDE.replace("The function `print` gives 2, see [the program]", "函数 `print` 得到 2，见[程序]")
TEST = "TEST(Sum, IsTwo) {}\n"
# The names that stand for files: whole, without their first folders, and in quotation marks, where they may be anybody's.
HEADER = '// Used by examples/sum.cc and sum_test.cc; "x.cc(1)" is text. See https://example.org/product.cc.\n'
SCRIPT = 'print("# product.cc")  # runs sum.cc\n'

# What is changed in which page, and the complaint that is expected.
CASES = {
    "code": ("docs/guide.md", "print(1 + 1);", "print(1 + 2);", "the code quoted from examples/sum.cc"),
    "output": ("docs/guide.md", "text\n2\n", "text\n3\n", "quoted output differs"),
    "file": ("docs/guide.md", "../examples/sum.cc", "../examples/product.cc", "link to ../examples/product.cc"),
    "path": ("docs/guide.md", "`tests/sum_test.cc`", "`tests/sums_test.cc`", "names tests/sums_test.cc"),
    "test": ("docs/guide.md", "`Sum.IsTwo`", "`Sum.IsThree`", "names Sum.IsThree"),
    "suite": ("docs/guide.md", "`Sum.IsTwo`", "`Sums.*`", "names Sums.*"),
    "heading": ("docs/guide.md", "(#1-a-sum)", "(#2-a-sum)", "link to #2-a-sum"),
    "command": ("docs/guide.md", "build/release/examples/sum", "build/release/examples/add", "does not say how to run it"),
    "code of the translation": ("docs/guide.zh-CN.md", "examples/sum\n", "examples/sum \n", "code block that begins with"),
    "missing block": ("docs/guide.zh-CN.md", "<!-- from examples/sum.cc -->\n```cpp\n  print(1 + 1);\n```\n", "", "2 code blocks"),
    "number": ("docs/guide.zh-CN.md", "得到 2", "得到 3", "2 is missing, 3 is too many"),
    "word in code": ("docs/guide.zh-CN.md", "`print`", "`打印`", "print is missing"),
    "comment": ("src/base/sum.h", "examples/sum.cc", "base/sum.cc", "sum.h:1: the comment names base/sum.cc"),
    "comment without a folder": ("src/base/sum.h", "sum_test.cc", "sum_tests.cc", "names sum_tests.cc"),
    "comment in Python": ("tests/run.py", "runs sum.cc", "runs product.cc", "run.py:1: the comment names product.cc"),
    "section": ("docs/guide.zh-CN.md", "## 1. A sum", "1. A sum", "1 sections"),
}


def run(pages):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in pages.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return subprocess.run([sys.executable, str(CHECKER), folder], capture_output=True, text=True, check=False)


def main():
    good = {"examples/sum.cc": PROGRAM, "tests/sum_test.cc": TEST, "docs/guide.md": GUIDE, "docs/guide.zh-CN.md": CHINESE,
            "src/base/sum.h": HEADER, "tests/run.py": SCRIPT}
    result = run(good)
    if result.returncode != 0:
        sys.exit(f"good pages were refused: {result.stderr}")
    for case, (name, old, new, expected) in CASES.items():
        result = run(good | {name: good[name].replace(old, new)})
        if result.returncode != 1 or name not in result.stderr or expected not in result.stderr:
            sys.exit(f"{case}: expected a complaint with {expected!r}; found {result.returncode}: {result.stderr}")
    print(f"{len(CASES)} untrue pages and comments caught")


if __name__ == "__main__":
    main()
