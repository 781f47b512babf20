"""The types that the package states: right in themselves, true of the module, and of use to who checks a program."""

import ast
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from heed import _heed

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(__file__).resolve().parent / "typing"
STUBS = ROOT / "python" / "heed" / "_heed.pyi"


def run(module, *arguments):
    with tempfile.TemporaryDirectory() as scratch:
        return subprocess.run(
            [sys.executable, "-m", module, *map(str, arguments)], cwd=scratch, capture_output=True, text=True,
            env={**os.environ, "MYPYPATH": str(ROOT / "python"), "MYPY_CACHE_DIR": scratch},
        )


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed for this Python: Debian's package mypy")
class Mypy(unittest.TestCase):
    def test_the_package_is_typed_throughout(self):
        found = run("mypy", "--config-file", ROOT / "pyproject.toml", "-p", "heed")
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)

    def test_a_right_program_passes(self):
        found = run("mypy", "--config-file", ROOT / "pyproject.toml", "--strict", PROGRAMS / "right.py")
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)

    def test_each_wrong_line_is_found(self):
        found = run("mypy", "--config-file", ROOT / "pyproject.toml", "--strict", PROGRAMS / "wrong.py")
        self.assertEqual(found.returncode, 1, found.stderr)
        lines = {int(line) for line in re.findall(r"wrong\.py:(\d+): error", found.stdout)}
        text = (PROGRAMS / "wrong.py").read_text(encoding="utf-8").splitlines()
        expected = {number for number, line in enumerate(text, 1) if line.endswith("# wrong")}
        self.assertEqual(lines, expected, found.stdout)

    def test_the_stubs_name_what_the_module_has(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as allowed:
            for name, value in vars(_heed).items():  # (its classes have a metaclass of pybind11's own)
                if isinstance(value, type):
                    allowed.write(f"heed\\._heed\\.{name}\n")
            allowed.write("heed\\._heed\\.Record\\.__init__\n")  # which Python cannot make
            allowed.flush()
            found = run("mypy.stubtest", "heed._heed", "--mypy-config-file", ROOT / "pyproject.toml", "--allowlist",
                        allowed.name)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)


def arguments_of(function):
    """How many arguments the module's function takes, as pybind11 writes it: name(arg0: int, arg1: Tuple[int, str])."""
    signature = function.__doc__.strip().splitlines()[0]
    inside = signature[signature.index("(") + 1 : signature.rindex(") ->")]
    while "[" in inside:
        inside = re.sub(r"\[[^\[\]]*\]", "", inside)
    return len([part for part in inside.split(",") if part.strip()])


class Stubs(unittest.TestCase):
    """stubtest sees no signatures of pybind11's functions."""

    def test_every_function_has_as_many_arguments_as_its_stub(self):
        checked = 0
        tree = ast.parse(STUBS.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            inside = _heed if isinstance(node, ast.Module) else getattr(_heed, getattr(node, "name", ""), None)
            if not isinstance(node, (ast.Module, ast.ClassDef)):
                continue
            for stub in node.body:
                if isinstance(stub, ast.FunctionDef):
                    with self.subTest(function=stub.name, of=getattr(node, "name", "module")):
                        self.assertEqual(arguments_of(getattr(inside, stub.name)), len(stub.args.args))
                        checked += 1
        self.assertGreater(checked, 60)


if __name__ == "__main__":
    unittest.main()
