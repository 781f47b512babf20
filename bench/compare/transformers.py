#!/usr/bin/env python3
"""attn_implementation="heed" beside "eager" in every text model type of the installed transformers.

A small random model of each type runs forward and backward in float32 with both, on the same weights and tokens: whole
sequences, padded ones, two packed into a row, four steps with a cache, the last logits only. heed must give eager's
logits and gradients, or refuse and say why. Prints a line for each model type. The exit status is 1 where logits or
gradients differ without a refusal.

PyTorch and transformers come from PyPI into a virtual environment that this script makes (build/venv-compare); heed is
the Python package of build/release.

  cmake -S . -B build/release -DHEED_BUILD_PYTHON=ON && cmake --build build/release --target heed_python
  bench/compare/transformers.py [--only TYPE ...] [--jobs 2] [--page docs/transformers.md]
"""
import argparse
import collections
import concurrent.futures
import copy
import importlib.metadata
import multiprocessing
import os
import pathlib
import re
import sys
import traceback
import unittest.mock
import warnings

if __name__ != "__main__":  # a script beside this one, or a package, asked for the real transformers
    raise ImportError("bench/compare/transformers.py is a script")

import peers

# Relative: what another order of additions does in float32, with room (docs/transformers.md).
TOLERANCE = 1e-4
PATIENCE = 600  # seconds for a model type
KINDS = ["agrees", "refused", "own code", "left out", "DIFFERS"]
Row = collections.namedtuple("Row", "model_type kind trials logits gradients text")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="TYPE", help="these model types, for example t5")
    parser.add_argument("--jobs", type=int, default=2, help="model types at a time")
    parser.add_argument("--page", help="rewrite the results in this page")
    parser.add_argument("--verbose", action="store_true", help="show what the models write, and where errors come from")
    arguments = parser.parse_args()
    peers.run_inside(__file__, [("transformers", "transformers"), ("PIL", "pillow"), ("timm", "timm")])
    models = load()
    types = models.model_types()
    unknown = set(arguments.only) - set(types)
    if unknown:
        sys.exit(f"transformers.py: text model types of transformers; found {', '.join(sorted(unknown))}")

    rows = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        names = arguments.only or list(types)
        for row in pool.map(lambda name: apart(name, types[name], models, arguments.verbose), names):
            rows.append(row)
            print(f"{row.model_type:26} {row.kind:8} {row.logits:>8} {row.gradients:>8}  {row.text}", flush=True)
    print("; ".join(f"{count} {kind}" for kind, count in collections.Counter(row.kind for row in rows).items()))
    if arguments.page:
        write(pathlib.Path(arguments.page), rows)
    return 1 if any(row.kind == "DIFFERS" for row in rows) else 0


def load():
    """transformers_models, imported with what most models need, so that the processes for the models begin with it."""
    here = pathlib.Path(__file__).resolve().parent
    os.environ["OMP_NUM_THREADS"] = "1"
    # This file would stand before the package of its name.
    sys.path[:] = [str(peers.ROOT / "build" / "release" / "python"), *(p for p in sys.path if pathlib.Path(p).resolve() != here)]
    warnings.simplefilter("ignore")
    import heed.torch
    import transformers.models.bart.modeling_bart
    import transformers.models.llama.modeling_llama
    import transformers.models.t5.modeling_t5

    sys.path.append(str(here))
    import transformers_models

    transformers.logging.set_verbosity_error()
    heed.set_num_threads(1)
    heed.torch.register_with_transformers()
    return transformers_models


def apart(model_type, class_name, models, verbose):
    """A model type in a process of its own, so that none can end the run."""
    if model_type in models.LEFT_OUT:
        return Row(model_type, "left out", "", "", "", models.LEFT_OUT[model_type])
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=answer, args=(there, model_type, class_name, models, verbose))
    process.start()
    there.close()
    row = Row(model_type, "left out", "", "", "", f"no answer in {PATIENCE} seconds")
    if here.poll(PATIENCE):
        try:
            row = here.recv()
        except EOFError:
            row = row._replace(text="the process ended without an answer")
    process.kill()
    process.join()
    return row


