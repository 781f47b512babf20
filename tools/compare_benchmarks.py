#!/usr/bin/env python3
"""Compares the benchmarks of two builds, line by line, and ends with 1 where the newer one is slower.

    make compare BASE=<commit>                  builds both trees and compares them
    make compare BASE=<commit> LINES="matmul decode:i8" ROUNDS=9
    tools/compare_benchmarks.py --before PROGRAM --now PROGRAM

Runs `heed bench` of both programs in turn, ROUNDS times, and takes the median of each line. A line is slow when its speed
is below 0.98 of what it was. Slow lines are measured again, up to three times as many rounds, and their medians are those
of all rounds: machines are noisy. LINES chooses benchmarks, or BENCHMARK:TEXT the lines of one that contain the text.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCHMARKS = ("attention", "decode", "options", "matmul", "training")
OLD_NAMES = {"options": "rules"}  # of benchmarks before 0.2; newer programs know them too
LEAST = 0.98  # of the speed before
MORE = 3      # times that slow lines are measured again


def lines_of(benchmark, document):
    """{(benchmark, place, what): (time, unit)} of what `heed bench --json` printed. Place: the shape or the model."""
    lines = {}
    if benchmark == "training":
        for line in document:
            lines[benchmark, line["model"], "step"] = line["seconds"], "s"
        return lines
    for line in document["lines"]:
        what = line.get("what", line.get("rule", ""))
        if benchmark == "options":  # times as long as plain attention
            for direction in ("forward", "backward"):
                if direction in line:
                    lines[benchmark, line["shape"], f"{what}, {direction}"] = line[direction], "x"
            continue
        threads = "1 thread" if line["threads"] == 1 else f"{line['threads']} threads"
        lines[benchmark, line["shape"], f"{what}, {threads}" if what else threads] = line["median_ms"], "ms"
    return lines


def run(program, benchmark, place=None):
    command = [str(program), "bench", OLD_NAMES.get(benchmark, benchmark), "--json"]
    if place:
        command += ["--model" if benchmark == "training" else "--shape", place]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"compare_benchmarks.py: {' '.join(command)} failed:\n{result.stderr}")
    return lines_of(benchmark, json.loads(result.stdout))


def chosen(line, wanted):
    return any(line[0] == name and (not text or text in " ".join(line)) for name, text in wanted)


class Comparison:
    def __init__(self, before, now, wanted):
        self.programs = {"before": before, "now": now}
        self.wanted = wanted
        self.times = {"before": {}, "now": {}}
        self.units = {}
        self.turn = 0

    def measure(self, benchmark, place=None):
        """One run of each program. Who goes first changes from time to time."""
        self.turn += 1
        for side in ("before", "now") if self.turn % 2 else ("now", "before"):
            for line, (time, unit) in run(self.programs[side], benchmark, place).items():
                if chosen(line, self.wanted):
                    self.times[side].setdefault(line, []).append(time)
                    self.units[line] = unit

    def common(self):
        return [line for line in self.times["before"] if line in self.times["now"]]

    def only(self, side):
        other = "now" if side == "before" else "before"
        return [line for line in self.times[side] if line not in self.times[other]]

    def measure_again(self, lines, rounds):
        places = list(dict.fromkeys((line[0], line[1]) for line in lines))
        for _ in range(rounds):
            for benchmark, place in places:
                self.measure(benchmark, place)

    def median(self, side, line):
        return statistics.median(self.times[side][line])

    def ratio(self, line):
        """The speed now, the speed before being 1."""
        now = self.median("now", line)
        return self.median("before", line) / now if now > 0 else float("inf")

    def slow(self):
        return [line for line in self.common() if self.ratio(line) < LEAST]

    def table(self):
        rows = [("line", "before", "now", "", "speed", "rounds", "")]
        for line in self.common():
            ratio = self.ratio(line)
            rows.append((" ".join(line), f"{self.median('before', line):.4g}", f"{self.median('now', line):.4g}",
                         self.units[line], f"{ratio:.3f}", str(len(self.times["now"][line])),
                         "SLOWER" if ratio < LEAST else ""))
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        return "\n".join("  ".join(cell.ljust(width) if n in (0, 3) else cell.rjust(width)
                                   for n, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def build(base, jobs):
    """The program of a commit, built in a worktree under build/compare/; a commit is built once."""
    def call(*command):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"compare_benchmarks.py: {' '.join(command)} failed:\n{result.stdout[-4000:]}{result.stderr}")

    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--verify", "--quiet", base + "^{commit}"], capture_output=True, text=True,
                           check=False)
    if found.returncode != 0:
        sys.exit(f"compare_benchmarks.py: BASE is a commit of this repository, a branch or a tag; found \"{base}\"")
    commit = found.stdout.strip()
    folder = ROOT / "build" / "compare"
    program = folder / f"heed-{commit[:12]}"
    if program.exists():
        return program
    source = folder / commit[:12]
    tree = source / "build" / "release"  # as deep as usual, so that a compiler's cache finds what it has
    print(f"building {base} in {source}", file=sys.stderr)
    if not source.exists():  # (it stands where an earlier build was interrupted)
        call(*git, "worktree", "prune")
        call(*git, "worktree", "add", "--detach", str(source), commit)
    packages = source / "tools" / "install_packages.sh"  # what that commit is built with may not be what this one needs
    if packages.exists():
        call(str(packages), "build")
    call("cmake", "-S", str(source), "-B", str(tree), "-G", "Ninja", "--no-warn-unused-cli", "-DHEED_BUILD_TESTS=OFF",
         "-DHEED_BUILD_EXAMPLES=OFF", "-DHEED_BUILD_BENCH=ON")
    call("cmake", "--build", str(tree), "-j", str(jobs), "--target", "heed_program")
    shutil.copy2(tree / "bin" / "heed", program)
    call(*git, "worktree", "remove", "--force", str(source))
    return program


def parse_lines(words):
    new_names = {old: new for new, old in OLD_NAMES.items()}
    wanted = [(new_names.get(name, name), text) for name, _, text in (word.partition(":") for word in words)]
    for name, _ in wanted:
        if name not in BENCHMARKS:
            sys.exit(f"compare_benchmarks.py: LINES names {', '.join(BENCHMARKS)}, or one of them, a colon and a text; "
                     f"found \"{name}\"")
    return wanted or [(name, "") for name in BENCHMARKS]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    before = parser.add_mutually_exclusive_group(required=True)
    before.add_argument("--base", help="the commit to compare with")
    before.add_argument("--before", type=pathlib.Path, help="its program, where it is built already")
    parser.add_argument("--now", type=pathlib.Path, required=True, help="the program of the current tree")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each program (5)")
    parser.add_argument("--jobs", type=int, default=2, help="jobs of the build (2)")
    parser.add_argument("lines", nargs="*", metavar="LINE", help="a benchmark, or BENCHMARK:TEXT")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        sys.exit(f"compare_benchmarks.py: ROUNDS is at least 1; found {arguments.rounds}")
    wanted = parse_lines(arguments.lines)
    program = arguments.before or build(arguments.base, arguments.jobs)
    for name in (program, arguments.now):
        if not name.is_file():
            sys.exit(f"compare_benchmarks.py: {name} is missing; build the program first")

    load, cores = os.getloadavg()[0], os.cpu_count()
    if load > cores / 2:
        print(f"the machine is busy (load {load:.1f} on {cores} cores): figures will vary, in both directions", file=sys.stderr)
    comparison = Comparison(program, arguments.now, wanted)
    for benchmark in dict.fromkeys(name for name, _ in wanted):
        print(f"measuring {benchmark}", file=sys.stderr)
        comparison.measure(benchmark)
    if not comparison.common():
        sys.exit("compare_benchmarks.py: no line stands on both sides and in LINES")
    comparison.measure_again(comparison.common(), arguments.rounds - 1)
    for _ in range(MORE):
        slow = comparison.slow()
        if slow:
            print(f"measuring again what was slower: {len(slow)} of {len(comparison.common())} lines", file=sys.stderr)
            comparison.measure_again(slow, arguments.rounds)

    print(comparison.table())
    for side, words in (("before", "before alone"), ("now", "now alone")):
        for line in comparison.only(side):
            print(f"{words}: {' '.join(line)}")
    slow = comparison.slow()
    print(f"{len(slow)} of {len(comparison.common())} lines below {LEAST} of the speed before" if slow else
          f"no line of {len(comparison.common())} is below {LEAST} of the speed before")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
