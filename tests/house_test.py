#!/usr/bin/env python3
"""tools/check_house.py must fail on a tree that breaks the rule, and name the place."""
import pathlib
import subprocess
import sys
import tempfile

CHECKER = pathlib.Path(__file__).resolve().parent.parent / "tools" / "check_house.py"

CASES = {
    "up": ("src/tensor/a.cc", '#include "attention/forward.h"\n', "tensor (rank 1) may not include"),
    "sideways": ("src/train/a.cc", '#include "generate/beam.h"\n', "train (rank 7) may not include"),
    "pipelines": ("src/pipelines/a.cc", '#include "cli/console.h"\n', "pipelines (rank 8) may not include"),
    "simd": ("src/ops/a.cc", "#include <immintrin.h>\n", "only kernels/ may include"),
    "unknown folder": ("src/misc/a.cc", '#include "base/files.h"\n', "has no rank"),
    "relative": ("src/ops/a.cc", '#include "matmul.h"\n', 'includes are "folder/file.h"'),
    "header": ("include/heed/tensor.h", '#include "heed/nn.h"\n', "of its rank or lower"),
    "long": ("src/ops/a.cc", "\n" * 1001, "at most 1000"),
}
GOOD = ("src/nn/a.cc", '#include "heed/train.h"\n#include "ops/x.h"\n#include "nn/y.h"\n#include <vector>\n')


def run(name, text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
        return subprocess.run([sys.executable, str(CHECKER), folder], capture_output=True, text=True, check=False)


def main():
    for case, (name, text, expected) in CASES.items():
        result = run(name, text)
        if result.returncode != 1 or name not in result.stderr or expected not in result.stderr:
            sys.exit(f"{case}: expected a complaint with {expected!r}; found {result.returncode}: {result.stderr}")
    result = run(*GOOD)
    if result.returncode != 0:
        sys.exit(f"a good file was refused: {result.stderr}")
    print(f"{len(CASES)} violations caught")


if __name__ == "__main__":
    main()