def answer(pipe, model_type, class_name, models, verbose):
    if not verbose:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        row = compare(model_type, class_name, models)
    except Exception as error:  # of the model with its own attention: nothing to compare with
        traceback.print_exc()
        row = Row(model_type, "left out", "", "", "", said(error))
    pipe.send(row)


def close(numbers):
    return all(number <= TOLERANCE for number in numbers)  # not for NaN


def said(error):
    return re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:400]


def compare(model_type, class_name, models):
    import heed.torch
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    kind, config = models.make(class_name)
    trials = models.Trials(kind, models.inputs_of(kind, config))
    eager = kind._from_config(copy.deepcopy(config), attn_implementation="eager").eval()
    models.randomise(eager)
    expected = outcomes(trials, eager, models)
    row = Row(model_type, "refused", " ".join(expected), "", "", "")

    found, refusal = {}, ""
    with unittest.mock.patch.object(heed.torch, "_forward", wraps=heed.torch._forward) as calls:
        try:
            ours = kind._from_config(copy.deepcopy(config), attn_implementation="heed").eval()
        except Exception as error:
            traceback.print_exc()
            return row._replace(text=said(error))
        ours.load_state_dict(eager.state_dict())
        with torch.no_grad():
            for mine, theirs in zip(ours.buffers(), eager.buffers()):
                mine.copy_(theirs)  # some are random and not in the state
        for name, outcome in expected.items():
            try:
                found[name] = models.differences(outcome, trials.run(name, ours))
            except Exception as error:
                traceback.print_exc()
                refusal = refusal or said(error)
    differing = [name for name, numbers in found.items() if not close(numbers)]
    if refusal and not differing:
        return row._replace(text=refusal if not found else f"{refusal} ({' '.join(found)} agree)")
    logits, gradients = (f"{max(numbers):.0e}" for numbers in zip(*found.values()))
    return row._replace(
        kind="DIFFERS" if differing else "agrees" if calls.call_count else "own code",
        logits=logits, gradients=gradients if trials.backward else "", text=" ".join(differing))


def outcomes(trials, eager, models):
    """What eager gives for each trial that it can run and repeat."""
    try:
        trials.run("whole", eager)
    except (AssertionError, RuntimeError):  # some models cannot be differentiated in evaluation mode
        trials.backward = False
        trials.run("whole", eager)
    found = {}
    for name in trials.names:
        try:
            first, again = trials.run(name, eager), trials.run(name, eager)
        except Exception:
            if name == "whole":
                raise
            traceback.print_exc()
            continue
        if close(models.differences(first, again)):
            found[name] = first
    if "whole" not in found:
        raise ValueError("eager gives other or infinite numbers when it runs a second time")
    return found


def write(page, rows):
    """Puts versions, counts and tables between the page's markers."""
    heads = {
        "agrees": "agree", "refused": "are refused", "own code": "compute attention with their own code only",
        "left out": "could not be tried", "DIFFERS": "DIFFER",
    }
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("transformers", "torch"))
    text = f"Of {len(rows)} text model types of {versions}:\n"
    for kind in KINDS:
        of_kind = [row for row in rows if row.kind == kind]
        if not of_kind:
            continue
        text += f"\n## {len(of_kind)} {heads[kind]}\n\n"
        if kind in ("refused", "left out"):
            text += "| model type | reason |\n| --- | --- |\n"
            text += "".join(f"| {row.model_type} | {row.text.replace('|', '/')} |\n" for row in of_kind)
        else:
            text += "| model type | logits | gradients | trials |\n| --- | --- | --- | --- |\n"
            for row in of_kind:
                text += f"| {row.model_type} | {row.logits} | {row.gradients or 'none'} | {row.text or row.trials} |\n"
    begin, end = "<!-- results -->\n", "<!-- end of results -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(before + begin + text + "\n" + end + rest.partition(end)[2], encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
