#!/usr/bin/env python3
"""Checks that the files of each folder compile as one file, in any groups.

A first build compiles several files of a folder together (cmake/build_time.cmake). Which ones depends on how many files
there are, so a name that two files define in their unnamed namespaces may stop the build only later, when a file is
added. With ccache files are compiled one by one and nothing is noticed. This checks the syntax of all files of each
target together: make together, or tools/check_together.py build/release [target ...].
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALONE = re.compile("foreach_target|operator new")  # as in cmake/build_time.cmake
NOT_TOGETHER = {"malformed_test"}  # UNITY_BUILD OFF in tests/CMakeLists.txt


def targets(build):
    """Target -> (folder and options of its compiler, files)."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        target = re.search(r"CMakeFiles/([^/ ]+)\.dir/", entry["command"])
        source = Path(entry["directory"], entry["file"])
        if target is None or source.suffix != ".cc" or ALONE.search(source.read_text()):
            continue
        words = shlex.split(entry["command"])
        if Path(words[0]).name == "ccache":
            words = words[1:]
        options = words[: words.index("-o")] + ["-fsyntax-only", "-w"]
        found.setdefault(target.group(1), (entry["directory"], options, []))[2].append(source)
    return {name: found[name] for name in found if len(found[name][2]) > 1 and name not in NOT_TOGETHER}


def errors_of(item):
    name, (folder, options, files) = item
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as together:
        together.writelines(f'#include "{file}"\n' for file in files)
        together.flush()
        run = subprocess.run(options + [together.name], cwd=folder, capture_output=True, text=True)
    return name, len(files), "" if run.returncode == 0 else run.stderr


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = Path(sys.argv[1]).resolve()
    wanted = targets(build)
    unknown = [name for name in sys.argv[2:] if name not in wanted]
    if unknown:
        sys.exit(f"targets with several files: {', '.join(wanted)}; found {', '.join(unknown)}")
    if sys.argv[2:]:
        wanted = {name: wanted[name] for name in sys.argv[2:]}
    failed = False
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, files, errors in pool.map(errors_of, wanted.items()):
            if errors:
                failed = True
                lines = [line.replace(f"{ROOT}/", "") for line in errors.splitlines() if "error:" in line]
                print(f"{name}: its {files} files do not compile as one", *lines[:8], sep="\n  ")
    if failed:
        sys.exit(1)
    print(f"the files of each of {len(wanted)} targets compile as one")


if __name__ == "__main__":
    main()
