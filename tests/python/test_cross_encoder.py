"""heed.CrossEncoder: the arguments of sentence-transformers, each done as there or refused.

bench/compare/sentence_transformer.py --cross-encoder compares the whole class with the installed package.
"""

import importlib.util
import inspect
import json
import pathlib
import tempfile
import unittest
import warnings

import numpy as np

import heed
from test_pipelines import bert_folder

HAS_TORCH = importlib.util.find_spec("torch") is not None
# sentence-transformers 6.2, without its **kwargs (the older names and `processing_kwargs` are known there).
PREDICT = ["self", "inputs", "prompt_name", "prompt", "batch_size", "show_progress_bar", "activation_fn", "apply_softmax",
           "convert_to_numpy", "convert_to_tensor", "device", "pool", "chunk_size"]
RANK = ["self", "query", "documents", "top_k", "return_documents", "prompt_name", "prompt", "batch_size",
        "show_progress_bar", "activation_fn", "device", "pool", "chunk_size"]
PAIRS = [("a b", "c d e"), ("z", "y x w v u t s"), ("", "a"), ("q 7 r", "")]
NAMES = {"sigmoid": "torch.nn.modules.activation.Sigmoid", "identity": "torch.nn.modules.linear.Identity"}


def change(file, **settings):
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


class Scores(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        cls.folder = bert_folder(cls.scratch / "ranks", "bert-cross-encoder")
        change(cls.folder / "config.json", sentence_transformers={"activation_fn": NAMES["identity"]})
        cls.several = bert_folder(cls.scratch / "tells", "bert-classify")
        cls.model = heed.CrossEncoder(cls.folder, device="cpu")
        cls.scores = cls.model.predict(PAIRS)

    def test_the_arguments_stand_in_their_order(self):
        for method, expected, older in (
            (heed.CrossEncoder.predict, PREDICT, {"sentences", "activation_fct", "num_workers", "processing_kwargs"}),
            (heed.CrossEncoder.rank, RANK,
             {"activation_fct", "num_workers", "apply_softmax", "convert_to_numpy", "convert_to_tensor"}),
        ):
            found = inspect.signature(method).parameters
            self.assertEqual(list(found)[: len(expected)], expected)
            self.assertEqual({name for name in found if name not in expected}, older)
        defaults = [parameter.default for parameter in inspect.signature(heed.CrossEncoder.predict).parameters.values()]
        self.assertEqual(defaults[2:13], [None, None, 32, None, None, False, True, False, None, None, None])

    def test_scores_are_those_of_the_pipeline(self):
        self.assertEqual((self.scores.shape, self.scores.dtype), ((4,), np.float32))
        self.assertGreater(np.ptp(self.scores), 1e-3)
        expected = [one.score for one in self.model.encoder.classify(PAIRS, parse_special=True)]
        np.testing.assert_array_equal(self.scores, np.float32(expected))
        for place, pair in enumerate(PAIRS):
            alone = self.model.predict(pair)
            self.assertEqual((alone.shape, alone), ((), self.scores[place]))
        for same in (list(map(list, PAIRS)), np.array(PAIRS), tuple(PAIRS)):
            np.testing.assert_array_equal(self.model.predict(same, batch_size=1), self.scores)
        np.testing.assert_array_equal(self.model.predict(sentences=PAIRS, num_workers=4, device=["cpu"]), self.scores)
        self.assertEqual(self.model.predict([]).shape, (0,))
        text = self.model.predict("a b")
        self.assertEqual(text, np.float32(self.model.encoder.classify(["a b"])[0].score))

    def test_activations_come_from_the_folder(self):
        file = self.folder / "config.json"
        before = file.read_text()
        self.addCleanup(file.write_text, before)
        config = {key: value for key, value in json.loads(before).items() if key != "sentence_transformers"}
        probabilities = 1 / (1 + np.exp(-self.scores.astype(float)))
        for settings, expected in (
            ({}, probabilities),  # of one label
            ({"sbert_ce_default_activation_function": NAMES["identity"]}, self.scores),
            ({"sentence_transformers": {"activation_fn": NAMES["sigmoid"]}}, probabilities),
        ):
            file.write_text(json.dumps({**config, **settings}))
            model = heed.CrossEncoder(self.folder)
            np.testing.assert_allclose(model.predict(PAIRS), expected, atol=1e-6, err_msg=str(settings))
        self.assertIs(model.default_activation_function, model.activation_fn)
        own = model.activation_fn
        model.activation_fn = abs
        model.activation_fn = own
        model.save(self.scratch / "set and set back")
        model.activation_fn = None  # as there: no function, not the folder's
        np.testing.assert_allclose(model.predict(PAIRS), self.scores, atol=1e-6)
        file.write_text(json.dumps({**config, "problem_type": "regression"}))  # for transformers' pipeline, not there
        model = heed.CrossEncoder(self.folder)
        np.testing.assert_allclose(model.predict(PAIRS), probabilities, atol=1e-6)
        # sentence-transformers 6 keeps it beside the modules.
        (self.folder / "modules.json").write_text(json.dumps(
            [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}]))
        self.addCleanup((self.folder / "modules.json").unlink)
        own = self.folder / "config_sentence_transformers.json"
        self.addCleanup(own.unlink)
        for name, expected in (("sigmoid", probabilities), ("identity", self.scores)):
            own.write_text(json.dumps({"model_type": "CrossEncoder", "activation_fn": NAMES[name],
                                       "prompts": {"own": "b "}, "default_prompt_name": None}))
            model = heed.CrossEncoder(self.folder)
            np.testing.assert_allclose(model.predict(PAIRS), expected, atol=1e-6, err_msg=name)
            prompted = model.predict([("b " + first, second) for first, second in PAIRS])
            np.testing.assert_array_equal(model.predict(PAIRS, prompt_name="own"), prompted)
            np.testing.assert_array_equal(model.predict(PAIRS, prompt="b "), prompted)
        with self.assertRaisesRegex(ValueError, 'prompt_name: one of own; found "no"'):
            model.predict(PAIRS, prompt_name="no")

    def test_there_are_no_prompts_but_the_folders(self):
        self.assertEqual(self.model.prompts, {})
        with self.assertRaisesRegex(ValueError, 'prompt_name: none, because the model has no prompts; found "query"'):
            self.model.predict(PAIRS, prompt_name="query")
        own = heed.CrossEncoder(self.folder, prompts={"q": "b "}, default_prompt_name="q")
        np.testing.assert_array_equal(own.predict(PAIRS), self.model.predict(PAIRS, prompt="b "))
        self.assertGreater(np.abs(own.predict(PAIRS) - self.scores).max(), 1e-4)

    def test_plain_scores_in_heeds_own_layout(self):
        own = self.scratch / "own"
        self.model.encoder.save(own, layout="heed")
        self.assertEqual(json.loads((own / "config.json").read_text())["scores"], "raw")
        texts = ["a b", "z y x"]
        expected = [one.score for one in heed.Encoder(own).classify(texts)]
        np.testing.assert_array_equal([heed.CrossEncoder(own).predict(text) for text in texts], np.float32(expected))
        np.testing.assert_array_equal(heed.CrossEncoder(own).predict(PAIRS), self.scores)

    def test_several_labels(self):
        model = heed.CrossEncoder(self.several)
        logits = model.predict(PAIRS)
        self.assertEqual(logits.shape, (4, model.num_labels))
        shares = model.predict(PAIRS, apply_softmax=True)
        expected = [one.scores for one in model.encoder.classify(PAIRS, parse_special=True)]
        np.testing.assert_allclose(shares, expected, atol=1e-6)
        powers = np.exp(logits.astype(float))
        np.testing.assert_allclose(shares, powers / powers.sum(axis=1, keepdims=True), atol=1e-6)
        np.testing.assert_array_equal(model.predict(PAIRS[0]), logits[0])
        np.testing.assert_array_equal(self.model.predict(PAIRS, apply_softmax=True), self.scores)  # one label
        file = self.several / "config.json"
        before = file.read_text()
        self.addCleanup(file.write_text, before)
        for key, value, expected in (
            ("sentence_transformers", {"activation_fn": NAMES["sigmoid"]}, 1 / (1 + np.exp(-logits.astype(float)))),
            ("sbert_ce_default_activation_function", NAMES["identity"], logits),
        ):
            file.write_text(json.dumps({**json.loads(before), key: value}))
            np.testing.assert_allclose(heed.CrossEncoder(self.several).predict(PAIRS), expected, atol=1e-6)
        change(file, sentence_transformers={"activation_fn": "torch.nn.modules.activation.Softmax"})
        with self.assertRaisesRegex(ValueError, "Sigmoid or Identity as activation_fn of the folder.*Softmax"):
            heed.CrossEncoder(self.several)
        own = heed.CrossEncoder(self.several, activation_fn=abs)  # then the folder's does not matter
        own.activation_fn = None
        np.testing.assert_allclose(own.predict(PAIRS), logits, atol=1e-6)
        with self.assertRaisesRegex(ValueError, "found others: activation_fn"):
            own.save(self.scratch / "no")
        with self.assertRaisesRegex(ValueError, r"\[rank\] a model of one label; found 3"):
            model.rank("a", ["b"])

    def test_ranks(self):
        documents = ["c d e", "y", "", "a b c d", "y"]
        scores = self.model.predict([("a b", text) for text in documents])
        found = self.model.rank("a b", documents, return_documents=True)
        self.assertEqual([one["corpus_id"] for one in found], sorted(range(5), key=lambda place: -scores[place]))
        for one in found:
            self.assertEqual((one["score"], one["text"]), (float(scores[one["corpus_id"]]), documents[one["corpus_id"]]))
        equal = [one["corpus_id"] for one in found if one["text"] == "y"]
        self.assertEqual(equal, [1, 4])  # in their order
        self.assertEqual(self.model.rank("a b", documents, 2), [
            {name: one[name] for name in ("corpus_id", "score")} for one in found[:2]])
        self.assertEqual((self.model.rank("a b", []), self.model.rank("a b", documents, top_k=0)), ([], []))

    def test_long_pairs_are_cut_without_a_word(self):
        model = heed.CrossEncoder(self.folder, max_length=8)
        self.assertEqual((model.max_length, model.max_seq_length), (8, 8))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cut = model.predict(("a b c d e", "f g"))  # the longer one first: 5 + 2 + 3 special tokens in 8 places
        self.assertEqual(cut, self.model.predict(("a b c", "f g")))
        with self.assertRaisesRegex(ValueError, "max_seq_length"):
            heed.CrossEncoder(self.folder, max_length=10**6)

    def test_special_tokens_in_a_text_are_special(self):
        self.assertEqual(self.model.predict(("a [SEP] b", "c")),
                         np.float32(self.model.encoder.classify([("a [SEP] b", "c")], parse_special=True)[0].score))

    def test_what_is_not_done_is_refused(self):
        for wrong in ({"batch_size": 0}, {"device": "cuda"}, {"pool": {"input": None}}, {"processing_kwargs": {"text": {}}}):
            with self.assertRaises(ValueError, msg=str(wrong)):
                self.model.predict(PAIRS, **wrong)
        for wrong, text in (
            ({"inputs": ("a", "b", "c")}, "text 1 as a str or a pair of two"), ({"inputs": [("a", 3)]}, "the second of text 1"),
            ({"inputs": 3}, "a list of texts or pairs; found int 3"), ({"inputs": None}, "found None"),
            ({"inputs": PAIRS, "sentences": PAIRS}, "found both"), ({"inputs": PAIRS, "activation_fn": 3}, "as a function"),
        ):
            with self.assertRaisesRegex(TypeError, text):
                self.model.predict(**wrong)
        for wrong in ({"device": "cuda"}, {"modules": [1]}, {"backend": "onnx"}, {"revision": "main"}, {"num_labels": 3},
                      {"default_prompt_name": "no"}, {"config_kwargs": {"num_labels": 2}}):
            with self.assertRaises(ValueError, msg=str(wrong)):
                heed.CrossEncoder(self.folder, **wrong)
        heed.CrossEncoder(self.folder, num_labels=1, trust_remote_code=True, token="t", keep_in_fp32_modules=["a"])
        with self.assertRaisesRegex(ValueError, "top_k of 0 or more; found -1"):
            self.model.rank("a", ["b"], top_k=-1)
        with self.assertRaisesRegex(TypeError, "a list of texts; found one text"):
            self.model.rank("a", "b")
        with self.assertRaisesRegex(ValueError, "a model that tells classes of texts; found a model that gives states only"):
            heed.CrossEncoder(bert_folder(self.scratch / "states", "bert-model"))
        with self.assertRaisesRegex(ValueError, "hf download cross-encoder/no-such-model"):
            heed.CrossEncoder("no-such-model")

    def test_what_was_saved_gives_the_same_bits(self):
        to = self.scratch / "saved"
        self.model.save_pretrained(to)
        np.testing.assert_array_equal(heed.CrossEncoder(to).predict(PAIRS), self.scores)
        changed = heed.CrossEncoder(self.folder, max_length=9, prompts={"own": "a "}, activation_fn=abs)
        with self.assertRaisesRegex(ValueError, "found others: prompts, max_seq_length, activation_fn"):
            changed.save(self.scratch / "no")
        self.assertFalse((self.scratch / "no").exists())

    @unittest.skipUnless(HAS_TORCH, "PyTorch is not installed for this Python")
    def test_tensors_and_functions(self):
        import torch

        tensor = self.model.predict(PAIRS, convert_to_tensor=True)
        self.assertIsInstance(tensor, torch.Tensor)
        np.testing.assert_array_equal(tensor.numpy(), self.scores)
        np.testing.assert_array_equal(torch.stack(self.model.predict(PAIRS, convert_to_numpy=False)).numpy(), self.scores)
        np.testing.assert_allclose(self.model.predict(PAIRS, activation_fn=torch.nn.Tanh()), np.tanh(self.scores), atol=1e-6)
        model = heed.CrossEncoder(self.folder, activation_fn=torch.nn.Sigmoid())
        np.testing.assert_allclose(model.predict(PAIRS), 1 / (1 + np.exp(-self.scores)), atol=1e-6)
        model.activation_fn = None  # as they are
        np.testing.assert_array_equal(model.predict(PAIRS), self.scores)

    @unittest.skipIf(HAS_TORCH, "PyTorch is installed")
    def test_without_torch_tensors_are_refused(self):
        for wanted in ({"convert_to_tensor": True}, {"convert_to_numpy": False}, {"activation_fn": abs}):
            with self.assertRaisesRegex(ImportError, "PyTorch"):
                self.model.predict(PAIRS, **wanted)


if __name__ == "__main__":
    unittest.main()
