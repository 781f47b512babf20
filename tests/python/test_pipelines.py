"""heed.Translator, Generator and Encoder from Python: what the program gives with the same model."""

import collections
import copy
import io
import json
import os
import pathlib
import pickle
import shutil
import string
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
import warnings
import zipfile

import numpy as np

import heed
from interrupted import interrupt

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "demo" / "en-zh"
ENGLISH = (ROOT / "demo" / "sentences.txt").read_text(encoding="utf-8").splitlines()
CHINESE = (ROOT / "demo" / "chinese.txt").read_text(encoding="utf-8").splitlines()
PROGRAM = os.environ.get("HEED_PROGRAM")


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no repr")


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

    def test_a_length_reward_is_part_of_the_score(self):
        long = self.translator.translate(ENGLISH[0], length_reward=2.0)[0]
        self.assertGreater(len(long.tokens), len(self.translator.translate(ENGLISH[0])[0].tokens))
        tokens = len(long.log_probs)
        self.assertAlmostEqual(long.score, sum(long.log_probs) / tokens + 2.0 * tokens, places=4)

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
        for wrong, text in (
            (3, "[translate] a list of texts; found int 3"), (None, "a list of texts; found None"),
            (b"a", "a list of texts; found bytes"), (["a", float("nan")], "text 2 as a str; found float nan"),
            ({"a": "b"}, "a list of texts; found dict"), (collections.UserDict(a="b"), "a list of texts; found UserDict"),
            ([Unprintable()], "text 1 as a str; found Unprintable"), ([np.zeros((2, 2))], "text 1 as a str; found ndarray array"), (["a"] * 99999 + [b"a"], "text 100000 as a str; found bytes b'a'"),
        ):
            with self.assertRaises(TypeError) as caught:
                self.translator.translate(wrong)
            self.assertIn(text, str(caught.exception))
            self.assertLess(len(str(caught.exception)), 100)
        def failing():
            yield "a"
            raise TypeError("of the caller's own")

        with self.assertRaisesRegex(TypeError, "^of the caller's own$"):
            self.translator.translate(failing())
        self.assertEqual(self.translator.translate(iter([ENGLISH[0]]))[0][0].text, CHINESE[0])
        self.assertEqual(self.translator.translate(np.array([ENGLISH[0]]))[0][0].text, CHINESE[0])
        for wrong in ({"beam": "2"}, {"beam": 2.0}, {"beam": True}, {"length_penalty": "1"}, {"cache": None}, {"max_length": None}):
            with self.assertRaisesRegex(TypeError, rf"\[translate\] {next(iter(wrong))} as a ", msg=str(wrong)):
                self.translator.translate("a", **wrong)
        for wrong in ({"max_length": 0}, {"max_length": -1}, {"min_length": -1}):
            with self.assertRaisesRegex(ValueError, rf"^\[translate\] a {next(iter(wrong))} of ", msg=str(wrong)):
                self.translator.translate("a", **wrong)
        with self.assertRaisesRegex(ValueError, r"a lone surrogate, '\\ud800', at character 1"):
            self.translator.translate("a\ud800")
        self.assertEqual(len(self.translator.translate("a", length_factor=0.0, min_length=30, max_length=30, beam=1)[0].tokens), 30)
        for wrong, error in (({"gnmt": 1}, TypeError), ({"length_factor": "2"}, TypeError), ({"length_factor": -1.0}, ValueError), ({"length_factor": 9.3e18}, ValueError)):
            with self.assertRaisesRegex(error, next(iter(wrong)).replace("_", "."), msg=str(wrong)):
                self.translator.translate("a", **wrong)
        with self.assertRaisesRegex(ValueError, "a folder or ORG/NAME with a name; found ''"):
            heed.load("")
        with self.assertRaisesRegex(ValueError, "a folder or ORG/NAME with a name that the system can write"):
            heed.load("x\ud800")
        with self.assertRaisesRegex(TypeError, "a folder or ORG/NAME as a str or a path; found int 3"):
            heed.load(3)
        with self.assertRaisesRegex(ValueError, r'text 2: at most .* \(too_long="split" translates it sentence by sentence\)'):
            self.translator.translate(["a", "a " * 3000])
        with self.assertRaisesRegex(ValueError, "no/such"):
            heed.Translator("no/such")
        with self.assertRaisesRegex(ValueError, r"a decoder-only model; found an encoder-decoder \(heed.Translator runs it\)"):
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
        for wrong in ({"temperature": -1.0}, {"max_tokens": -1}, {"seed": -1}):
            with self.assertRaisesRegex(ValueError, next(iter(wrong)).rstrip("s"), msg=str(wrong)):
                generator.generate("the c", **wrong)
        for wrong in ({"temperature": "1"}, {"max_tokens": 2.5}, {"on_text": 3}, {"ignore_end": "no"}):
            with self.assertRaisesRegex(TypeError, next(iter(wrong)), msg=str(wrong)):
                generator.generate("the c", **wrong)
        with self.assertRaisesRegex(TypeError, r"\[generate\] prompt as a str; found list"):
            generator.generate(["the c"])

    def test_a_function_may_end_the_text(self):
        generator = heed.Generator(self.models["language_model"])
        pieces = []
        made = generator.generate("the c", max_tokens=20, seed=7, on_text=lambda piece: pieces.append(piece) or len(pieces) < 3)
        self.assertEqual((len(made.tokens), "".join(pieces)), (3, made.text))
        self.assertEqual(len(generator.generate("the c", seed=7, on_text=lambda piece: np.bool_(False)).tokens), 1)
        self.assertEqual(len(generator.generate("the c", max_tokens=20, seed=7, on_text=lambda piece: 0, ignore_end=True).tokens), 20)

    def test_a_long_prompt_keeps_its_end_with_a_warning(self):
        generator = heed.Generator(self.models["language_model"])
        prompt = "the cat sat on the mat the dog sat on the log " * 24
        with self.assertWarnsRegex(UserWarning, f"{len(prompt)} tokens; the model reads only the last 1024"):
            made = generator.generate(prompt, max_tokens=5, temperature=0)
        self.assertEqual(generator.generate(prompt[-1024:], max_tokens=5, temperature=0), made)

    def test_models_pickle_by_their_folders(self):
        for model in (heed.Generator(self.models["language_model"]), heed.Encoder(self.models["masked_language_model"], weights="int8")):
            again = pickle.loads(pickle.dumps(model))
            self.assertEqual((type(again), again.folder, again.weights), (type(model), model.folder, model.weights))
            self.assertEqual(repr(again), f"{type(model).__name__}({model.folder!r}, weights={model.weights!r})")
            tokenizer = pickle.loads(pickle.dumps(model.tokenizer))
            self.assertEqual(tokenizer.encode("the cat"), model.tokenizer.encode("the cat"))
            for copied in (copy.copy, copy.deepcopy):
                self.assertIs(copied(model), model)
                self.assertIs(copied(tokenizer), tokenizer)
        np.testing.assert_array_equal(again.embed(["the cat"]), model.embed(["the cat"]))
        here = os.getcwd()
        try:
            os.chdir(self.folder.name)
            pickled = pickle.dumps((heed.load("language_model"), heed.Tokenizer("language_model")))
            os.chdir(here)
            self.assertEqual(pickle.loads(pickled)[0].folder, str(self.models["language_model"]))
        finally:
            os.chdir(here)

    def test_folders_may_have_any_name(self):
        name = os.fsencode(self.folder.name) + b"/caf\xe9"  # Latin 1, not UTF-8
        shutil.copytree(os.fsencode(self.models["language_model"]), name)
        for folder in (name, os.fsdecode(name), pathlib.Path(os.fsdecode(name))):
            self.assertEqual(os.fsencode(heed.load(folder).folder), name)
        heed.load(name).save(name + b"-saved")
        self.assertTrue(os.path.exists(name + b"-saved/model.safetensors"))
        self.assertEqual(heed.Tokenizer(name).encode("the"), heed.load(name).tokenizer.encode("the"))
        with self.assertRaisesRegex(ValueError, "caf.*/none"):
            heed.Encoder(name + b"/none")
        typed = pathlib.Path(self.folder.name) / "my f32 model"
        typed.mkdir()
        with self.assertRaisesRegex(ValueError, f"{typed}"):
            heed.load(typed)

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
        calls = {"embed": ["a"], "classify": ["a"], "encode": "a", "classify_tokens": "a", "fill": "a"}
        for name, given in calls.items():
            with self.assertRaisesRegex(ValueError, rf'^\[{name}\] too_long "refuse" or "cut"; found "split"'):
                getattr(encoder, name)(given, too_long="split")
        self.assertIn('id="record">', encoder.attention_page("the cat"))


