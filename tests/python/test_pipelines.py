"""heed.Translator, Generator and Encoder from Python: what the program gives with the same model."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import warnings

import numpy as np

import heed

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "demo" / "en-zh"
ENGLISH = (ROOT / "demo" / "sentences.txt").read_text(encoding="utf-8").splitlines()
CHINESE = (ROOT / "demo" / "chinese.txt").read_text(encoding="utf-8").splitlines()
PROGRAM = os.environ.get("HEED_PROGRAM")


def heed_program(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


class Translates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.translator = heed.Translator(DEMO)

    def test_one_text_and_several(self):
        best = self.translator.translate(ENGLISH[0])
        self.assertEqual([one.text for one in best], [CHINESE[0]])
        self.assertTrue(best[0].finished)
        self.assertEqual(len(best[0].log_probs), len(best[0].tokens) + 1)
        self.assertAlmostEqual(best[0].score, sum(best[0].log_probs) / len(best[0].log_probs), places=4)
        several = self.translator.translate([*ENGLISH[:4], ""], n_best=2)
        self.assertEqual([two[0].text for two in several], [*CHINESE[:4], ""])
        self.assertEqual([len(two) for two in several[:4]], [2] * 4)
        self.assertEqual(several[0][0], best[0])
        self.assertEqual(self.translator.translate([]), [])

    def test_the_cache_has_the_type_that_is_asked_for(self):
        plain = self.translator.translate(ENGLISH[0])[0]
        half = self.translator.translate(ENGLISH[0], cache="bfloat16")[0]
        self.assertEqual(half.text, plain.text)
        self.assertNotEqual(half.log_probs, plain.log_probs)

    def test_wrong_input_raises(self):
        for wrong in ({"beam": 0}, {"beam": 2, "n_best": 3}, {"cache": "float8"}, {"too_long": "ignore"}):
            with self.assertRaises(ValueError, msg=str(wrong)):
                self.translator.translate("a", **wrong)
        with self.assertRaises(TypeError):
            self.translator.translate("a", beams=3)
        with self.assertRaises(TypeError):
            self.translator.translate(3)
        with self.assertRaisesRegex(ValueError, "text 2: at most"):
            self.translator.translate(["a", "a " * 3000])
        with self.assertRaisesRegex(ValueError, "no/such"):
            heed.Translator("no/such")
        with self.assertRaisesRegex(ValueError, "a decoder-only model; found an encoder-decoder"):
            heed.Generator(DEMO)

    def test_warns(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.translator.translate(["Where is it?", "车站在哪里？"])
        self.assertEqual(len(caught), 1)
        self.assertIn("text 2: 6 of 6 characters are unknown", str(caught[0].message))
        self.assertEqual(pathlib.Path(caught[0].filename).name, "test_pipelines.py")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(UserWarning):
                self.translator.translate("车站在哪里？")

    def test_the_page(self):
        page = self.translator.attention_page("Where is the station?")
        begin = page.index('id="record">') + len('id="record">')
        record = json.loads(page[begin : page.index("</script>", begin)])
        self.assertEqual(record["output"], "车站在哪里？")
        self.assertEqual(self.translator.attention_page("Where is the station?", "车站在哪里？"), page)


@unittest.skipUnless(PROGRAM, "no program to train a model with: HEED_PROGRAM names none")
class SmallModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        text = pathlib.Path(cls.folder.name) / "text.txt"
        text.write_text("the cat sat on the mat\nthe dog sat on the log\n" * 40)
        cls.models = {}
        for task in ("language_model", "masked_language_model"):
            model = pathlib.Path(cls.folder.name) / task
            heed_program("train", "--task", task, "--train-source", text, "--preset", "tiny", "--tokenizer", "characters",
                         "--context", "32", "--batch-tokens", "256", "--max-updates", "3", "--valid-fraction", "0.2",
                         "--output", model, "--quiet")
            cls.models[task] = model

    def test_generates_what_the_program_generates(self):
        generator = heed.Generator(self.models["language_model"])
        pieces = []
        made = generator.generate("the c", max_tokens=20, seed=7, temperature=0.8, on_text=pieces.append)
        self.assertEqual("".join(pieces), made.text)
        found = json.loads(heed_program("generate", self.models["language_model"], "the c", "--max-tokens", "20",
                                        "--seed", "7", "--temperature", "0.8", "--json"))
        self.assertEqual((made.text, made.tokens, made.finished), (found["text"], found["tokens"], found["finished"]))
        self.assertEqual(generator.generate("the c", max_tokens=20, seed=7, temperature=0.8), made)
        self.assertIn('id="record">', generator.attention_page("the cat"))
        with self.assertRaises(ZeroDivisionError):
            generator.generate("the c", on_text=lambda piece: 1 / 0)
        with self.assertRaises(ValueError):
            generator.generate("the c", temperature=-1.0)

    def test_embeds(self):
        encoder = heed.Encoder(self.models["masked_language_model"])
        texts = ["the cat sat", "the log", "on the mat"]
        vectors = encoder.embed(texts)
        self.assertEqual(vectors.shape[0], 3)
        for row, text in zip(vectors, texts):
            found = encoder.encode(text)
            self.assertEqual(found.states.shape, (len(text) + 2, vectors.shape[1]))
            self.assertEqual(len(found.tokens), len(text) + 2)
            np.testing.assert_allclose(row, found.states.mean(0), rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(encoder.embed([text])[0], row)
        with self.assertRaises(TypeError):
            encoder.embed("the cat")
        self.assertIn('id="record">', encoder.attention_page("the cat"))


if __name__ == "__main__":
    unittest.main()
