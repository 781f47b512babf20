"""What the tests that start heed with mpirun have in common: the commands, their processes, and how tests are run."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

SKIPPED = 77
TWO_HOSTS = pathlib.Path(__file__).resolve().parent / "two_hosts.sh"


def letters(count, seed):
    draw = random.Random(seed)
    return "".join(" ".join(draw.choices("abcdefgh", k=draw.randint(2, 6))) + "\n" for _ in range(count))


class Runs:
    def __init__(self, heed, folder, two_hosts=False):
        self.heed, self.folder, self.two_hosts = heed, folder, two_hosts
        self.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                                TMPDIR="/tmp")  # (Open MPI wants short names of sockets)
        self.environment.pop("HEED_ISA", None)
        # mpirun removes the folder of the user when it ends, which another mpirun may be about to use ("ORTE_ERROR_LOG:
        # Error in file session_dir.c"). So the tests that run side by side have one each.
        self.sessions = tempfile.TemporaryDirectory(prefix="heed-", dir="/tmp")
        self.environment["OMPI_MCA_orte_tmpdir_base"] = self.sessions.name

    def mpirun(self, ranks, *arguments, bind="none"):
        if self.two_hosts:
            return [str(TWO_HOSTS), "mpirun", "-n", str(ranks), self.heed, *map(str, arguments)]
        return ["mpirun", "-q", "--oversubscribe", "--bind-to", bind, "--mca", "btl_vader_single_copy_mechanism",
                "none", "-n", str(ranks), self.heed, *map(str, arguments)]

    def start(self, command):
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors="replace")

    def run(self, command, timeout=120, **environment):
        done = subprocess.run(command, env=dict(self.environment, **environment), capture_output=True, text=True,
                              errors="replace", timeout=timeout, check=False)
        return done.returncode, done.stdout + done.stderr


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def processes_of(name):
    """The heed processes that were started with HEED_TEST_RUN=name, by rank."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = stat.read_bytes().split(b"\0")
            program = (stat.parent / "comm").read_text().strip()
        except OSError:
            continue
        entries = dict(v.split(b"=", 1) for v in variables if b"=" in v)
        if program == "heed" and entries.get(b"HEED_TEST_RUN") == str(name).encode():
            found[int(entries.get(b"OMPI_COMM_WORLD_RANK", b"0"))] = int(stat.parent.name)
    return found


def expect_none_left(name, seconds=10):
    """No process of this run is left. On a busy machine the system takes a moment to end those that were told to."""
    until = time.monotonic() + seconds
    while processes_of(name) and time.monotonic() < until:
        time.sleep(0.05)
    expect(not processes_of(name), "no process left")


def why_not(heed):
    """Why no test can run here; nothing where they can."""
    if shutil.which("mpirun") is None:
        return "mpirun is not installed"
    built = json.loads(subprocess.run([heed, "info", "--json"], capture_output=True, text=True,
                                      check=True).stdout)["processes"]
    return built if "without MPI" in built or "missing" in built else ""


def run_tests(tests, runs, only=None):
    """Those of `tests`, functions by name, that are called `only` (None: all), and how long each takes."""
    for name, test in tests.items():
        if only not in (None, name):
            continue
        start = time.monotonic()
        print(name, flush=True)
        test(runs)
        print(f"  passed in {time.monotonic() - start:.1f} s", flush=True)
