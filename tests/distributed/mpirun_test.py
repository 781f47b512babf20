#!/usr/bin/env python3
"""Trains with mpirun: the same bits for any number of processes, whatever happens to them on the way.

    mpirun_test.py HEED_PROGRAM [--kills N] [--only NAME] [--two-hosts]

With --kills N, random ranks are killed N times at random moments (3 by default; `make kills` has 200). Prints what was
killed, and compares the weights with those of one process that was left alone. Where mpirun is not installed, or heed
was built without MPI, it says so and exits with 77 (skipped). With --two-hosts the ranks are on two hosts, made of
network namespaces (two_hosts.sh); where these cannot be made, it says so and exits with 77.
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

from mpi_runs import SKIPPED, TWO_HOSTS, Runs, expect, expect_none_left, letters, processes_of, run_tests, why_not

RECIPE = """
task = "translation"
train_source = "{0}/text"
train_target = "{0}/text"
valid_source = "{0}/valid"
valid_target = "{0}/valid"
tokenizer = "pieces"
shared_vocabulary = true
preset = "tiny"
batch_tokens = 128
shards = 4
clip_norm = 1.0
max_updates = {1}
validate_every = 20
checkpoint_every = 4
compare_every = 10
keep_last = 2
log_every = 10

[model]
encoder_layers = 1
decoder_layers = 1
width = 32
feed_forward = 64
heads = 2
dropout = 0.1
attention_dropout = 0.1
max_length = 16
share_embeddings = true
"""


class Trainings(Runs):
    def __init__(self, heed, folder, two_hosts):
        super().__init__(heed, folder, two_hosts)
        (folder / "text").write_text(letters(400, 1))
        (folder / "valid").write_text(letters(24, 2))

    def recipe(self, updates):
        file = self.folder / f"{updates}.toml"
        file.write_text(RECIPE.format(self.folder, updates))
        return file

    def train(self, ranks, output, updates, *more):
        """The arguments of a training that begins, or goes on where there is one."""
        arguments = ["train", "--config", self.recipe(updates), "--output", output, "--threads", 1, *more]
        if (pathlib.Path(output) / ".lock").exists():
            arguments.append("--resume")
        return [self.heed, *map(str, arguments)] if ranks == 0 else self.mpirun(ranks, *arguments)


def weights(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(pathlib.Path(folder).rglob("*.safetensors"))}


def figures(folder):
    lines = []
    for line in (pathlib.Path(folder) / "log.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry["type"] != "start":
            lines.append({k: v for k, v in entry.items() if k not in ("seconds", "tokens_per_second")})
    return lines


def same_bits(runs):
    alone = runs.folder / "alone"
    status, text = runs.run(runs.train(0, alone, 40))
    expect(status == 0, text)
    for ranks in (1, 2, 3, 4):
        output = runs.folder / f"ranks{ranks}"
        status, text = runs.run(runs.train(ranks, output, 40))
        expect(status == 0, text)
        expect(weights(alone) == weights(output), f"{ranks} processes: other weights than those of one")
        expect(figures(alone) == figures(output), f"{ranks} processes: another log than that of one")
        expect(text.count("finished after 40 updates") == 1, f"one line that it is finished; found {text}")


LANGUAGE_MODEL = """
task = "language_model"
train_source = "{0}/text"
valid_source = "{0}/valid"
tokenizer = "characters"
preset = "tiny"
context = 1700
batch_sentences = 2
shards = 2
context_parallel = 2
schedule.warmup = 2
max_updates = 6
validate_every = 3
compare_every = 2

