"""What bench/compare's scripts share: a virtual environment of their own with the peers in it."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VENV = ROOT / "build" / "venv-compare"
PURE = ["typing_extensions", "sympy", "networkx", "jinja2", "fsspec", "filelock", "numpy"]


def python_with_torch(packages=()):
    """The python of the virtual environment, which is made first where needed.

    PyTorch must install; of `packages`, each (module, name on PyPI), what cannot be had is left out.
    """
    python = VENV / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q"]

    def works(module):
        return subprocess.run([str(python), "-c", f"import {module}"], capture_output=True, check=False).returncode == 0

    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        if not works("torch"):
            # The wheel without its several GB of CUDA libraries, where it loads without them; with them elsewhere.
            subprocess.run(pip + ["--no-deps", "torch"], check=True)
            subprocess.run(pip + PURE, check=True)
            if not works("torch"):
                subprocess.run(pip + ["torch"], check=True)
                subprocess.run([str(python), "-c", "import torch"], check=True)
    except subprocess.CalledProcessError:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: PyTorch must install from PyPI into {VENV.relative_to(ROOT)}; the messages "
                 "above say why it did not. If that folder is half made, delete it and try again")
    for module, package in packages:
        if not works(module):
            subprocess.run(pip + [package], check=False)
    return python


def run_inside(script, packages=()):
    """Runs `script` again inside the virtual environment, with what python_with_torch() gives."""
    if sys.prefix == str(VENV):
        return
    python = python_with_torch(packages)
    os.execv(str(python), [str(python), script, *sys.argv[1:]])
