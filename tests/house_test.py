#!/usr/bin/env python3
"""tools/check_house.py must fail on a tree that breaks the rule, and name the place."""
import pathlib
import subprocess
import sys
import tempfile

CHECKER = pathlib.Path(__file__).resolve().parent.parent / "tools" / "check_house.py"

CASES = {
    "up": ("src/tensor/a.cc", '#include "attention/forward.h"\n', "tensor (rank 1) may not include"),
    "sideways": ("src/inspect/a.cc", '#include "generate/beam.h"\n', "inspect (rank 7) may not include"),
    "simd": ("src/ops/a.cc", "#include <immintrin.h>\n", "only kernels/ may include"),
    "unknown folder": ("src/misc/a.cc", '#include "base/files.h"\n', "has no rank"),
    "relative": ("src/ops/a.cc", '#include "matmul.h"\n', 'includes are "heed/header.h" or "folder/file.h"'),
    "public header above": ("src/kernels/gemm/a.h", '#include "heed/ops.h"\n', "kernels (rank 1) may not include heed/ops.h"),
    "public header beside": ("src/generate/a.cc", '#include "heed/inspect.h"\n', "may not include heed/inspect.h"),
    "all of heed": ("src/nn/a.cc", '#include "heed/heed.h"\n', "of a folder that has a rank"),
    "header of a header above": ("include/heed/tensor.h", '#include "heed/nn.h"\n', "tensor (rank 1) may not include heed/nn.h"),
    "header of no folder": ("include/heed/new.h", '#include "heed/error.h"\n', "new.h has no rank"),
    "private header in a public one": ("include/heed/nn.h", '#include "base/files.h"\n', "a public header's are"),
    "hidden": ("include/heed/tensor.h", "namespace heed {\n}\n", "HEED_EXPORT_BEGIN stands before"),
    "hidden end": ("include/heed/tensor.h",
                   "HEED_EXPORT_BEGIN\nnamespace heed {\n}\nHEED_EXPORT_END\nnamespace heed {\n}\n",
                   "HEED_EXPORT_BEGIN stands before"),
    "standard header": ("src/ops/a.h", "#include <string>\nstd::string f(std::vector<int> x);  // std::map\n",
                        "a.h:2: std::vector needs #include <vector>"),
    "static variable": ("src/ops/a.cc", "int f() {\n  static const int made = g();\n  return made;\n}\n",
                        "a.cc:2: 1 static variables of functions need a MadeBeforeFork each"),
    "long": ("src/ops/a.cc", "\n" * 1001, "at most 1000"),
}
GOOD = ("src/nn/a.cc", '#include "heed/nn.h"\n#include "heed/ops.h"\n#include "ops/x.h"\n#include "nn/y.h"\n#include <vector>\n')

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
