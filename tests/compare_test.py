#!/usr/bin/env python3
"""tools/compare_benchmarks.py must find a slower line, forgive noise and say what stands on one side; with faked programs."""
import json
import pathlib
import subprocess
import sys
import tempfile

TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools" / "compare_benchmarks.py"

# Stands for heed: prints the JSON of `bench`, its times multiplied by the next factor of the list (the last one stays).
PROGRAM = """#!{python}
import json, pathlib, sys
me = pathlib.Path(__file__)
with open(me.parent / "calls", "a") as calls:
    calls.write(me.name + " " + " ".join(sys.argv[1:]) + "\\n")
_, _, benchmark, *arguments = sys.argv
what = json.loads((me.parent / (me.name + ".json")).read_text())
if benchmark not in what:
    sys.exit("heed: no such benchmark")
counter = me.parent / (me.name + ".count")
count = int(counter.read_text()) if counter.exists() else 0
counter.write_text(str(count + 1))
factors = what["factors"]
factor = factors[min(count, len(factors) - 1)]
place = arguments[2] if len(arguments) == 3 else None
lines = [line for line in what[benchmark] if place in (None, line.get("shape", line.get("model")))]
for line in lines:
    for key in ("median_ms", "forward", "backward", "seconds"):
        if key in line and line.get("noisy", True):
            line[key] *= factor
print(json.dumps(lines if benchmark == "training" else {{"lines": lines}}))
"""

ATTENTION = [
    {"shape": "1,2,3", "what": "forward", "threads": 1, "median_ms": 4.0},
    {"shape": "1,2,3", "what": "forward", "threads": 2, "median_ms": 2.0},
    {"shape": "9,9,9", "what": "backward", "threads": 1, "median_ms": 8.0},
]
MATMUL = [{"shape": "64,64,64,NT", "threads": 1, "median_ms": 0.5}]
RULES = [{"shape": "1,2,3", "rule": "softcap", "forward": 1.25, "backward": 1.5},
         {"shape": "1,2,3", "rule": "tap", "forward": 1.1}]
# The same lines as a newer program names them.
NEW_RULES = [{"what" if key == "rule" else key: value for key, value in line.items()} for line in RULES]
TRAINING = [{"model": "gpt", "seconds": 0.5}]


def compare(before, now, arguments, factors=((1,), (1,))):
    """The result of the tool and the calls of the two programs."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, what, factor in (("before", before, factors[0]), ("now", now, factors[1])):
            (root / name).write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
            (root / name).chmod(0o755)
            (root / f"{name}.json").write_text(json.dumps({**what, "factors": factor}), encoding="utf-8")
        result = subprocess.run([sys.executable, str(TOOL), "--before", str(root / "before"), "--now", str(root / "now"),
                                 *arguments], capture_output=True, text=True, check=False)
        calls = root / "calls"
        return result, calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []


def expect(what, ok, result):
    if not ok:
        sys.exit(f"{what}: status {result.returncode}\n{result.stdout}{result.stderr}")


def row(result, name):
    return next((line.split() for line in result.stdout.splitlines() if line.startswith(name)), [])


def main():
    every = {"attention": ATTENTION, "decode": [], "rules": RULES, "matmul": MATMUL, "training": TRAINING}
    result, calls = compare(every, {**every, "rules": NEW_RULES}, [])
    expect("equal programs", result.returncode == 0 and "no line of 8 is below 0.98" in result.stdout and
           "SLOWER" not in result.stdout and "alone" not in result.stdout, result)
    expect("the median of rounds", row(result, "attention 9,9,9 backward, 1 thread")[-5:] == ["8", "8", "ms", "1.000", "5"], result)
    expect("ratios to plain attention", row(result, "options 1,2,3 softcap, backward")[-5:] == ["1.5", "1.5", "x", "1.000", "5"], result)
    expect("training", row(result, "training gpt step")[-5:] == ["0.5", "0.5", "s", "1.000", "5"], result)
    turns = [call.split()[0] for call in calls]
    expect("programs in turn", all(turns[n] != turns[n + 1] for n in range(0, len(turns), 2)) and
           turns[:4] == ["before", "now", "now", "before"], result)

    # One line of three is slower for good: only its shape is measured again, three times.
    slower = [{**line, "noisy": False} for line in ATTENTION]
    slower[2] = {**slower[2], "median_ms": 8.2}
    result, calls = compare({"attention": ATTENTION}, {"attention": slower}, ["--rounds", "3", "attention"])
    expect("a slower line", result.returncode == 1 and "1 of 3 lines below 0.98" in result.stdout, result)
    expect("it is marked", row(result, "attention 9,9,9")[-4:] == ["ms", "0.976", "12", "SLOWER"], result)
    expect("others are not measured again", row(result, "attention 1,2,3 forward, 1 thread")[-1] == "3" and
           calls.count("now bench attention --json --shape 1,2,3") == 2 and
           calls.count("now bench attention --json --shape 9,9,9") == 11, result)
    faster, _ = compare({"attention": slower}, {"attention": ATTENTION}, ["--rounds", "3", "attention"])
    expect("a faster line", faster.returncode == 0 and "1.025" in faster.stdout, faster)

    # Noise: the first three runs of the newer program met a busy machine.
    result, _ = compare({"matmul": MATMUL}, {"matmul": MATMUL}, ["--rounds", "3", "matmul"], ((1,), (2, 2, 2, 1)))
    expect("noise", result.returncode == 0 and "measuring again what was slower: 1 of 1 lines" in result.stderr, result)

    renamed = [{**ATTENTION[0], "what": "prefill"}, *ATTENTION[1:]]
    result, _ = compare({"attention": ATTENTION}, {"attention": renamed}, ["attention"])
    expect("lines of one side", result.returncode == 0 and "before alone: attention 1,2,3 forward, 1 thread" in result.stdout and
           "now alone: attention 1,2,3 prefill, 1 thread" in result.stdout and "no line of 2" in result.stdout, result)

    result, calls = compare(every, every, ["matmul", "attention:2 threads"])
    expect("chosen lines", "no line of 2 is" in result.stdout and not any("rules" in call for call in calls) and
           not any("9,9,9" in call for call in calls), result)

    result, _ = compare(every, every, ["rules:softcap", "options:tap"])
    expect("the old name of a benchmark", "no line of 3 is" in result.stdout, result)

    for what, arguments, expected in (
            ("an unknown benchmark", ["speed"], 'found "speed"'),
            ("no rounds", ["--rounds", "0"], "ROUNDS is at least 1; found 0"),
            ("a benchmark that fails", ["decode"], "heed: no such benchmark"),
            ("no such line", ["matmul:bf16"], "no line stands on both sides")):
        result, _ = compare({"matmul": MATMUL}, {"matmul": MATMUL}, arguments)
        expect(what, result.returncode == 1 and expected in result.stderr and "Traceback" not in result.stderr, result)
    result = subprocess.run([sys.executable, str(TOOL), "--base", "no-such-commit", "--now", str(TOOL)],
                            capture_output=True, text=True, check=False)
    expect("an unknown commit", result.returncode == 1 and 'found "no-such-commit"' in result.stderr, result)
    print("a slower line is found, noise is not")


if __name__ == "__main__":
    main()
