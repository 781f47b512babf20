"""The wheel that `pip install .` would install: built, unpacked and imported."""

import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import build_backend  # noqa: E402


class Wheel(unittest.TestCase):
    def test_the_build_is_configured_for_this_interpreter(self):
        with tempfile.TemporaryDirectory() as folder:
            build_backend._configure(folder)
            targets = subprocess.run(
                ["cmake", "--build", folder, "--target", "help"], check=True, capture_output=True, text=True,
            ).stdout
            cache = (pathlib.Path(folder) / "CMakeCache.txt").read_text()
        self.assertIn("heed_python", targets)
        self.assertNotIn("heed_program", targets)
        self.assertIn(f"PYTHON_EXECUTABLE:UNINITIALIZED={sys.executable}", cache.replace(":FILEPATH=", ":UNINITIALIZED="))

    def test_is_built_and_imported(self):
        with tempfile.TemporaryDirectory() as folder:
            # The folder that the tests run in has the library compiled already, for the same interpreter.
            built = os.environ.get("HEED_BUILD")
            name = build_backend.build_wheel(folder, {"build-dir": built} if built else None)
            with zipfile.ZipFile(pathlib.Path(folder) / name) as wheel:
                self.assertIsNone(wheel.testzip())
                names = wheel.namelist()
                info = "-".join(name.split("-")[:2]) + ".dist-info"
                self.assertEqual({path.split("/")[0] for path in names}, {"heed", info})
                for line in wheel.read(next(n for n in names if n.endswith("/RECORD"))).decode().splitlines():
                    self.assertIn(line.split(",")[0], names)
                wheel.extractall(pathlib.Path(folder) / "site")
            self.assertLessEqual(
                {"heed/__init__.py", "heed/torch.py", "heed/_transformers.py", "heed/pipelines.py", "heed/reference.py",
                 "heed/_heed.pyi", "heed/py.typed"}, set(names)
            )
            code = (
                "import heed, numpy as np\n"
                "x = np.ones((1, 1, 3, 4), np.float32)\n"
                "assert (heed.attention(x, x, x) == 1).all()\n"
                "print(heed.__file__, heed._heed.__version__)\n"
            )
            found = subprocess.run(
                [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(pathlib.Path(folder) / "site")},
                cwd=folder, check=True, capture_output=True, text=True,
            ).stdout
            self.assertIn(str(pathlib.Path(folder) / "site"), found)
            self.assertIn(name.split("-")[1], found)

    @unittest.skipUnless((ROOT / ".git").exists(), "not a clone: git writes the source distribution")
    def test_the_source_distribution_leaves_out_the_data_of_the_tests(self):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(pathlib.Path(folder) / build_backend.build_sdist(folder)) as archive:
                names = [name.partition("/")[2] for name in archive.getnames()]
        self.assertIn("src/python/module.cc", names)
        self.assertEqual([name for name in names if name.startswith("tests/data")], [])


if __name__ == "__main__":
    unittest.main()
