#!/usr/bin/env python3
"""Translates, evaluates and generates with mpirun: the bytes of one process, whatever happens on the way.

    mpirun_translate_test.py HEED_PROGRAM [--kills N] [--only NAME]

With --kills N, random processes are killed N times at random moments (4 by default), and the translation goes on with
another number of processes from the lines that were written (--resume-output). Where mpirun is not installed, or heed
was built without MPI, it says so and exits with 77 (skipped).
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from mpi_runs import SKIPPED, Runs, expect, expect_none_left, letters, processes_of, run_tests, why_not

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "demo" / "en-zh"
ONE = 0  # without mpirun

GENERATOR = """
task = "language_model"
train_source = "{0}/text"
tokenizer = "characters"
batch_tokens = 512
context = 64
max_updates = 30
validate_every = 0

[model]
decoder_layers = 1
width = 32
feed_forward = 64
heads = 2
max_length = 64
"""


class Lines(Runs):
    """Commands that read lines."""

    def __init__(self, heed, folder):
        super().__init__(heed, folder)
        pairs = (ROOT / "demo" / "heldout.tsv").read_text(encoding="utf-8").splitlines()
        self.sources = [line.split("\t")[0] for line in pairs]

    def file(self, name, lines):
        file = self.folder / name
        file.write_bytes("".join(line + "\n" for line in lines).encode())
        return file

    def command(self, ranks, *arguments):
        words = [*map(str, arguments), "--threads", "1"]
        return [self.heed, *words] if ranks == ONE else self.mpirun(ranks, *words)

    def both(self, command, stdin=None, timeout=300, **environment):
        """Status, standard output, standard error."""
        with open(stdin or os.devnull, "rb") as opened:
            done = subprocess.run(command, env=dict(self.environment, **environment), stdin=opened, timeout=timeout,
                                  capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr.decode(errors="replace")

    def same(self, counts, *arguments, stdin=None):
        """What one process writes; every other number of processes must write the same."""
        one = self.both(self.command(ONE, *arguments), stdin)
        for ranks in counts:
            several = self.both(self.command(ranks, *arguments), stdin)
            expect(several == one, f"{ranks} processes: {several} instead of {one}")
        return one


def same_bytes(runs):
    lines = runs.sources[:150]
    lines[7] = lines[91] = ""
    lines[33] = "我们 不 知道"  # nothing that the model knows
    lines[70] = "Well, " * 60 + "where is it?"  # as long as twenty others
    lines[34] = lines[35] = "他们 也 不 知道"
    file = runs.file("text", lines)
    status, out, err = runs.same((1, 2, 3, 4), "translate", MODEL, stdin=file)
    expect(status == 0 and out.count(b"\n") == 150, err)
    expect("standard input, line 34: " in err and "3 lines in all are mostly unknown" in err, err)
    few = runs.file("few-options", lines[:60])
    status, out, err = runs.same((3,), "translate", MODEL, "--input", few, "--json", "--beam", 2)
    expect(status == 0 and json.loads(out.splitlines()[0])["source"] == lines[0], err)
    status, out, err = runs.same((2,), "translate", MODEL, "--input", few, "--n-best", 3, "--beam", 4, "--gnmt")
    expect(status == 0 and out.count(b"\n") == 180 - 2, err)  # nothing has one translation


def few_lines(runs):
    for count in (0, 1, 2, 5):
        file = runs.file(f"few{count}", runs.sources[:count])
        status, out, err = runs.same((2, 4), "translate", MODEL, stdin=file)
        expect(status == 0 and out.count(b"\n") == count and not err, err)
    status, out, err = runs.same((2,), "translate", MODEL, "Where is the station?")
    expect((status, err) == (0, "") and out.decode() == "车站在哪里？\n", out)
    file = runs.folder / "unended"  # no line end, and one of another system
    file.write_bytes(b"Where is the station?\r\nThank you.")
    expect(runs.same((3,), "translate", MODEL, stdin=file)[1].count(b"\n") == 2, "two lines")


def one_answer(runs):
    status, out, err = runs.same((1, 2, 4), "train", "--print-recipe")
    expect(status == 0 and json.loads(out)["task"] == "translation", err)


def evaluation(runs):
    pairs = (ROOT / "demo" / "heldout.tsv").read_text(encoding="utf-8").splitlines()[:60]
    file = runs.file("pairs", pairs)
    status, out, err = runs.same((1, 2, 3), "evaluate", MODEL, "--pairs", file, "--tokenize", "zh", "--json",
                                 "--batch-tokens", 256)
    result = json.loads(out)
    expect(status == 0 and result["loss"] > 0 and result["bleu"]["score"] > 0, err)
    for ranks in (ONE, 3):
        output = runs.folder / f"system{ranks}"
        status, _, err = runs.both(runs.command(ranks, "evaluate", MODEL, "--pairs", file, "--output", output))
        expect(status == 0, err)
    expect((runs.folder / "system0").read_bytes() == (runs.folder / "system3").read_bytes(), "the same translations")
    runs.same((2,), "evaluate", "--hypotheses", runs.folder / "system0", "--pairs", file)
    status, out, err = runs.same((2, 3), "evaluate", generator_of(runs), "--text", runs.folder / "text", "--json",
                                 "--batch-tokens", 512)
    expect(status == 0 and json.loads(out)["loss"] > 0, err)


def generator_of(runs):
    folder = runs.folder / "generator"
    if not folder.exists():
        (runs.folder / "text").write_text(letters(400, 1))
        recipe = runs.folder / "generator.toml"
        recipe.write_text(GENERATOR.format(runs.folder))
        status, text = runs.run(runs.command(ONE, "train", "--config", recipe, "--output", folder))
        expect(status == 0, text)
    return folder


def prompts(runs):
    model = generator_of(runs)
    lines = [f"a {'b c ' * (i % 5)}" for i in range(23)] + ["", "h"]
    file = runs.file("prompts", lines)
    options = ["generate", model, "--max-tokens", 40, "--temperature", 1.5]
    several = [*options, "--seed", 100, "--prompts", file]
    status, out, err = runs.same((1, 2, 4), *several)
    made = out.decode().split("\n")
    expect(status == 0 and len(made) == len(lines) + 1, err)
    runs.same((3,), *several[:-1], "-", "--count", 2, "--json", stdin=file)
    for place in (0, 9, 24):  # a line's seed is its own: each prompt alone, with that seed
        status, alone, err = runs.both(runs.command(ONE, *options, "--seed", 100 + place, "--prompt", lines[place]))
        expect(status == 0, err)
        alone = alone.decode()[:-1].replace("\n", " ")
        expect(alone == made[place], f"{alone!r}; found {made[place]!r}")
    whole = runs.folder / "texts"
    whole.write_bytes(b"\n".join(out.split(b"\n")[:11]) + b"\nhalf a li")
    status, _, err = runs.both(runs.command(2, *several, "--resume-output", whole))
    expect(status == 0 and whole.read_bytes() == out, err)


def refusals(runs):
    file = runs.file("good", runs.sources[:40])

    def refused(command, wanted, status=1, stdin=file, **environment):
        found, _, err = runs.both(command, stdin, **environment)
        expect(found == status and err.count(wanted) == 1 and err.count("heed translate: ") <= 1,
               f"status {status} and {wanted!r} once; found {found} and {err!r}")

    def mixed(first, second):
        command = runs.command(1, *first)
        return [*command, ":", "-n", "1", *command[command.index(runs.heed):][:1], *map(str, second)]

    refused(mixed(["translate", MODEL, "--beam", 2], ["translate", MODEL, "--beam", 3]),
            "expected the same options on all ranks; rank 1")
    other = runs.folder / "other-model"
    shutil.copytree(MODEL, other)
    away = runs.folder / "moved"
    hide = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then set -- "${@/other-model/moved}"; fi; exec "$@"'
    hidden = runs.command(2, "translate", other)
    at = hidden.index(runs.heed)
    refused([*hidden[:at], "bash", "-c", hide, "bash", *hidden[at:]], "rank 1 (")
    config = json.loads((other / "config.json").read_text())
    shutil.copytree(other, away)
    config["max_length"] = config["max_length"] - 1
    (away / "config.json").write_text(json.dumps(config))
    refused([*hidden[:at], "bash", "-c", hide, "bash", *hidden[at:]], "expected the same options on all ranks; rank 1")
    bad = runs.folder / "bad"
    bad.write_bytes(b"".join(line.encode() + b"\n" for line in runs.sources[:70]) + b"\xff\nThank you.\n")
    one = runs.both(runs.command(ONE, "translate", MODEL), bad)
    expect(one[0] == 1 and one[1].count(b"\n") == 70 and "standard input, line 71: expected valid UTF-8" in one[2], one)
    several = runs.both(runs.command(3, "translate", MODEL), bad)
    expect(several == one, f"{several} instead of {one}")
    refused(runs.command(2, "translate", MODEL, "--input", "/no/such"), "'/no/such' cannot be read")
    refused(runs.command(2, "generate", generator_of(runs), "x"), "--prompts FILE gives them", status=2)
    refused(runs.command(2, "translate", MODEL, "--resume-output", "o", "--n-best", 2), "a line a sentence", status=2)


def resumed(runs):
    """The file of --resume-output, in one process: what it goes on from, and what it refuses."""
    file = runs.file("forty", runs.sources[:40])
    whole = runs.both(runs.command(ONE, "translate", MODEL), file)[1]
    output = runs.folder / "forty.out"
    go_on = runs.command(ONE, "translate", MODEL, "--resume-output", output)
    lines = whole.split(b"\n")
    for begun in (None, b"", b"\n".join(lines[:1]) + b"\n", b"\n".join(lines[:17]), whole[:-2], whole,
                  b"\n".join([*lines[:39], b"half of a long line " * 99])):
        if begun is not None:
            output.write_bytes(begun)
        elif output.exists():
            output.unlink()
        status, out, err = runs.both(go_on, file)
        expect((status, out, err) == (0, b"", ""), (begun, status, out, err))
        expect(output.read_bytes() == whole, f"the same lines; it had {begun}")

    def refused(begun, wanted, command=tuple(go_on), status=2):
        output.write_bytes(begun)
        found, _, err = runs.both(list(command), file)
        expect(found == status and wanted in err, f"{wanted!r}; found {found}, {err!r}")
        expect(output.read_bytes() == begun, "the file stays as it was")

    refused(whole + lines[0] + b"\n", "expected at most as many lines as standard input has, 40; found 41", status=1)
    refused(b"\n".join([*lines[:9], b"other"]) + b"\n", "line 10 of ")
    refused(whole, "is not what this command makes of that line", [*go_on, "--scores"])
    refused(whole, "a line a sentence", [*go_on, "--n-best", "2"])
    refused(whole, "takes another file than the input", [*go_on, "--input", str(output)])
    for bad, wanted in ((runs.folder, "Is a directory"), ("/no/such/file", "No such file"), ("-", "takes a file")):
        status, _, err = runs.both(runs.command(ONE, "translate", MODEL, "--resume-output", bad), file)
        expect(status != 0 and wanted in err, err)
    output.unlink()
    with subprocess.Popen(go_on, env=runs.environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        while not output.exists():
            time.sleep(0.02)
        status, _, err = runs.both(go_on, file)
        expect(status == 1 and "another process is writing it" in err, err)
        first.stdin.close()
        expect(first.wait(20) == 0, "it ends with its input")


def kills(runs, count):
    lines = runs.sources[:400]
    file = runs.file("many", lines)
    whole = runs.both(runs.command(ONE, "translate", MODEL), file)[1]
    seed = random.randrange(1 << 30)
    print(f"  seed {seed}")
    draw = random.Random(seed)
    output = runs.folder / "killed"
    done = 0
    while done < count:
        output.unlink(missing_ok=True)
        finished = False
        while not finished:
            ranks = draw.choice((ONE, 2, 3, 4))
            wanted = draw.randint(1, 150)  # lines more than there are
            name = f"{os.getpid()}-{done}-{time.time()}"
            runs.environment["HEED_TEST_RUN"] = name
            before = output.read_bytes().count(b"\n") if output.exists() else 0
            command = runs.command(ranks, "translate", MODEL, "--resume-output", output)
            with open(file, "rb") as opened, subprocess.Popen(
                    command, env=runs.environment, stdin=opened, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    text=True, errors="replace") as process:
                while process.poll() is None and (
                        not output.exists() or output.read_bytes().count(b"\n") < before + wanted):
                    time.sleep(0.005)
                victims = processes_of(name) if done < count else {}
                if victims and process.poll() is None:
                    rank = draw.choice(sorted(victims))
                    os.kill(victims[rank], signal.SIGKILL)
                    killed_at = time.monotonic()
                    text, _ = process.communicate(timeout=60)
                    took = time.monotonic() - killed_at
                    finished = process.returncode == 0  # its work was done
                    if not finished:
                        done += 1
                        have = output.read_bytes().count(b"\n")
                        print(f"  killed {done}: rank {rank} of {max(1, ranks)}, ended after {took:.1f} s, {have} lines "
                              "are written", flush=True)
                        expect(took < 10, f"the run ended {took:.1f} s after rank {rank} was killed: {text}")
                        # (At the very end of the work, the others may be done before mpirun ends them.)
                        if f"rank {rank} (" in text and "other ranks do its work" not in text:
                            expect(re.search(r"go on with: mpirun -n \d heed translate .*--resume-output", text), text)
                else:
                    text, _ = process.communicate(timeout=300)
                    finished = process.returncode == 0
                    expect(finished, text)
            expect(whole.startswith(output.read_bytes()), "lines in order, without a gap")
        expect(output.read_bytes() == whole, "the bytes of a run that was left alone")


def lost_and_replaced(runs):
    """Where mpirun goes on without a process that died, so does the translation: others do its lines."""
    file = runs.file("lost", runs.sources)
    whole = runs.both(runs.command(ONE, "translate", MODEL), file)[1]
    output = runs.folder / "lost.out"
    command = runs.command(3, "translate", MODEL, "--resume-output", output)
    command.insert(1, "-enable-recovery")
    runs.environment["HEED_TEST_RUN"] = name = f"{os.getpid()}-lost"
    with open(file, "rb") as opened, subprocess.Popen(
            command, env=runs.environment, stdin=opened, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace") as process:
        while not output.exists() or not output.stat().st_size:
            expect(process.poll() is None, "a translation that goes on")
            time.sleep(0.01)
        os.kill(processes_of(name)[1], signal.SIGKILL)
        text, _ = process.communicate(timeout=300)
    expect(process.returncode == 0 and output.read_bytes() == whole, f"status {process.returncode}: {text}")
    expect(text.count("other ranks do its work") == 1 and "expected rank 1 (" in text, text)


def asked_to_stop(runs):
    lines = runs.sources * 20
    file = runs.file("long", lines)
    output = runs.folder / "stopped"
    for number in (signal.SIGINT, signal.SIGTERM):
        runs.environment["HEED_TEST_RUN"] = name = f"{os.getpid()}-stop-{number}"
        output.unlink(missing_ok=True)
        with open(file, "rb") as opened, subprocess.Popen(
                runs.command(3, "translate", MODEL, "--resume-output", output), env=runs.environment, stdin=opened,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
            while not output.exists() or not output.stat().st_size:
                expect(process.poll() is None, "a translation that goes on")
                time.sleep(0.02)
            process.send_signal(number)
            text, _ = process.communicate(timeout=20)
        expect(process.returncode != 0, "a status that is not 0")
        expect(text.count("interrupted; go on with: mpirun -n 3 heed translate") == 1, text)
        expect_none_left(name)
        expect(output.read_bytes().endswith(b"\n"), "whole lines")
    runs.environment["HEED_TEST_RUN"] = name = f"{os.getpid()}-pipe"
    with open(file, "rb") as opened, subprocess.Popen(
            runs.command(3, "translate", MODEL), env=runs.environment, stdin=opened, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE) as process:
        expect(process.stdout.readline(), "a first line")
        process.stdout.close()  # as `| head -1` does
        expect(process.wait(20) != 0, "a status that is not 0")
        expect(b"heed translate:" not in process.stderr.read(), "no message")
    expect_none_left(name)


def asked_to_stop_while_one_hangs(runs):
    """MPI has to end the rank that hangs, and the job still says that it was interrupted."""
    file = runs.file("hanging", runs.sources * 20)
    output = runs.folder / "hanging.out"
    runs.environment["HEED_TEST_RUN"] = name = f"{os.getpid()}-hang"
    with open(file, "rb") as opened, subprocess.Popen(
            runs.command(2, "translate", MODEL, "--resume-output", output), env=runs.environment, stdin=opened,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        while not output.exists() or not output.stat().st_size:
            expect(process.poll() is None, "a translation that goes on")
            time.sleep(0.02)
        found = processes_of(name)
        os.kill(found[1], signal.SIGSTOP)
        os.kill(found[0], signal.SIGTERM)
        text, _ = process.communicate(timeout=60)
    expect(process.returncode == 128 + signal.SIGTERM, f"status 143; found {process.returncode}: {text}")
    expect(text.count("interrupted; go on with: mpirun -n 2 heed translate") == 1, text)
    expect_none_left(name)


TESTS = {"same_bytes": same_bytes, "few_lines": few_lines, "evaluation": evaluation, "prompts": prompts,
         "refusals": refusals, "resumed": resumed, "lost_and_replaced": lost_and_replaced,
         "asked_to_stop": asked_to_stop, "asked_to_stop_while_one_hangs": asked_to_stop_while_one_hangs,
         "one_answer": one_answer}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("heed")
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--only")
    options = parser.parse_args()
    reason = why_not(options.heed)
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="heed-mpi-") as folder:
        tests = dict(TESTS, kills=lambda r: kills(r, options.kills))
        run_tests(tests, Lines(options.heed, pathlib.Path(folder)), options.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
