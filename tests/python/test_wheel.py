"""What `pip install .` installs: the component of CMake that the wheel is made of, and the wheel where it can be built."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HEED_BUILD")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
VERSION = re.search(r"project\(heed VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
CODE = """
import heed, numpy as np
x = np.ones((1, 1, 3, 4), np.float32)
assert (heed.attention(x, x, x) == 1).all()
print(heed.__file__, heed.__version__)
"""


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


class Package(unittest.TestCase):
    def check(self, site):
        """The package in the folder `site` is whole, and it is the one that is imported from there."""
        extensions = [name for name in files_below(site / "heed") if name.endswith(".so")]
        self.assertEqual(len(extensions), 1, extensions)
        own = {path.name for path in (ROOT / "python" / "heed").iterdir() if path.is_file()}
        self.assertEqual(files_below(site / "heed"), own | set(extensions))
        self.assertLess({"__init__.py", "training.py", "_heed.pyi", "py.typed"}, own)
        found = subprocess.run([sys.executable, "-c", CODE], env={**os.environ, "PYTHONPATH": str(site)}, cwd=site,
                               check=True, capture_output=True, text=True).stdout
        self.assertEqual(found.split(), [str(site / "heed" / "__init__.py"), VERSION])


class Component(Package):
    @unittest.skipUnless(BUILD, "HEED_BUILD names no build tree")
    def test_the_component_is_the_package(self):
        component = re.search(r'install\.components = \["(\w+)"\]', PROJECT).group(1)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cmake", "--install", BUILD, "--prefix", folder, "--component", component], check=True,
                           stdout=subprocess.DEVNULL)
            site = pathlib.Path(folder).resolve()
            self.assertEqual([path.name for path in site.iterdir()], ["heed"])
            self.check(site)

    def test_the_project_says_what_the_build_has(self):
        expression = re.search(r"^regex = '(.*)'$", PROJECT, re.MULTILINE).group(1)
        found = re.search(expression, (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
        self.assertEqual(found.group("value"), VERSION)
        self.assertIn("Apache License", (ROOT / "LICENSE").read_text(encoding="utf-8"))
        self.assertIn('license = "Apache-2.0"\nlicense-files = ["LICENSE"]', PROJECT)
        target = re.search(r'build\.targets = \["(\w+)"\]', PROJECT).group(1)
        self.assertIn(f"pybind11_add_module({target} ", (ROOT / "src/python/CMakeLists.txt").read_text(encoding="utf-8"))
        options = re.search(r"\[tool\.scikit-build\.cmake\.define\]\n((?:\w+ = \w+\n)+)", PROJECT).group(1)
        known = re.findall(r"^option\((\w+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertLessEqual(set(re.findall(r"^\w+", options, re.MULTILINE)), set(known))


@unittest.skipUnless(
    importlib.util.find_spec("scikit_build_core") and importlib.util.find_spec("pybind11"),
    "scikit_build_core and pybind11 are not installed for this Python; pip would fetch them from PyPI")
class Wheel(Package):
    def test_pip_builds_it(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder,
                            "--config-settings", f"build-dir={folder}/build", str(ROOT)], check=True)
            (file,) = pathlib.Path(folder).glob("*.whl")
            self.assertRegex(file.name, rf"^heed-{re.escape(VERSION)}-cp\d+-cp\d+-linux_\w+\.whl$")
            site = pathlib.Path(folder).resolve() / "site"
            with zipfile.ZipFile(file) as wheel:
                self.assertIsNone(wheel.testzip())
                wheel.extractall(site)
            info = site / f"heed-{VERSION}.dist-info"
            self.assertEqual({path.name for path in site.iterdir()}, {"heed", info.name})
            metadata = (info / "METADATA").read_text(encoding="utf-8")
            for line in ("Name: heed", f"Version: {VERSION}", "Requires-Python: >=3.9", "Requires-Dist: numpy",
                         "License-Expression: Apache-2.0", "License-File: LICENSE", "Classifier: Typing :: Typed"):
                self.assertIn(f"\n{line}\n", metadata)
            self.assertTrue((info / "licenses" / "LICENSE").is_file())
            self.check(site)


if __name__ == "__main__":
    unittest.main()
