#!/usr/bin/env python3
"""Plants faults (faults.py) in attention, the matrix product, training by several processes and the live page, one at a
time, and counts how many the tests catch.

    tools/plant_faults.py [--only TEXT ...] [--begin N] [--jobs N] [--folder build/faults]
    tools/plant_faults.py --check       only whether each fault still finds its place in the source; run by the tests

Each fault is applied to a copy of the tree, which is built; attention_test and the random cases of soak (other tests
for other folders, see SUITES) run until one fails. A fault that does not compile counts as caught by the compiler and is
listed as such. Prints one line a fault and the score, and exits 1 if fewer than 98 % are caught. Takes one to four
minutes a fault.
"""
import argparse
import pathlib
import resource
import shutil
import signal
import subprocess
import sys

from faults import FAULTS, SUITES

TIMED_OUT = 124
SOURCE = "src/"


def suite_of(name):
    return next(tests for folder, tests in SUITES if name.startswith(folder))


def run(command, folder, seconds):
    """`seconds` of the processor, all threads together: a busy machine is no fault. Of the clock, an hour."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 10))

    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=3600, check=False, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return TIMED_OUT, "timed out"
    over = done.returncode == -signal.SIGXCPU
    return TIMED_OUT if over else done.returncode, done.stdout + done.stderr


def first_failure(output):
    for line in output.splitlines():
        if line.startswith("[  FAILED  ]") or line.startswith("failed:"):
            return line.replace("[  FAILED  ] ", "")[:100]
    return "died"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="faults whose file or description holds one of these texts")
    parser.add_argument("--begin", type=int, default=1, help="the first of them to plant, counted from 1")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", default="build/faults")
    parser.add_argument("--check", action="store_true", help="build nothing: check that each fault finds its place")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    for name, old, _, what in FAULTS:
        path = root / SOURCE / name
        count = path.read_text(encoding="utf-8").count(old) if path.is_file() else 0
        if count != 1:
            sys.exit(f"plant_faults: {path} should hold this once for the fault \"{what}\"; found it {count} times:\n{old}")
    if arguments.check:
        print(f"{len(FAULTS)} faults find their places")
        return 0
    folder = pathlib.Path(arguments.folder).resolve()
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True,
                           check=True).stdout.split("\n")
    for name in filter(None, files):
        if (root / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, tree / name)
    build = folder / "build"
    faults = [f for f in FAULTS if any(text in f[0] + f[3] for text in arguments.only)]
    needed = {tuple(command) for fault in faults for command in suite_of(fault[0])}
    targets = sorted({command[0].removeprefix("tests/") for command in needed})
    program = "ON" if "serve_test" in targets else "OFF"  # the server belongs to the program
    configure = ["cmake", "-S", str(tree), "-B", str(build), "-G", "Ninja", f"-DHEED_BUILD_PROGRAM={program}",
                 "-DHEED_BUILD_EXAMPLES=OFF", "-DHEED_BUILD_TESTS=ON", "-DHEED_WERROR=OFF"]
    compile_all = ["cmake", "--build", str(build), "-j", str(arguments.jobs), "--target", *targets]
    for command in (configure, compile_all):
        code, output = run(command, folder, 7200)
        if code != 0:
            sys.exit(f"plant_faults: the tree without faults does not build:\n{output[-2000:]}")
    for command in needed:
        code, output = run([str(build / command[0]), *command[1:]], build, 1800)
        if code != 0:
            sys.exit(f"plant_faults: the tree without faults fails its tests:\n{output[-2000:]}")

    caught, missed = 0, []
    for number, (name, old, new, what) in list(enumerate(faults, 1))[arguments.begin - 1:]:
        path = tree / SOURCE / name
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(old, new), encoding="utf-8")
        code, output = run(compile_all, folder, 7200)
        verdict = ""
        if code != 0:
            verdict = "the compiler"
        for command in suite_of(name):
            if verdict:
                break
            code, output = run([str(build / command[0])] + command[1:], build, 600)
            if code != 0:
                verdict = "a timeout" if code == TIMED_OUT else first_failure(output)
        path.write_text(text, encoding="utf-8")
        caught += bool(verdict)
        if not verdict:
            missed.append(f"{name}: {what}")
        print(f"{number:3}/{len(faults)}  {'caught' if verdict else 'MISSED'}  {what:48} {verdict}", flush=True)
    faults = faults[arguments.begin - 1:]
    print(f"{caught} of {len(faults)} faults caught ({100 * caught / max(1, len(faults)):.1f} %)")
    for line in missed:
        print(f"missed: {line}")
    return 0 if caught >= 0.98 * len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