[model]
decoder_layers = 2
width = 32
feed_forward = 64
heads = 2
dropout = 0.1
attention_dropout = 0.1
max_length = 1700
"""


def shared_sequences(runs):
    """Groups of ranks that share sequences longer than three units of keys; and a change of grid on the way."""
    recipe = runs.folder / "language_model.toml"
    recipe.write_text(LANGUAGE_MODEL.format(runs.folder))

    def train(output, ranks, *more):
        arguments = ["train", "--config", recipe, "--output", runs.folder / output, "--threads", 1, *more]
        status, text = runs.run([runs.heed, *map(str, arguments)] if ranks == 0 else runs.mpirun(ranks, *arguments))
        expect(status == 0, text)
        return weights(runs.folder / output)

    alone = train("sequences-alone", 0)
    for ranks, more in ((2, ()), (2, ("--context-ranks", 1)), (4, ())):
        name = f"sequences-{ranks}-{len(more)}"
        expect(train(name, ranks, *more) == alone, f"{name}: other weights than those of one process")
    train("sequences-changed", 4, "--max-updates", 3)
    expect(train("sequences-changed", 2, "--resume")["model.safetensors"] == alone["model.safetensors"],
           "other weights where 2 processes go on after 4")
    status, text = runs.run(runs.mpirun(3, "train", "--config", recipe, "--output", runs.folder / "none"))
    expect(status != 0 and text.count("as many shards as processes, or more; found shards = 2 and 3 processes") == 1, text)


def mixed_instruction_sets(runs):
    status, text = runs.run([runs.heed, "info", "--json"])
    isas = json.loads(text)["kernels_available"]
    if len(isas) < 2:
        print("  one instruction set only: nothing to mix")
        return
    outputs = []
    for first, second in ((isas[-1], isas[-1]), (isas[0], isas[-1]), (isas[-1], isas[0])):
        output = runs.folder / f"isa-{first}-{second}"
        command = runs.train(1, output, 20)
        ours = command[command.index(runs.heed):]
        command = command[:command.index("-n")] + ["-n", "1", "env", f"HEED_ISA={first}", *ours, ":", "-n", "1", "env",
                                                   f"HEED_ISA={second}", *ours]
        status, text = runs.run(command)
        expect(status == 0, text)
        outputs.append(weights(output))
    expect(outputs[0] == outputs[1] == outputs[2], "other weights with mixed instruction sets")


def kills(runs, count):
    updates = 600
    whole = runs.folder / "whole"
    status, text = runs.run(runs.train(0, whole, updates), timeout=600)
    expect(status == 0, text)
    seed = random.randrange(1 << 30)
    print(f"  seed {seed}")
    draw = random.Random(seed)
    done, rounds = 0, 0
    several, named = 0, 0  # kills of one of several, and those that another one told of: mpirun may end it too soon
    while done < count:
        rounds += 1
        output = runs.folder / f"killed{rounds}"
        finished = False
        while not finished:
            ranks = draw.randint(1, 4)
            limit = draw.uniform(0.6, 2.5) if done < count else 1e9
            name = f"{os.getpid()}-{rounds}-{done}-{time.time()}"
            runs.environment["HEED_TEST_RUN"] = name
            process = runs.start(runs.train(ranks, output, updates))
            moment = time.monotonic() + limit
            while time.monotonic() < moment and process.poll() is None:
                time.sleep(0.01)
            if process.poll() is None:
                victims = processes_of(name)
                if victims:
                    rank = draw.choice(sorted(victims))
                    trains = (output / "log.jsonl").exists()
                    try:
                        os.kill(victims[rank], signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                    killed_at = time.monotonic()
                    text, _ = process.communicate(timeout=60)
                    took = time.monotonic() - killed_at
                    expect(took < 10, f"the run ended {took:.1f} s after rank {rank} was killed: {text}")
                    finished = process.returncode == 0  # the last one had done its work
                    if not finished:
                        done += 1
                        checkpoints = sorted(p.name for p in output.glob("checkpoints/step-*"))
                        print(f"  killed {done}: rank {rank} of {ranks}, ended after {took:.1f} s, at "
                              f"{checkpoints[-1] if checkpoints else 'the beginning'}", flush=True)
                        if ranks > 1 and trains and not runs.two_hosts and "finished after" not in text:
                            lines = text.count(f"expected rank {rank} (")
                            expect(lines <= 1 and text.count("go on with: mpirun") == lines,
                                   f"one line that names rank {rank} and says how to go on; found {text!r}")
                            several += 1
                            named += lines
                else:  # it had not begun
                    process.kill()
                    process.communicate()
            else:
                text, _ = process.communicate()
                expect(process.returncode == 0, text)
                finished = True
        expect((whole / "model.safetensors").read_bytes() == (output / "model.safetensors").read_bytes(),
               "a run that was killed and went on has other weights than one that was left alone")
        shutil.rmtree(output)
    expect(2 * named >= several, f"{several} kills of one of several processes named; found {named}")
    print(f"  {named} of {several} lost processes named")
    print(f"  {done} kills in {rounds} trainings of {updates} updates; all ended with the same bits")


def asked_to_stop(runs):
    output = runs.folder / "stopped"
    runs.environment["HEED_TEST_RUN"] = name = f"{os.getpid()}-stop"
    process = runs.start(runs.train(2, output, 100000))
    while not list(output.glob("checkpoints/step-*")):
        expect(process.poll() is None, "a training that goes on")
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=20)
    expect(process.returncode != 0, "a status that is not 0")
    expect("interrupted, and saved; go on with: mpirun -n 2 heed train" in text, text)
    expect_none_left(name)


def silent_rank(runs):
    output = runs.folder / "silent"
    runs.environment["HEED_TEST_RUN"] = name = f"{os.getpid()}-silent"
    process = runs.start(runs.train(2, output, 100000, "--peer-timeout", 1))
    while not list(output.glob("checkpoints/step-*")):
        expect(process.poll() is None, "a training that goes on")
        time.sleep(0.05)
    os.kill(processes_of(name)[1], signal.SIGSTOP)
    text, _ = process.communicate(timeout=20)
    expect(process.returncode != 0, "a status that is not 0")
    # A busy machine may look a little later.
    expect(re.search(r"expected an answer from rank 1 .*within \d+(\.\d+)? s; found none \(go on with: mpirun -n 2", text), text)
    expect(text.count("expected an answer from") == 1, f"nobody blames the others; found {text!r}")
    expect_none_left(name)


def refusals(runs):
    def refused(command, wanted, times=1, **environment):
        status, text = runs.run(command, **environment)
        expect(status != 0 and text.count(wanted) == times, f"{wanted!r} {times} times; found {text!r}")

    output = runs.folder / "refused"
    refused(runs.train(5, output, 20), "as many shards as processes, or more; found shards = 4 and 5 processes")
    expect(not output.exists(), "no folder left behind")
    refused(runs.mpirun(2, "attend", "none.npz"), "this command works in one process; mpirun started 2")
    refused(runs.mpirun(2, "train", "--config", runs.recipe(20)), "--output is missing")
    refused(runs.train(2, output, 20), "its part for MPI, libheed_mpi.so, is missing", HEED_MPI_ENGINE="/nonexistent")
    broken = runs.folder / "broken.so"
    broken.write_text("no library")
    refused(runs.train(2, output, 20), "MPI cannot be loaded", HEED_MPI_ENGINE=str(broken))
    expect(not output.exists(), "no folder left behind")
    status, text = runs.run(runs.train(2, output, 20))
    expect(status == 0, text)
    shutil.copy(runs.folder / "20.toml", runs.folder / "kept.toml")
    other = (runs.folder / "20.toml").read_text().replace("shards = 4", "shards = 2")
    (runs.folder / "other.toml").write_text(other)
    refused(runs.mpirun(2, "train", "--config", runs.folder / "other.toml", "--output", output, "--resume"),
            "found other values of shards (4 before, 2 now)")
    ours = [runs.heed, "train", "--output", str(runs.folder / "two"), "--config"]
    command = runs.mpirun(1)[:-1] + [*ours, str(runs.recipe(20)), ":", "-n", "1", *ours, str(runs.folder / "other.toml")]
    refused(command, "expected the same recipe on all ranks; rank 1")


def full_disk(runs):
    """A file of rank 0 that may not grow, as on a full disk: the run ends, and goes on when there is room."""
    limit = 'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then trap "" XFSZ; ulimit -f 40; fi; exec "$@"'
    output = runs.folder / "full"
    command = runs.train(2, output, 20)
    at = command.index(runs.heed)
    status, text = runs.run([*command[:at], "bash", "-c", limit, "bash", *command[at:]], OMPI_MCA_btl="tcp,self")
    expect(status != 0 and "File too large" in text and text.count("heed train: ") == 1, text)
    status, text = runs.run(runs.train(2, output, 20))
    expect(status == 0, text)


def bar_on_a_terminal(runs):
    """Each rank on a terminal of its own, as srun or a program in between can give it one: mpirun has none."""
    terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    for ranks in (1, 2):
        command = runs.train(ranks, runs.folder / f"bar{ranks}", 20)
        at = command.index(runs.heed)
        status, text = runs.run([*command[:at], sys.executable, "-c", terminal, *command[at:]])
        expect(status == 0 and "] 20/20  epoch" in text, text)
        waits = re.search(r"tokens/s  waiting \d+ %", text) is not None
        expect(waits == (ranks > 1), f"waiting is said where there are several; found {text!r} of {ranks}")


def bound_to_cores(runs):
    """mpirun binds one or two processes to a core each: heed says what they lose, and what to pass."""
    def cores(bind):
        command = runs.mpirun(1, bind=bind)[:-1]
        status, text = runs.run([*command, sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)))"])
        return int(text) if status == 0 else 0

    bound, all_of_them = cores("core"), cores("none")
    if not 0 < bound < all_of_them:
        print(f"  not tried: mpirun binds to {bound} of {all_of_them} cores here")
        return
    wanted = bound + 1

    def warnings(ranks, bind, *more, **environment):
        output = runs.folder / "bound"
        shutil.rmtree(output, ignore_errors=True)
        status, text = runs.run(runs.mpirun(ranks, "train", "--config", runs.recipe(4), "--output", output, *more,
                                            bind=bind), **environment)
        expect(status == 0, text)
        return [line for line in text.splitlines() if "warning" in line]

    def expect_one(found, pattern):
        expect(len(found) == 1 and re.fullmatch("heed train: warning: " + pattern, found[0]), f"{pattern}; found {found}")

    pair = f"may use {bound} of {all_of_them} cores and has {wanted} threads; pass "
    for choice in ({"more": ("--threads", wanted)}, {"environment": {"HEED_NUM_THREADS": str(wanted)}}):
        found = warnings(1, "core", *choice.get("more", ()), **choice.get("environment", {}))
        expect_one(found, f"this process {pair}--bind-to none or --map-by slot:PE={wanted} to mpirun")
    expect_one(warnings(1, "core"), f"mpirun has bound this process to {bound} of {all_of_them} cores; pass "
                                    f"--bind-to none or --map-by slot:PE={all_of_them} to mpirun")
    found = warnings(2, "core", "--threads", wanted)
    if all_of_them < 2 * wanted:  # bound or not, there are not so many cores
        share = max(1, all_of_them // 2)
        binding = f", and --bind-to none or --map-by slot:PE={share} to mpirun" if bound < share else ""
        expect_one(found, rf"rank 0 \(.*\) {pair}--threads {share}{binding}")
    else:
        expect_one(found, rf"rank 0 \(.*\) {pair}--bind-to none or --map-by slot:PE={wanted} to mpirun")
    for ranks, bind, threads in ((1, "none", wanted), (1, "core", bound), (2, "core", bound), (2, "none", 1)):
        found = warnings(ranks, bind, "--threads", threads)
        expect(not found, f"no warning for {ranks} processes, {bind}, {threads} threads; found {found}")


def made_two_hosts():
    done = subprocess.run([str(TWO_HOSTS), "up"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"skipped: no network namespaces here: {done.stderr.strip().splitlines()[-1:]}")
    return done.returncode == 0


ACROSS_HOSTS = ("same_bits", "shared_sequences", "silent_rank", "kills")
TESTS = {"same_bits": same_bits, "shared_sequences": shared_sequences, "mixed_instruction_sets": mixed_instruction_sets,
         "asked_to_stop": asked_to_stop, "silent_rank": silent_rank, "refusals": refusals, "full_disk": full_disk,
         "bar_on_a_terminal": bar_on_a_terminal, "bound_to_cores": bound_to_cores}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("heed")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--only")
    parser.add_argument("--two-hosts", action="store_true")
    options = parser.parse_args()
    reason = why_not(options.heed)
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    if options.two_hosts and not made_two_hosts():
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="heed-mpi-") as folder:
        tests = dict(TESTS, kills=lambda r: kills(r, options.kills))
        if options.two_hosts:
            tests = {name: tests[name] for name in ACROSS_HOSTS}
        run_tests(tests, Trainings(options.heed, pathlib.Path(folder), options.two_hosts), options.only)
    if options.two_hosts:
        subprocess.run([str(TWO_HOSTS), "down"], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
