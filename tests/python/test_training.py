"""heed.train: what `heed train` does, told to a function, ended by Ctrl-C and by exceptions, and gone on with."""

import filecmp
import os
import pathlib
import shutil
import string
import subprocess
import tempfile
import threading
import time
import unittest

import heed
from interrupted import interrupt

PROGRAM = os.environ.get("HEED_PROGRAM")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECIPE = {
    "task": "language_model", "preset": "tiny", "tokenizer": "characters", "context": 32, "batch_tokens": 256,
    "max_updates": 30, "valid_fraction": 0.2, "log_every": 5, "validate_every": 10,
    "schedule": {"peak": 1e-3, "warmup": 5}, "model": {"dropout": 0.0},
}
TOML = """
task = "language_model"
preset = "tiny"
tokenizer = "characters"
context = 32
batch_tokens = 256
max_updates = 30
valid_fraction = 0.2
log_every = 5
validate_every = 10
train_source = "text.txt"
[schedule]
peak = 1e-3
warmup = 5
[model]
dropout = 0.0
"""


class Trains(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "text.txt").write_text("the cat sat on the mat\nthe dog sat on the log\n" * 200)
        self.recipe = {**RECIPE, "train_source": self.folder / "text.txt"}

    def weights(self, name):
        return (self.folder / name / "model.safetensors").read_bytes()

    def test_a_dict_tells_of_its_progress_and_gives_the_model(self):
        reports, lines = [], []
        thread = threading.get_ident()
        model = heed.train(self.recipe, self.folder / "a", on_progress=lambda p: reports.append((threading.get_ident(), p)),
                           on_message=lines.append)
        self.assertIsInstance(model, heed.Generator)
        self.assertEqual(model.generate("the ", max_tokens=4, temperature=0), heed.load(self.folder / "a").generate(
            "the ", max_tokens=4, temperature=0))
        self.assertEqual({where for where, _ in reports}, {thread})  # called where train() was
        trained = [p for _, p in reports if p.valid_loss is None]
        self.assertEqual([p.update for p in trained], [5, 10, 15, 20, 25, 30])
        self.assertEqual({p.max_updates for p in trained}, {30})
        self.assertLess(trained[-1].loss, trained[0].loss)
        valid = [p for _, p in reports if p.valid_loss is not None]
        self.assertEqual([p.update for p in valid], [10, 20, 30])
        before = {p.update: (p.loss, p.tokens_per_second) for p in trained}
        self.assertEqual([(p.loss, p.tokens_per_second) for p in valid], [before[p.update] for p in valid])
        self.assertTrue(valid[-1].best)
        self.assertTrue(any("parameters" in line for line in lines))

    def test_a_classifier_tells_its_accuracy(self):
        encoder = self.folder / "encoder"
        shutil.copytree(ROOT / "tests" / "data" / "families" / "bert-model", encoder)
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase]
        (encoder / "vocab.txt").write_text("\n".join(tokens) + "\n")
        lines = [f"{'a b' if i % 2 else 'x y'} {tokens[5 + i % 26]}\t{'early' if i % 2 else 'late'}" for i in range(200)]
        (self.folder / "lines.tsv").write_text("\n".join(lines) + "\n")
        reports = []
        model = heed.train(
            {"task": "sequence_classification", "train_source": self.folder / "lines.tsv", "valid_fraction": 0.2,
             "batch_sentences": 16, "label_smoothing": 0.0, "max_updates": 40, "validate_every": 20,
             "schedule": {"peak": 3e-3, "warmup": 4}},
            self.folder / "classifier", start=encoder, on_progress=reports.append)
        accuracies = [p.valid_accuracy for p in reports if p.valid_loss is not None]
        self.assertEqual(accuracies[-1], 1.0)
        self.assertEqual({p.valid_accuracy for p in reports if p.valid_loss is None}, {None})
        self.assertEqual([found.label for found in model.classify(["a b q", "x y q"])], ["early", "late"])

    def test_scores_come_with_their_correlations(self):
        encoder = self.folder / "encoder"
        shutil.copytree(ROOT / "tests" / "data" / "families" / "bert-model", encoder)
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase]
        (encoder / "vocab.txt").write_text("\n".join(tokens) + "\n")
        lines = [f"{'a b' if i % 2 else 'x y'} {tokens[5 + i % 26]}\t{7.5 if i % 2 else -2}" for i in range(200)]
        (self.folder / "lines.tsv").write_text("\n".join(lines) + "\n")
        reports = []
        model = heed.train(
            {"task": "sequence_regression", "loss": "squared_error", "train_source": self.folder / "lines.tsv",
             "valid_fraction": 0.2, "batch_sentences": 16, "max_updates": 200, "validate_every": 100, "best_by": "pearson",
             "schedule": {"peak": 1e-2, "warmup": 4}},
            self.folder / "scores", start=encoder, on_progress=reports.append)
        last = [p for p in reports if p.valid_loss is not None][-1]
        self.assertGreater(last.valid_pearson, 0.99)
        self.assertGreater(last.valid_spearman, 0.8)
        self.assertIsNone(last.valid_accuracy)
        early, late = (found.score for found in model.classify(["a b q", "x y q"]))
        self.assertAlmostEqual(early, 7.5, delta=2)
        self.assertAlmostEqual(late, -2, delta=2)

    def test_a_file_a_dict_and_changes_say_the_same(self):
        file = self.folder / "recipe.toml"
        file.write_text(TOML)
        heed.train(self.recipe, self.folder / "a")
        heed.train(file, self.folder / "b")
        changes = {"max_updates": 30, "schedule": {"peak": 1e-3}, "model.dropout": 0.0}
        file.write_text(TOML.replace("max_updates = 30", "").replace("peak = 1e-3", "peak = 0.5").replace("0.0", "0.2"))
        heed.train(file, self.folder / "c", changes=changes)
        heed.train({**RECIPE, "train_source": "text.txt"}, self.folder / "d", data=self.folder)
        for other in "bcd":
            self.assertEqual(self.weights(other), self.weights("a"), other)

    @unittest.skipUnless(PROGRAM, "HEED_PROGRAM names no program")
    def test_the_program_makes_the_same_bits(self):
        file = self.folder / "recipe.toml"
        file.write_text(TOML)
        subprocess.run([PROGRAM, "train", "--config", file, "--output", self.folder / "b", "--quiet"], check=True)
        heed.train(file, self.folder / "a")
        self.assertEqual(self.weights("a"), self.weights("b"))

    def test_an_exception_ends_it_and_it_goes_on(self):
        def stop(progress):
            if progress.update >= 15:
                raise ZeroDivisionError("enough")

        with self.assertRaisesRegex(ZeroDivisionError, "enough"):
            heed.train(self.recipe, self.folder / "a", on_progress=stop)
        self.assertIn("step-00000015", os.listdir(self.folder / "a" / "checkpoints"))
        reports = []
        heed.train(None, self.folder / "a", resume=True, on_progress=reports.append)
        self.assertEqual(reports[0].update, 20)
        heed.train(self.recipe, self.folder / "b")
        self.assertEqual(self.weights("a"), self.weights("b"))

    def test_ctrl_c_ends_it_with_a_checkpoint(self):
        endless = {**self.recipe, "train_source": str(self.folder / "text.txt"), "max_updates": 10**6, "log_every": 10**6,
                   "validate_every": 10**6}
        code = f"""
recipe = {endless!r}
work(lambda: heed.train(recipe, {str(self.folder / "a")!r}))
"""
        printed = interrupt(code, after=2)
        self.assertEqual(printed[0], "interrupted")
        self.assertLess(float(printed[1]), 30)
        (checkpoint,) = (self.folder / "a" / "checkpoints").iterdir()
        updates = int(checkpoint.name.partition("-")[2])
        self.assertGreater(updates, 0)
        # It goes on from there, with the bits of one that was never interrupted.
        for name, resume in (("a", True), ("b", False)):
            heed.train(endless, self.folder / name, resume=resume, changes={"max_updates": updates + 3})
        self.assertEqual(self.weights("a"), self.weights("b"))

    def test_other_threads_run_meanwhile(self):
        seen = []
        done = threading.Event()

        def count():
            while not done.is_set():
                seen.append(time.monotonic())
                time.sleep(0.001)

        counter = threading.Thread(target=count)
        counter.start()
        began = time.monotonic()
        heed.train({**self.recipe, "log_every": 1000, "validate_every": 1000, "max_updates": 60}, self.folder / "a")
        ended = time.monotonic()
        done.set()
        counter.join()
        inside = [moment for moment in seen if began < moment < ended]
        longest = max(b - a for a, b in zip([began, *inside], [*inside, ended]))
        self.assertLess(longest, (ended - began) / 2)  # with the GIL held it would be all of it

    def test_training_goes_on_from_a_model(self):
        heed.train(self.recipe, self.folder / "a")
        reports = []
        more = {"task": "language_model", "train_source": self.folder / "text.txt", "context": 32, "batch_tokens": 256,
                "max_updates": 5, "log_every": 1, "valid_fraction": 0.2}
        heed.train(more, self.folder / "b", start=self.folder / "a", on_progress=reports.append)
        self.assertLess(reports[0].loss, 1.5)  # a new model begins near 3
        self.assertTrue(filecmp.cmp(self.folder / "a" / "target.vocab", self.folder / "b" / "target.vocab", shallow=False))
        with self.assertRaises(TypeError):
            heed.train({**more, "from": "x"}, self.folder / "c", start=self.folder / "a")

    def test_wrong_recipes_raise(self):
        a = self.folder / "a"
        for wrong, message in (
            ({"batch_token": 3}, "the recipe: a key of a recipe; found unknown key .*did you mean \"batch_tokens\""),
            ({"context": "many"}, "the recipe: context: a whole number"), ({"schedule": {"peek": 1}}, "schedule.peek"),
            ({"train_source": "no/such"}, "no/such"), ({"max_updates": -1}, "max_updates"),
        ):
            with self.assertRaisesRegex(ValueError, message, msg=str(wrong)):
                heed.train({**self.recipe, **wrong}, a)
        self.assertFalse(a.exists())
        with self.assertRaisesRegex(ValueError, "no/such.toml"):
            heed.train("no/such.toml", a)
        with self.assertRaises(TypeError):
            heed.train(None, a)
        with self.assertRaisesRegex(ValueError, "found no such folder; leave out resume=True to begin one"):
            heed.train(None, a, resume=True)
        for wrong in ({"changes": 3}, {"on_progress": 3}, {"resume": "yes"}):
            with self.assertRaisesRegex(TypeError, rf"\[train\] {next(iter(wrong))} as ", msg=str(wrong)):
                heed.train(self.recipe, a, **wrong)
        endless = {}
        endless["model"] = endless
        for wrong, text in (({"train_source": b"x"}, "numbers, strings, lists or tables; found bytes"),
                            ({"model": {"dropout": float("nan")}}, "dropout: a finite number; found nan"),
                            ({"changes": {3: 4}}, "a key of a recipe as a str; found int 3"),
                            ({"changes": endless}, "tables nested at most 8 deep; found more, at model"),
                            ({"model": endless}, "tables nested at most 8 deep; found more, at model"),
                            ({"train_source": "a\udcff"}, "train_source of Unicode's characters; found a lone surrogate")):
            options = {"changes": wrong.pop("changes", None)}
            with self.assertRaisesRegex((TypeError, ValueError), text):
                heed.train({**self.recipe, **wrong}, a, **options)
        with self.assertRaisesRegex(TypeError, r"\[train\] start as a str or a path; found int 3"):
            heed.train(self.recipe, a, start=3)
        spoken = {"task": "translation", "pairs": "p.tsv", "source_language": "en_XX", "target_language": "zh_CN"}
        with self.assertRaisesRegex(ValueError, "the recipe: .*source_language: left out"):
            heed.train(spoken, a)
        with self.assertRaisesRegex(ValueError, r"from: .*no/such/model"):  # which the languages go with
            heed.train(spoken, a, start="no/such/model")
        a.mkdir()
        (a / "log.jsonl").write_text("{}\n")
        with self.assertRaisesRegex(ValueError, r"found one \(go on with resume=True, or name another folder\)"):
            heed.train(self.recipe, a)
        self.assertIn("schedule.peak", heed.recipe_keys())


if __name__ == "__main__":
    unittest.main()