def bert_folder(folder, name):
    """A copy of a small BERT of others with a vocabulary of as many tokens as it has rows."""
    shutil.copytree(ROOT / "tests" / "data" / "families" / name, folder)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase, *string.digits]
    tokens += [f"##{letter}" for letter in string.ascii_lowercase][: 61 - len(tokens)]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return folder


def nllb_folder(folder):
    """A copy of a small NLLB of two languages, whose words are w0, w1, ..."""
    shutil.copytree(ROOT / "tests" / "data" / "families" / "nllb", folder)
    special = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "eng_Latn": 57, "fra_Latn": 58}
    words = {f"w{id}": id for id in range(61) if id not in special.values()}
    single = [{"SpecialToken": {"id": "eng_Latn", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    tokenizer = {
        "added_tokens": [{"id": id, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for token, id in special.items()],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing", "single": single, "pair": single,
            "special_tokens": {token: {"id": token, "ids": [special[token]], "tokens": [token]}
                               for token in ("eng_Latn", "</s>")},
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {**special, **words}, "unk_token": "<unk>"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


class Loads(unittest.TestCase):
    def setUp(self):
        self._scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self._scratch.cleanup)
        self.folder = pathlib.Path(self._scratch.name)

    def test_what_the_folder_holds(self):
        translator = heed.load(DEMO)
        self.assertIsInstance(translator, heed.Translator)
        self.assertEqual(translator.translate(ENGLISH[0])[0].text, CHINESE[0])
        self.assertIsInstance(heed.load(bert_folder(self.folder / "m", "bert-masked")), heed.Encoder)
        with self.assertRaisesRegex(ValueError, "hf download nobody/nothing"):
            heed.load("nobody/nothing")

    def test_int8_weights_translate_almost_alike(self):
        text = heed.load(DEMO, weights="int8").translate(ENGLISH[0])[0]
        self.assertTrue(text.finished)
        with self.assertRaisesRegex(ValueError, "float32"):
            heed.load(DEMO, weights="int4")

    def test_attention_has_weights_and_a_page(self):
        found = heed.load(DEMO).attention(ENGLISH[0])
        layer = found.weights["decoder.layers.0.cross_attention"]
        self.assertEqual(layer.shape, (8, len(found.target_tokens), len(found.source_tokens)))
        np.testing.assert_allclose(layer.sum(axis=-1), 1, atol=1e-5)
        self.assertIn("<iframe", found._repr_html_())
        self.assertTrue(found.page.startswith("<!"))

    def test_attention_in_a_language(self):
        model = heed.load(nllb_folder(self.folder / "m"))
        for source, target in (("eng_Latn", "fra_Latn"), ("fra_Latn", "eng_Latn")):
            spoken = {"source_language": source, "target_language": target}
            found = model.attention("w5 w6", **spoken)
            self.assertEqual(found.source_tokens, [source, "w5", "w6", "</s>"])
            self.assertEqual(found.target_tokens[1], target)
            said = model.translate("w5 w6", **spoken)[0]
            self.assertEqual(found.output_tokens[: len(said.tokens)], said.tokens)
            self.assertEqual(model.attention_page("w5 w6", **spoken), found.page)
        with self.assertRaisesRegex(ValueError, "deu_Latn"):
            model.attention("w5", target_language="deu_Latn")

    def test_attention_is_drawn(self):
        found = heed.load(DEMO).attention(ENGLISH[0])
        layer = "decoder.layers.0.cross_attention"
        svg = found.picture(layer, 3)._repr_svg_()
        self.assertTrue(svg.startswith("<svg"))
        self.assertIn("head 3", svg)
        for token in {*found.source_tokens, *found.target_tokens} - {"<s>", "</s>"}:
            self.assertIn(f">{token}<", svg)
        self.assertNotEqual(found.picture(layer).svg, svg)
        self.assertNotIn("station", found.picture("decoder.layers.0.self_attention").svg)
        with self.assertRaisesRegex(KeyError, "decoder.layers.0.cross_attention"):
            found.picture("decoder")
        with self.assertRaisesRegex(IndexError, "0 to 7"):
            found.picture(layer, 8)
        with self.assertRaisesRegex(TypeError, "head as a whole number; found str '0'"):
            found.picture(layer, "0")

    def test_too_many_weights_are_refused_before_they_are_computed(self):
        generator = heed.load(ROOT / "demo" / "shakespeare")  # reads 32,768 tokens in 24 heads: 103 GB of weights
        if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") < 100e9:
            with self.assertRaisesRegex(ValueError, r"\[attention\] a text whose weights fit into memory, .*; found 25769803776"):
                generator.attention("a" * 32768)
        page = generator.attention_page("a" * 2000)  # in groups of tokens
        self.assertLess(len(page), 20_000_000)
        self.assertIn('"a … a"', page)
        large = generator.attention("a" * 1600)
        self.assertIsNone(large._repr_html_())
        self.assertIn("4 layers", repr(large))
        original = generator.attention("ROMEO:")
        with self.assertRaisesRegex(ValueError, "read-only"):
            next(iter(original.weights.values()))[...] = 0
        found = pickle.loads(pickle.dumps(original))
        self.assertTrue(found.page.startswith("<!"))
        self.assertEqual(len(found.weights), 4)

    def test_classes_of_texts_pairs_and_tokens(self):
        encoder = heed.load(bert_folder(self.folder / "c", "bert-classify"))
        self.assertEqual(encoder.labels, ["sad", "calm", "glad"])
        one, two = encoder.classify(["a b c", ("a", "b 7")])
        self.assertEqual(encoder.classify([("a b c", None), np.array(["a", "b 7"])]), [one, two])
        self.assertAlmostEqual(sum(one.scores), 1, places=5)
        self.assertEqual(one.label, encoder.labels[int(np.argmax(one.scores))])
        self.assertNotEqual(one.scores, two.scores)
        tokens = heed.load(bert_folder(self.folder / "t", "bert-tokens")).classify_tokens("ab 7")
        self.assertEqual([(t.begin, t.end) for t in tokens], [(0, 1), (1, 2), (3, 4)])
        with self.assertRaises(ValueError):
            encoder.fill("a [MASK]")
        for wrong, text in (
            ("a", r"found one text; classify\(\[text\]\)\[0\]"), ([("a", "b", "c")], "text 1 as a str or a pair of two; found tuple"),
            (["a", ("a",)], "text 2 as a str or a pair"), ([{"text": "a"}], "found dict"), ([("a", 3)], "the second of text 1 as a str"),
        ):
            with self.assertRaisesRegex(TypeError, text):
                encoder.classify(wrong)

    def test_answers_of_a_passage(self):
        encoder = heed.load(bert_folder(self.folder / "q", "bert-answer"))
        passage = "é a b c d"
        found = encoder.answer("a b", passage, count=100)
        self.assertGreater(len(found), 10)
        for one in found:
            self.assertEqual(passage[one.begin : one.end], one.text)
        self.assertEqual(found, sorted(found, key=lambda one: -one.score))
        self.assertEqual(encoder.answer("a b", passage), found[:1])
        self.assertEqual(max(len(one.text.split()) for one in encoder.answer("a b", passage, count=100, longest_answer=2)), 2)
        words = "abc déf ghi jkl mno pqr stu"  # of several tokens each
        many = encoder.answer("a b", words, count=100)
        for count in range(1, 12):
            self.assertEqual(encoder.answer("a b", words, count=count), many[:count])
        none = [one for one in encoder.answer("a b", passage, count=100, may_be_none=True) if one.text == ""]
        self.assertEqual([(one.begin, one.end) for one in none], [(0, 0)])
        with self.assertRaisesRegex(ValueError, "passage: a text of at least one token; found an empty one"):
            encoder.answer("a", "")
        with self.assertRaisesRegex(ValueError, "a count and a longest answer of 1 or more"):
            encoder.answer("a", passage, count=0)
        with self.assertRaisesRegex(TypeError, "passage as a str"):
            encoder.answer("a", [passage])

    def test_fills_the_mask(self):
        encoder = heed.load(bert_folder(self.folder / "f", "bert-masked"))
        (places,) = encoder.fill("a [MASK] c", count=3)
        self.assertEqual(len(places), 3)
        self.assertGreaterEqual(places[0].probability, places[1].probability)
        self.assertEqual(len(encoder.fill("[MASK] [MASK]")), 2)
        with self.assertRaises(ValueError):
            encoder.fill("a b c")

    def test_places_are_characters(self):
        found = heed.load(bert_folder(self.folder / "t", "bert-tokens")).classify_tokens("é ab")
        self.assertEqual([(t.begin, t.end) for t in found][-2:], [(2, 3), (3, 4)])


class OlderWeights(pickle.Pickler):
    """Writes a file as torch.save() does, by Python's own pickle and zipfile, and without PyTorch."""

    class FloatStorage:
        pass

    def __init__(self, file):
        self._archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._table = io.BytesIO()
        super().__init__(self._table, protocol=2)

    def persistent_id(self, value):
        if not isinstance(value, np.ndarray):
            return None
        key = str(id(value))
        self._archive.writestr(f"archive/data/{key}", value.tobytes())
        return ("storage", self.FloatStorage, key, "cpu", value.size)

    def reducer_override(self, value):
        if isinstance(value, memoryview):  # stands for a tensor
            array = np.asarray(value)
            strides = tuple(step // array.itemsize for step in array.strides)
            return (_rebuild_tensor_v2, (array, 0, array.shape, strides, False, collections.OrderedDict()))
        return NotImplemented

    def write(self, tensors):
        self.dump(collections.OrderedDict((name, memoryview(value)) for name, value in tensors.items()))
        self._archive.writestr("archive/data.pkl", self._table.getvalue())
        self._archive.close()


def _rebuild_tensor_v2():
    pass


def read_safetensors(file):
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + at for at in entry["data_offsets"])
            yield name, np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"]).copy()


class MakesFolder:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, folder):
        self._folder = str(folder)

    def __reduce__(self):
        return (os.mkdir, (self._folder,))


class Converts(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)
        # pickle writes the name of a class, and looks whether it is there.
        modules = {name: types.ModuleType(name) for name in ("torch", "torch._utils")}
        for value, module in ((OlderWeights.FloatStorage, "torch"), (_rebuild_tensor_v2, "torch._utils")):
            modules[module].__dict__[value.__name__] = value
            value.__module__, value.__qualname__ = module, value.__name__
        patch = unittest.mock.patch.dict(sys.modules, modules)
        patch.start()
        self.addCleanup(patch.stop)

    def test_the_older_weights_of_pytorch(self):
        folder = bert_folder(self.folder / "bert", "bert-model")
        vectors = heed.load(folder).embed(["ab c", "d"])
        OlderWeights(folder / "pytorch_model.bin").write(dict(read_safetensors(folder / "model.safetensors")))
        (folder / "model.safetensors").unlink()
        with self.assertRaisesRegex(ValueError, r"heed.convert\(MODEL, NEW_FOLDER\)"):
            heed.load(folder)
        heed.convert(folder, self.folder / "new")
        np.testing.assert_array_equal(heed.load(self.folder / "new").embed(["ab c", "d"]), vectors)
        with self.assertRaises(FileExistsError):
            heed.convert(folder, self.folder / "new")
        with self.assertRaisesRegex(ValueError, "heed.convert"):
            heed.load(folder)  # still
        heed.convert(folder, self.folder / "new", weights="int8", overwrite=True)

    def test_an_object_is_refused_and_not_made(self):
        folder = bert_folder(self.folder / "bert", "bert-model")
        (folder / "model.safetensors").unlink()
        with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps({"a": MakesFolder(self.folder / "made")}, protocol=2))
        with self.assertRaisesRegex(ValueError, 'an object of "posix.mkdir"'):
            heed.convert(folder, self.folder / "new")
        self.assertFalse((self.folder / "made").exists())

    def test_models_of_ctranslate2(self):
        golden = ROOT / "tests" / "data" / "ctranslate2"
        expected = json.loads((golden / "expected.json").read_text(encoding="utf-8"))
        with self.assertRaisesRegex(ValueError, r"or in the folder of tokenizers=FOLDER; found no source.spm"):
            heed.convert(golden / "f32", self.folder / "new")
        for layout, most in (("same", 24), ("huggingface", 25)):  # a Marian's settings force the end as the last token
            heed.convert(golden / "f32", self.folder / layout, tokenizers=golden, layout=layout)
            found = heed.load(self.folder / layout).translate(
                expected["texts"], beam=1, max_length=most, length_factor=0)
            self.assertEqual([each[0].tokens for each in found], expected["f32"])
        heed.convert(golden / "f32", self.folder / "int8", tokenizers=golden, weights="int8")
        text = "Alice was beginning to get very tired"
        self.assertEqual(heed.load(self.folder / "int8").translate(text),
                         heed.load(self.folder / "same", weights="int8").translate(text))
        with self.assertRaises(FileExistsError):
            heed.convert(golden / "f32", self.folder / "int8", tokenizers=golden)
        heed.convert(DEMO, self.folder / "other")
        heed.convert(golden / "f32", self.folder / "other", tokenizers=golden, overwrite=True)  # its tokenizers are gone
        self.assertEqual(heed.load(self.folder / "other").translate(text), heed.load(self.folder / "same").translate(text))
        heed.convert(golden / "f32", self.folder / "half", tokenizers=golden, weights="bfloat16")
        self.assertIn(b"BF16", (self.folder / "half" / "model.safetensors").read_bytes()[:9000])
        own = self.folder / "own"
        shutil.copytree(golden / "f32", own)
        with self.assertRaisesRegex(ValueError, "a folder other than the model's own; found"):
            heed.convert(own, own, tokenizers=golden, overwrite=True)
        self.assertEqual((own / "config.json").read_bytes(), (golden / "f32" / "config.json").read_bytes())
        with self.assertRaisesRegex(ValueError, "weights in float32 for a folder that transformers reads"):
            heed.convert(golden / "f32", self.folder / "no", tokenizers=golden, weights="int8", layout="huggingface")
        self.assertFalse((self.folder / "no").exists())
        with self.assertRaisesRegex(ValueError, r"in Python: heed.convert\(MODEL, NEW_FOLDER\)"):
            heed.load(golden / "f32")
        with self.assertRaisesRegex(ValueError, "no tokenizers for a model that is not of CTranslate2"):
            heed.convert(self.folder / "same", self.folder / "again", tokenizers=golden)


class Saves(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    @unittest.skipUnless(PROGRAM, "HEED_PROGRAM names no program")
    def test_as_heed_convert(self):
        model = heed.load(DEMO)
        for layout in ("same", "heed", "huggingface"):
            heed_program("convert", DEMO, self.folder / f"p-{layout}", "--layout", layout)
            model.save(self.folder / layout, layout=layout)
            expected = {path.name: path.read_bytes() for path in (self.folder / f"p-{layout}").iterdir()}
            self.assertEqual({path.name: path.read_bytes() for path in (self.folder / layout).iterdir()}, expected)

    def test_what_was_saved_gives_the_same_bits(self):
        texts = ["a b c", "7", ""]
        vectors = heed.load(bert_folder(self.folder / "s", "st-mean"))
        vectors.save(self.folder / "t")
        self.assertTrue((self.folder / "t" / "1_Pooling" / "config.json").is_file())
        np.testing.assert_array_equal(heed.load(self.folder / "t").embed(texts), vectors.embed(texts))
        for weights in ("float32", "int8"):
            classes = heed.load(bert_folder(self.folder / f"c-{weights}", "bert-classify"), weights=weights)
            classes.save(self.folder / weights)
            self.assertEqual(heed.load(self.folder / weights).classify(["a b"]), classes.classify(["a b"]))
        folder = self.folder / f"c-{weights}"  # in f32, which must not be lost
        before = (folder / "model.safetensors").read_bytes()
        with self.assertRaisesRegex(ValueError, r"^\[save\] another folder than .*rounded to int8"):
            classes.save(folder, overwrite=True)
        self.assertEqual((folder / "model.safetensors").read_bytes(), before)
        heed.load(self.folder / "int8").save(self.folder / "int8", overwrite=True)
        with self.assertRaisesRegex(ValueError, "the name of a prompt, or None"):
            vectors.embed(texts, prompt="")
        generator = heed.load(ROOT / "demo" / "shakespeare")
        generator.save(self.folder / "g")
        again = heed.load(self.folder / "g").generate("ROMEO:", max_tokens=8, seed=3)
        self.assertEqual(again, generator.generate("ROMEO:", max_tokens=8, seed=3))

    def test_nothing_is_written_over(self):
        model = heed.load(bert_folder(self.folder / "s", "st-mean"))
        (self.folder / "t").mkdir()
        (self.folder / "t" / "mine.txt").write_text("mine")
        with self.assertRaisesRegex(FileExistsError, "overwrite=True"):
            model.save(self.folder / "t")
        model.save(self.folder / "t", overwrite=True)
        self.assertTrue((self.folder / "t" / "mine.txt").exists())
        with self.assertRaisesRegex(ValueError, "layout"):
            model.save(self.folder / "u", layout="onnx")


class Threads(unittest.TestCase):
    def test_many_may_make_the_first_call(self):
        code = ("import threading, heed, numpy as np\nx = np.ones((1, 4, 64, 32), np.float32)\ngo = threading.Barrier(4)\n"
                "def first():\n    go.wait()\n    heed.attention(x, x, x)\n"
                "threads = [threading.Thread(target=first) for _ in range(4)]\n"
                "for thread in threads:\n    thread.start()\nfor thread in threads:\n    thread.join()\n")
        for _ in range(10):  # one in six waited for ever while pybind11 looked NumPy's functions up
            subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class Ends(unittest.TestCase):
    def test_python_ends_while_threads_compute(self):
        for model, work in (("en-zh", "model.translate(['I am tired of it.'] * 100000)"),
                            ("shakespeare", "model.generate('a', max_tokens=10**6, ignore_end=True)"),
                            ("en-zh", "[heed.attention(q, q, q) for _ in range(10**7)]")):
            code = (f"import heed, threading, time, numpy as np\nq = np.zeros((1, 8, 64, 64), np.float32)\n"
                    f"model = heed.load({str(ROOT / 'demo' / model)!r})\n"
                    f"threading.Thread(target=lambda: {work}, daemon=True).start()\n"
                    f"time.sleep(0.5)\nprint('ends')")
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ends\n", ""), work)

    def test_a_forked_process_waits_for_no_thread_of_its_parent(self):
        code = (f"import heed, os, sys, threading, time\nmodel = heed.load({str(DEMO)!r})\nends = []\n"
                "def work():\n    while not ends:\n        model.translate(['I am tired of it.'] * 10)\n"
                "threading.Thread(target=work).start()\ntime.sleep(0.3)\n"
                "for _ in range(10):\n    child = os.fork()\n    if child == 0:\n"
                "        model.translate('I am tired.')\n        ends.append(1)\n        sys.exit(0)\n"
                "    print(os.waitpid(child, 0)[1])\n"
                "ends.append(1)")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "0\n" * 10, ""))


class IsInterrupted(unittest.TestCase):
    """SIGINT reaches Python while the library computes: every long call raises KeyboardInterrupt soon."""

    def check(self, code, after=0.5):
        printed = interrupt(code, after)
        self.assertEqual(printed[0], "interrupted")
        self.assertLess(float(printed[1]), after + 5)

    def test_translating(self):
        self.check(f"model = heed.load({str(DEMO)!r})\nwork(lambda: model.translate(['I am tired of it.'] * 100000))")

    def test_recording_attention(self):
        self.check(f"model = heed.load({str(DEMO)!r})\nwork(lambda: [model.attention('a ' * 80, beam=20) for _ in range(200)])")

    def test_answers(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = bert_folder(pathlib.Path(scratch) / "q", "bert-answer")
            self.check(f"model = heed.load({str(folder)!r})\nwork(lambda: [model.answer('a b', 'abc def ' * 100000) for _ in range(100)])", 1)

    def test_vectors_and_classes(self):
        with tempfile.TemporaryDirectory() as scratch:
            for name, call in (("st-mean", "embed"), ("bert-classify", "classify")):
                folder = bert_folder(pathlib.Path(scratch) / name, name)
                self.check(f"model = heed.load({str(folder)!r})\nwork(lambda: model.{call}(['a b c d'] * 1000000))", 1)

    def test_generating(self):
        folder = ROOT / "demo" / "shakespeare"
        self.check(f"model = heed.load({str(folder)!r})\nwork(lambda: model.generate('A', max_tokens=10**6, ignore_end=True))")

    def test_tokens(self):
        self.check(f"t = heed.load({str(DEMO)!r}).tokenizer\nwork(lambda: t.encode_batch(['I am tired of it.'] * 2000000))", 2)

    def test_other_threads_run_meanwhile(self):
        printed = interrupt(f"""
model = heed.load({str(DEMO)!r})
counted = [0]
def count():
    while True:
        counted[0] += 1
        time.sleep(0.001)
threading.Thread(target=count, daemon=True).start()
work(lambda: model.translate(["I am tired of it."] * 100000))
print(counted[0])
""", after=2)
        self.assertGreater(int(printed[2]), 100)


if __name__ == "__main__":
    unittest.main()
