#!/usr/bin/env python3
"""Fails when a file breaks the house: an include that goes up or sideways, more than 1,000 lines, a header that names a
type whose header it does not include, a public header whose declarations a shared library would hide, or a static
variable of a function that a forked process could wait for.

A file may include its own folder and folders of strictly lower rank; a public header (heed/...) counts as part of the
folder that implements it. Only kernels/ may include SIMD headers. With --sizes, prints the size table (lines by folder).
Run by the tests; see HACKING.md.
"""
import argparse
import pathlib
import re
import subprocess
import sys

RANKS = {
    "base": 0,
    "tensor": 1, "kernels": 1, "distributed": 1,
    "formats": 2, "ops": 2,
    "attention": 3, "text": 3,
    "autograd": 4,
    "nn": 5,
    "models": 6,
    "generate": 7, "inspect": 7,
    "train": 8, "pipelines": 8,
    "bench": 9, "capi": 9, "python": 9, "serve": 9,
    "cli": 10,
}
# The folder that each public header belongs to: include/heed/ keeps the rule too. heed.h includes all of them, and
# detail/ has parts of lanes.h.
FOLDER_OF_HEADER = {
    "cpu": "base", "error": "base", "export": "base", "lanes": "base", "memory": "base", "ops_options": "base",
    "tensor": "tensor",
    "distributed": "distributed",
    "io": "formats", "ops": "ops", "text": "text",
    "attention": "attention", "attention_options": "attention", "attention_variants": "attention",
    "distributed_attention": "attention",
    "kv_cache": "attention", "score": "attention",
    "autograd": "autograd", "nn": "nn", "probe": "nn", "models": "models", "generate": "generate", "inspect": "inspect",
    "train": "train", "pipelines": "pipelines",
    "detail/dual": "base", "detail/exact": "base", "detail/inline": "base", "detail/score_block": "base",
    "detail/vector_math": "base", "detail/vectors": "base",
}
MOST_LINES = 1000
SIMD_FOLDERS = {"kernels"}
# base/cpu.cc asks Highway what the machine has; it computes nothing with it.
SIMD_EXCEPTIONS = {"src/base/cpu.cc"}
GENERATED = {"page_files.h"}  # made by the build from src/inspect/page/ (src/inspect/embed.cmake)
# Where the standard library declares what headers name most.
STANDARD = {
    "array": "array", "atomic": "atomic", "chrono": "chrono", "condition_variable": "condition_variable", "deque": "deque",
    "filesystem": "filesystem", "function": "functional", "initializer_list": "initializer_list", "map": "map",
    "make_shared": "memory", "make_unique": "memory", "shared_ptr": "memory", "unique_ptr": "memory", "mutex": "mutex",
    "optional": "optional", "set": "set", "size_t": "cstddef", "span": "span", "string": "string",
    "string_view": "string_view", "thread": "thread", "tuple": "tuple", "int64_t": "cstdint", "uint8_t": "cstdint",
    "uint64_t": "cstdint", "unordered_map": "unordered_map", "unordered_set": "unordered_set", "pair": "utility",
    "variant": "variant", "vector": "vector",
}
STANDARD_NAME = re.compile(r"\bstd::(\w+)")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
# What a function makes when it is first called (base/fork.h). Atomics, flags and bare characters are there from the start.
MADE_LATE = re.compile(r"^\s+(?:const )?static (?!constexpr|std::atomic|std::once_flag|char \w+;)(?:[^(]*?(?: =|;|\{)|const [^(]*\()")
# Programs fork nothing, a forked process has no thread pool, and peaks are measured for HEED_EXPLAIN alone.
NOT_FORKED = {"bench", "cli", "serve"}
FORK_EXCEPTIONS = {"src/attention/call/explain.cc", "src/base/fork.cc", "src/base/thread_pool.cc"}
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
    """Adds to problems what line `number` of file `name`, an include of quoted or of angled, does wrong."""
    parts = pathlib.PurePath(name).parts
    place = f"{name}:{number}"
    in_source = parts[0] == "src" and len(parts) > 2
    public = name.startswith("include/heed/")
    if not in_source and not public:
        return
    if angled and in_source and SIMD.match(angled) and parts[1] not in SIMD_FOLDERS and name not in SIMD_EXCEPTIONS:
        problems.append(f"{place}: only kernels/ may include <{angled}>")
    target = quoted or angled
    if angled and not angled.startswith("heed/") or target in GENERATED or name == "include/heed/heed.h":
        return
    header = name.removeprefix("include/heed/").removesuffix(".h")
    mine = FOLDER_OF_HEADER.get(header) if public else parts[1]
    if mine not in RANKS:
        problems.append(f"{place}: {header + '.h' if public else 'folder ' + mine} has no rank; give it one in "
                        "tools/check_house.py and HACKING.md")
        return
    first, _, rest = target.partition("/")
    theirs = FOLDER_OF_HEADER.get(rest.removesuffix(".h")) if first == "heed" else first
    if theirs not in RANKS or public and first != "heed":
        problems.append(f"{place}: includes are \"heed/header.h\" or \"folder/file.h\" from src/, a public header's are "
                        f"\"heed/header.h\" of a folder that has a rank; found \"{target}\"")
    elif theirs != mine and RANKS[theirs] >= RANKS[mine]:
        problems.append(f"{place}: {mine} (rank {RANKS[mine]}) may not include {target} (rank {RANKS[theirs]})")


def check_standard_headers(name, lines, problems):
    """A header includes what it names: with precompiled headers a missing include shows only where they are off."""
    included = {found.group(2) for found in map(INCLUDE.match, lines) if found}
    for number, line in enumerate(lines, 1):
        for word in STANDARD_NAME.findall(line.partition("//")[0]):
            header = STANDARD.get(word)
            if header and header not in included:
                included.add(header)  # named once
                problems.append(f"{name}:{number}: std::{word} needs #include <{header}>")


def check_static_variables(name, lines, problems):
    """A fork makes static variables of functions first: one that another thread is making never ends in a new process."""
    parts = pathlib.PurePath(name).parts
    if parts[0] != "src" or parts[1] in NOT_FORKED or name in FORK_EXCEPTIONS:
        return
    made = sum("MadeBeforeFork k" in line for line in lines)
    late = [number for number, line in enumerate(lines, 1) if MADE_LATE.match(line)]
    if made < len(late):
        problems.append(f"{name}:{late[made]}: {len(late)} static variables of functions need a MadeBeforeFork each "
                        f"(base/fork.h); found {made}")


def check_exports(name, lines, problems):
    """What a public header declares must be visible in a shared library."""
    if pathlib.PurePath(name).parts[:2] != ("include", "heed") or not any(l.startswith("namespace ") for l in lines):
        return
    kept = [l for l in lines if l.startswith(("namespace ", "HEED_EXPORT_"))]
    if kept[0] != "HEED_EXPORT_BEGIN" or kept[-1] != "HEED_EXPORT_END":
        problems.append(f"{name}: HEED_EXPORT_BEGIN stands before the first namespace and HEED_EXPORT_END behind the "
                        "last one, or a shared library hides what the header declares (heed/export.h)")


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
        check_exports(name, lines, problems)
        if name.endswith(".cc"):
            check_static_variables(name, lines, problems)
        if name.endswith(".h"):
            check_standard_headers(name, lines, problems)
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
        print(f"{len(sizes)} files keep the rules of includes and the limit of {MOST_LINES} lines")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
