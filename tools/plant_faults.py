#!/usr/bin/env python3
"""Plants faults (faults.py) in attention, the matrix product, training by several processes and the live page, one at a
time, and counts how many the tests catch.

    tools/plant_faults.py [--only TEXT ...] [--begin N] [--end N] [--workers N] [--folder build/faults]
    tools/plant_faults.py --check       only whether each fault still finds its place in the source; run by the tests

Each fault is applied to a copy of the tree, which is built; the random cases of soak and attention_test (other tests
for other folders, see SUITES) run until one fails. A fault that does not compile counts as caught by the compiler and is
listed as such. Prints one line a fault and the score, and exits 1 if fewer than 98 % are caught.

There are two stages. In the first, --workers copies of the tree are built without special instruction sets
(HEED_PORTABLE_ONLY), which compiles several times as fast, and faults are planted in them side by side. Only the first two
tests of a suite run there, for two minutes of the processor at most. In the second, the faults that no test caught are
planted again in a copy with all instruction sets, and all tests run. Half a minute a fault on two cores, and one to four
minutes more for those that reach the second stage.
"""
import argparse
import concurrent.futures
import os
import pathlib
import queue
import resource
import shutil
import signal
import subprocess
import sys
import time

from faults import FAULTS, SUITES

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMED_OUT, HUNG = 124, 125
SOURCE = "src/"
FIRST_COMMANDS = 2  # of a suite that the first stage runs: the others take longest and catch least
BUILD_SECONDS, FIRST_SECONDS, WHOLE_SECONDS, FAULT_SECONDS = 7200, 120, 1800, 600
IDLE_SECONDS = 300  # more than a test needs for its sleeps, and for its turns on a busy machine


def suite_of(name):
    return next(tests for folder, tests in SUITES if name.startswith(folder))


def targets_of(faults):
    return sorted({command[0].removeprefix("tests/") for fault in faults for command in suite_of(fault[0])})


