#!/usr/bin/env python3
"""Fails when a file breaks the house: an include that goes up or sideways, or more than 1,000 lines.

A file may include public headers (heed/...), its own folder, and folders of strictly lower rank; only kernels/ may
include SIMD headers. With --sizes, prints the size table (lines by folder). Run by the tests; see HACKING.md.
"""
import argparse
import pathlib
import re
import subprocess
import sys

RANKS = {
    "base": 0,
    "tensor": 1, "kernels": 1, "text": 1,
    "formats": 2, "ops": 2,
    "attention": 3,
    "autograd": 4,
    "nn": 5,
    "models": 6,
    "train": 7, "generate": 7, "inspect": 7,
    "pipelines": 8, "bench": 8,
    "cli": 9, "capi": 9, "python": 9,
}
# A public header has the rank of the folder it describes: include/heed/ may not look up either.
HEADER_RANKS = {
    "error": 0, "cpu": 0, "lanes": 0, "tensor": 1, "score": 1, "text": 1, "io": 2, "ops": 2, "attention": 3, "attention_cache": 3, "autograd": 4, "nn": 5,
    "models": 6, "generate": 7, "inspect": 7, "train": 7, "pipelines": 8, "heed": 9,
}
MOST_LINES = 1000
SIMD_FOLDERS = {"kernels"}
# base/cpu.cc asks Highway what the machine has; it computes nothing with it.
SIMD_EXCEPTIONS = {"src/base/cpu.cc"}
GENERATED = {"page_files.h"}  # made by the build from src/inspect/page/ (src/inspect/embed.cmake)
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
SIMD = re.compile(r"^(hwy/|immintrin\.h|x86intrin\.h|arm_neon\.h)")


def source_files(root):
    """The files git tracks or would track, so that build trees never count."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"], check=False,
                            capture_output=True, text=True)
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:  # an exported tree without git
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and "build" not in p.parts]
    endings = {".cc", ".h", ".inc", ".py", ".js", ".css", ".html", ".cmake", ".sh"}
    for name in names:
        path = root / name
        if path.suffix in endings and path.is_file():
            yield name, path.read_text(encoding="utf-8", errors="replace").splitlines()


def check_include(name, number, quoted, angled, problems):
    parts = pathlib.PurePath(name).parts
    target = quoted or angled
    in_source = parts[0] == "src" and len(parts) > 2
    if angled and SIMD.match(angled) and in_source:
        if parts[1] not in SIMD_FOLDERS and name not in SIMD_EXCEPTIONS:
            problems.append(f"{name}:{number}: only kernels/ may include <{angled}>")
    if parts[0] == "include" and target.startswith("heed/"):
        mine = HEADER_RANKS.get(pathlib.PurePath(name).stem)
        theirs = HEADER_RANKS.get(pathlib.PurePath(target).stem)
        if mine is None or theirs is None or theirs > mine:
            problems.append(f"{name}:{number}: a public header may only include those of its rank or lower; found {target}")
    if not quoted or quoted.startswith("heed/") or not in_source:
        return
    mine, theirs = parts[1], pathlib.PurePath(quoted).parts[0]
    if mine not in RANKS:
        problems.append(f"{name}:{number}: folder {mine} has no rank; give it one in tools/check_house.py and HACKING.md")
    elif theirs not in RANKS:
        if quoted not in GENERATED:
            problems.append(f"{name}:{number}: includes are \"folder/file.h\" from src/; found \"{quoted}\"")
    elif theirs != mine and RANKS[theirs] >= RANKS[mine]:
        problems.append(f"{name}:{number}: {mine} (rank {RANKS[mine]}) may not include {quoted} (rank {RANKS[theirs]})")


def print_sizes(sizes):
    folders = {}
    for name, lines in sizes.items():
        folder = str(pathlib.PurePath(name).parent)
        folders.setdefault(folder, []).append(lines)
    print(f"{'folder':34} {'files':>5} {'lines':>7} {'median':>7} {'largest':>8}")
    for folder, counts in sorted(folders.items()):
        counts.sort()
        print(f"{folder:34} {len(counts):5} {sum(counts):7} {counts[len(counts) // 2]:7} {counts[-1]:8}")
    everything = sorted(sizes.values())
    print(f"{'all':34} {len(everything):5} {sum(everything):7} {everything[len(everything) // 2]:7} {everything[-1]:8}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=str(pathlib.Path(__file__).resolve().parent.parent))
    parser.add_argument("--sizes", action="store_true", help="print lines by folder")
    arguments = parser.parse_args()
    problems, sizes = [], {}
    for name, lines in source_files(pathlib.Path(arguments.root)):
        sizes[name] = len(lines)
        if len(lines) > MOST_LINES:
            problems.append(f"{name}: {len(lines)} lines; at most {MOST_LINES}")
        if name.endswith((".cc", ".h", ".inc")):
            for number, line in enumerate(lines, 1):
                found = INCLUDE.match(line)
                if found:
                    check_include(name, number, found.group(1), found.group(2), problems)
    if arguments.sizes:
        print_sizes(sizes)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(sizes)} files keep the include rule and the limit of {MOST_LINES} lines")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
