"""Programs that a signal interrupts: started, sent SIGINT once they compute, and asked what they raised."""

import signal
import subprocess
import sys
import time

# What each program begins with: `ready()` says that the work is about to begin.
PRELUDE = """
import signal, sys, threading, time
import heed

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts tests in the background ignores it

def ready():
    print("ready", flush=True)

def work(call):
    ready()
    began = time.monotonic()
    try:
        call()
    except KeyboardInterrupt:
        print(f"interrupted {time.monotonic() - began:.3f}", flush=True)
    else:
        print("finished", flush=True)
"""


def interrupt(code, after=0.5, limit=120):
    """Runs PRELUDE and `code`, sends SIGINT `after` seconds after "ready"; returns what was printed then, as words."""
    program = subprocess.Popen([sys.executable, "-c", PRELUDE + code], stdout=subprocess.PIPE, text=True)
    try:
        while program.stdout.readline().strip() != "ready":
            if program.poll() is not None:
                raise AssertionError("the program ended before it was ready")
        time.sleep(after)
        program.send_signal(signal.SIGINT)
        printed, _ = program.communicate(timeout=limit)
    finally:
        program.kill()
        program.stdout.close()
        program.wait()
    return printed.split()