def seconds_used(process):
    """Of the processor, all threads together."""
    try:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(command, folder, seconds):
    """`seconds` of the processor, all threads together: a busy machine is no fault. And IDLE_SECONDS in which it waits."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 10))

    begin = time.monotonic()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          preexec_fn=limit) as process:
        while True:
            try:
                output = process.communicate(timeout=2)[0]
                return TIMED_OUT if process.returncode == -signal.SIGXCPU else process.returncode, output
            except subprocess.TimeoutExpired:
                # cmake itself always waits: for the compilers that it has started.
                if command[0] != "cmake" and time.monotonic() - begin - seconds_used(process) > IDLE_SECONDS:
                    process.kill()
                    process.communicate()
                    return HUNG, "it waits"


def first_failure(output):
    for line in output.splitlines():
        if line.startswith("[  FAILED  ]") or line.startswith("failed:"):
            return line.replace("[  FAILED  ] ", "")[:100]
    return "died"


class Tree:
    """A copy of the sources with a build of its own, in which one fault stands at a time.

    first: of the first stage, with fewer tests and less time. tested: they run once without a fault, all to their end; a
    test that fails by itself would seem to catch every fault."""

    def __init__(self, folder, faults, options, jobs, first=False, tested=True):
        self.source, self.build, self.first = folder / "tree", folder / "build", first
        self.copy_sources()
        targets = targets_of(faults)
        program = "ON" if "serve_test" in targets else "OFF"  # the server belongs to the program
        configure = ["cmake", "-S", str(self.source), "-B", str(self.build), "-G", "Ninja", f"-DHEED_BUILD_PROGRAM={program}",
                     "-DHEED_BUILD_EXAMPLES=OFF", "-DHEED_BUILD_TESTS=ON", "-DHEED_WERROR=OFF", "-DHEED_UNITY_BUILD=OFF",
                     *options]
        self.compile = ["cmake", "--build", str(self.build), "-j", str(jobs), "--target"]
        for command in (configure, [*self.compile, *targets]):
            code, output = run(command, self.source, BUILD_SECONDS)
            if code != 0:
                sys.exit(f"plant_faults: the tree without faults does not build:\n{output[-2000:]}")
        needed = {tuple(command) for fault in faults for command in self.tests_of(fault)}
        for command in needed if tested else ():
            code, output = run([str(self.build / command[0]), *command[1:]], self.build, WHOLE_SECONDS)
            if code != 0:
                sys.exit(f"plant_faults: the tree without faults fails its tests:\n{output[-2000:]}")

    def copy_sources(self):
        """Writes only what differs, so that what an earlier run has built here need not be built again."""
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                                check=True).stdout.split("\n")
        names = {name for name in listed if name and (ROOT / name).is_file()}
        for path in list(self.source.rglob("*")):
            if path.is_file() and str(path.relative_to(self.source)) not in names:
                path.unlink()
        for name in names:
            copy = self.source / name
            if copy.is_file() and copy.read_bytes() == (ROOT / name).read_bytes():
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy)

    def tests_of(self, fault):
        return suite_of(fault[0])[:FIRST_COMMANDS if self.first else None]

    def plant(self, fault):
        """What catches it, or "" where nothing does."""
        name, old, new, _ = fault
        path = self.source / SOURCE / name
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(old, new), encoding="utf-8")
        try:
            code, _ = run([*self.compile, *targets_of([fault])], self.source, BUILD_SECONDS)
            if code != 0:
                return "the compiler"
            for command in self.tests_of(fault):
                code, output = run([str(self.build / command[0]), *command[1:]], self.build,
                                   FIRST_SECONDS if self.first else FAULT_SECONDS)
                if self.first and code == TIMED_OUT:  # nobody knows: the second stage tells
                    continue
                if code != 0:
                    return {TIMED_OUT: "a timeout", HUNG: "a hang"}.get(code) or first_failure(output)
            return ""
        finally:
            path.write_text(text, encoding="utf-8")


def check_places():
    for name, old, _, what in FAULTS:
        path = ROOT / SOURCE / name
        count = path.read_text(encoding="utf-8").count(old) if path.is_file() else 0
        if count != 1:
            sys.exit(f"plant_faults: {path} should hold this once for the fault \"{what}\"; found it {count} times:\n{old}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="faults whose file or description holds one of these texts")
    parser.add_argument("--begin", type=int, default=1, help="the first of them to plant, counted from 1")
    parser.add_argument("--end", type=int, default=len(FAULTS), help="the last of them")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="copies of the tree in the first stage (one a core)")
    parser.add_argument("--folder", default="build/faults")
    parser.add_argument("--check", action="store_true", help="build nothing: check that each fault finds its place")
    arguments = parser.parse_args()
    check_places()
    if arguments.check:
        print(f"{len(FAULTS)} faults find their places")
        return 0
    folder = pathlib.Path(arguments.folder).resolve()
    chosen = [f for f in FAULTS if any(text in f[0] + f[3] for text in arguments.only)]
    chosen.sort(key=lambda fault: fault[0])  # the next fault in the same file costs no compilation to mend the last one
    faults = list(enumerate(chosen, 1))[arguments.begin - 1:arguments.end]
    if not faults:
        sys.exit("plant_faults: no fault is chosen")

    def report(number, fault, verdict):
        print(f"{number:3}/{len(chosen)}  {'caught' if verdict else 'MISSED'}  {fault[3]:48} {verdict}", flush=True)

    only_chosen = [fault for _, fault in faults]
    trees = queue.SimpleQueue()
    with concurrent.futures.ThreadPoolExecutor(arguments.workers) as workers:

        def make(n):  # the trees are alike: one of them is tested, while the others begin
            try:
                trees.put(Tree(folder / f"portable{n}", only_chosen, ["-DHEED_PORTABLE_ONLY=ON"], 1, True, tested=n == 0))
            except BaseException as error:  # the others would wait for this tree, or go on for hours
                print(error, file=sys.stderr, flush=True)
                os._exit(1)

        for n in range(arguments.workers):
            workers.submit(make, n)

        def first_stage(numbered):
            tree = trees.get()
            try:
                verdict = tree.plant(numbered[1])
            finally:
                trees.put(tree)
            if verdict:
                report(*numbered, verdict)
            return verdict

        verdicts = list(workers.map(first_stage, faults))

    left = [numbered for numbered, verdict in zip(faults, verdicts) if not verdict]
    missed = []
    if left:
        print(f"{len(left)} are not caught without special instruction sets; now with them", flush=True)
        tree = Tree(folder / "all", [fault for _, fault in left], [], os.cpu_count())
    for number, fault in left:
        verdict = tree.plant(fault)
        report(number, fault, verdict)
        if not verdict:
            missed.append(f"{fault[0]}: {fault[3]}")
    caught = len(faults) - len(missed)
    print(f"{caught} of {len(faults)} faults caught ({100 * caught / len(faults):.1f} %)")
    for line in missed:
        print(f"missed: {line}")
    return 0 if caught >= 0.98 * len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
