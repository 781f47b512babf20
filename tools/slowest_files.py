#!/usr/bin/env python3
"""Prints the ten files that took longest to compile in a build folder, and the seconds of each folder.

    tools/slowest_files.py build/release

The times are those of Ninja's log: wall-clock seconds of the last build of each file. Build with CCACHE_DISABLE=1 into a new
folder, with as many jobs as there are cores, to compare two of them.
"""
import collections
import pathlib
import sys


def read_log(folder):
    """{output: seconds} of the last build of each object file or precompiled header."""
    log = pathlib.Path(folder) / ".ninja_log"
    if not log.is_file():
        sys.exit(f"slowest_files.py: {log} is missing; name a folder that was built with Ninja")
    seconds = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if len(fields) < 4 or not fields[3].endswith((".o", ".gch")) or not (log.parent / fields[3]).exists():
            continue  # (the log keeps files that the build no longer makes)
        seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return seconds


def source_of(output):
    """src/CMakeFiles/heed_text.dir/text/utf8.cc.o -> src/text/utf8.cc"""
    parts = pathlib.PurePath(output).parts
    kept = list(parts)
    if "CMakeFiles" in kept:
        at = kept.index("CMakeFiles")
        target = kept[at + 1].removesuffix(".dir")
        inside = kept[at + 2:]
        if inside[:1] == ["Unity"]:  # several files of a target in one
            inside = [target.removeprefix("heed_").removesuffix("_test")] + inside if at == 1 else inside
        kept = kept[:at] + inside
    return "/".join(kept).removesuffix(".o")


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    files = collections.Counter()
    for output, seconds in read_log(sys.argv[1]).items():
        files[source_of(output)] += seconds
    folders = collections.Counter()
    for name, seconds in files.items():
        parts = pathlib.PurePath(name).parent.parts
        folders["/".join(part for part in parts if part != "Unity")] += seconds
    print("slowest files")
    for name, seconds in files.most_common(10):
        print(f"{seconds:9.1f} s  {name}")
    print("by folder")
    for folder, seconds in folders.most_common():
        print(f"{seconds:9.1f} s  {folder}")
    print(f"{sum(files.values()):9.1f} s  all, {len(files)} files")


if __name__ == "__main__":
    main()
