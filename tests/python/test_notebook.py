"""docs/python.ipynb: its cells run in order and give the outputs that stand in it.

HEED_UPDATE_NOTEBOOK=1 writes what they give into the notebook instead; read the difference before you commit it.
"""

import ast
import contextlib
import io
import json
import os
import pathlib
import unittest

import heed

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "python.ipynb"


def as_lines(text):
    return text.splitlines(keepends=True)


def shown(value):
    """What Jupyter keeps of the value of a cell's last line."""
    data = {"text/plain": as_lines(repr(value))}
    for method, kind in (("_repr_html_", "text/html"), ("_repr_svg_", "image/svg+xml")):
        if hasattr(value, method):
            data[kind] = as_lines(getattr(value, method)())
    return data


def run(source, names, count):
    """The outputs of a cell, in Jupyter's form."""
    body = ast.parse(source).body
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"<cell {count}>", "exec"), names)
        if last is not None:
            value = eval(compile(last, f"<cell {count}>", "eval"), names)
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": as_lines(printed.getvalue())})
    if value is not None:
        outputs.append({"data": shown(value), "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


class Notebook(unittest.TestCase):
    maxDiff = 2000

    @unittest.skipIf(heed.active_isa() == "portable", "its training takes half an hour with the portable kernels")
    def test_its_cells_give_their_outputs(self):
        notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        update = os.environ.get("HEED_UPDATE_NOTEBOOK") == "1"
        here = pathlib.Path.cwd()
        os.chdir(NOTEBOOK.parent)  # where Jupyter starts it
        self.addCleanup(os.chdir, here)
        names = {"__name__": "__main__"}
        for count, cell in enumerate(cells, 1):
            outputs = run("".join(cell["source"]), names, count)
            if update:
                cell.update(execution_count=count, outputs=outputs)
                continue
            with self.subTest(cell=count):
                self.assertEqual(cell["execution_count"], count)
                self.assertEqual(outputs, cell["outputs"])
        if update:
            NOTEBOOK.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def test_it_shows_every_kind_of_output(self):
        cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        kinds = {kind for output in outputs for kind in output.get("data", {"stdout": ""})}
        self.assertEqual(kinds, {"stdout", "text/plain", "text/html", "image/svg+xml"})
        html = next("".join(output["data"]["text/html"]) for output in outputs if "text/html" in output.get("data", {}))
        self.assertTrue(html.startswith("<iframe srcdoc="))
        self.assertIn("▁station", html)


if __name__ == "__main__":
    unittest.main()
