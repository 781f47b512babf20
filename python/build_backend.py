"""Builds the wheel (PEP 517) with CMake: `pip install .` needs nothing but the system's compiler and pybind11.

`pip install . --config-settings build-dir=FOLDER` builds in FOLDER, which may have been built already: it then compiles only
what is missing. The default is build/wheel-<interpreter>.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def _version():
    return re.search(r"project\(heed VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def _metadata():
    return (
        f"Metadata-Version: 2.1\nName: heed\nVersion: {_version()}\n"
        "Summary: Attention on the CPU: exact, fast, the same bits everywhere\n"
        "License: Apache-2.0\nRequires-Python: >=3.9\nRequires-Dist: numpy\n"
        "Description-Content-Type: text/markdown\n\n" + (ROOT / "README.md").read_text(encoding="utf-8")
    )


def _configure(tree):
    options = ["-DHEED_BUILD_PYTHON=ON"]
    if not (pathlib.Path(tree) / "CMakeCache.txt").exists():  # nobody else's folder
        options += ["-DHEED_BUILD_PROGRAM=OFF", "-DHEED_BUILD_TESTS=OFF", "-DHEED_BUILD_EXAMPLES=OFF"]
    interpreter = [f"-DPython_EXECUTABLE={sys.executable}", f"-DPYTHON_EXECUTABLE={sys.executable}"]
    subprocess.run(["cmake", "-S", ROOT, "-B", tree, "-G", "Ninja", *options, *interpreter], check=True)


def _build(settings):
    """Compiles the extension for the running interpreter; returns its file."""
    tree = pathlib.Path((settings or {}).get("build-dir", ROOT / "build" / f"wheel-{sysconfig.get_config_var('SOABI')}"))
    extension = tree / "python" / "heed" / f"_heed{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not extension.exists():
        _configure(tree)
    subprocess.run(["cmake", "--build", tree, "--target", "heed_python", "-j", str(os.cpu_count())], check=True)
    return extension


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    extension = _build(config_settings)
    version = _version()
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    name = f"heed-{version}-{tag}-{tag}-{platform}.whl"
    info = f"heed-{version}.dist-info"
    files = {f"heed/{extension.name}": extension.read_bytes()}
    for path in sorted((ROOT / "python" / "heed").iterdir()):
        if path.suffix in {".py", ".pyi"} or path.name == "py.typed":
            files[f"heed/{path.name}"] = path.read_bytes()
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: heed\nRoot-Is-Purelib: false\nTag: {tag}-{tag}-{platform}\n".encode()
    )
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
    return name


def build_sdist(sdist_directory, config_settings=None):
    """The sources at git's HEAD, without the data that only the tests read."""
    name = f"heed-{_version()}"
    subprocess.run(
        ["git", "-C", ROOT, "archive", f"--prefix={name}/", "-o",
         pathlib.Path(sdist_directory).resolve() / f"{name}.tar.gz", "HEAD", "--", ".", ":(exclude)tests/data"],
        check=True,
    )
    return f"{name}.tar.gz"
