#!/usr/bin/env python3
"""Lists the tests that the last run of ctest skipped, by reason: tools/list_skips.py BUILD_FOLDER.

make test ends with this list. In a clone with nothing beside it, only these are skipped: what needs data that a licence
keeps out of the project, what the processor cannot do, and what needs a package that Debian does not have.
"""
import pathlib
import re
import sys

GTEST_STARTS = re.compile(r"\[ RUN      \] (\S+)")
GTEST_SKIPS = re.compile(r"\S+:\d+: Skipped$")  # the reason is the next line
UNITTEST_SKIPS = re.compile(r"(\w+) \(([\w.]+?)(?:\.\1)?\).* \.\.\. skipped (['\"])(.*)\3$")


def skips(log):
    """{reason: the groups of tests that were skipped for it, a group for each test}, in the order of the log."""
    found, test, reason_follows = {}, "", False
    for line in log.splitlines():
        if reason_follows:
            found.setdefault(line, []).append(test)
        reason_follows = bool(GTEST_SKIPS.match(line))
        if started := GTEST_STARTS.match(line):
            test = started[1]
        elif skipped := UNITTEST_SKIPS.match(line):
            found.setdefault(skipped[4], []).append(skipped[2])
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    log = pathlib.Path(sys.argv[1]) / "Testing" / "Temporary" / "LastTest.log"
    if not log.exists():
        sys.exit(f"{log} is not there: run ctest in {sys.argv[1]} first")
    found = skips(log.read_text(encoding="utf-8", errors="replace"))
    if not found:
        print("No test was skipped.")
    for reason, tests in found.items():
        print(f"Skipped {', '.join(dict.fromkeys(tests))} ({len(tests)}): {reason}")


if __name__ == "__main__":
    main()
