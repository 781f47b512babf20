"""heed.SentenceTransformer: the arguments of sentence-transformers, each done as there or refused.

The numbers are those of sentence-transformers in tests/data/families; bench/compare/sentence_transformer.py compares the
whole class with the installed package.
"""

import enum
import importlib.util
import inspect
import json
import os
import pathlib
import shutil
import tempfile
import threading
import unittest
import unittest.mock
import warnings

import numpy as np

import heed
from test_pipelines import bert_folder

HAS_TORCH = importlib.util.find_spec("torch") is not None
# sentence-transformers 6.2, without its **kwargs (`sentences`, `task` and `processing_kwargs` are known there).
ENCODE = ["self", "inputs", "prompt_name", "prompt", "batch_size", "show_progress_bar", "output_value", "precision",
          "convert_to_numpy", "convert_to_tensor", "device", "normalize_embeddings", "truncate_dim", "pool", "chunk_size"]
TEXTS = ["a b c", "7", "", "z y x w v u", "a b"]


class Encodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = bert_folder(pathlib.Path(scratch.name) / "s", "st-mean")
        settings = {"prompts": {"query": "a ", "passage": "b "}, "similarity_fn_name": "dot"}
        (cls.folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
        cls.model = heed.SentenceTransformer(cls.folder, device="cpu")
        cls.vectors = cls.model.encode(TEXTS)

    def test_the_arguments_stand_in_their_order(self):
        found = inspect.signature(heed.SentenceTransformer.encode).parameters
        self.assertEqual(list(found)[: len(ENCODE)], ENCODE)
        self.assertEqual({name for name in found if name not in ENCODE}, {"sentences", "task", "processing_kwargs"})
        defaults = [found[name].default for name in ENCODE[2:]]
        self.assertEqual(defaults, [None, None, 32, None, "sentence_embedding", "float32", True, False, None, False, None,
                                    None, None])

    def test_one_text_and_several(self):
        self.assertEqual(self.vectors.shape, (5, self.model.get_sentence_embedding_dimension()))
        self.assertEqual(self.vectors.dtype, np.float32)
        np.testing.assert_array_equal(self.vectors, self.model.encoder.embed(TEXTS))
        np.testing.assert_allclose(np.linalg.norm(self.vectors[:2], axis=1), 1, atol=1e-6)
        for place, text in enumerate(TEXTS):
            np.testing.assert_array_equal(self.model.encode(text), self.vectors[place])
        for size in (1, 2, 100):  # no batch changes a bit
            np.testing.assert_array_equal(self.model.encode(TEXTS, batch_size=size), self.vectors)
        np.testing.assert_array_equal(self.model.encode(sentences=TEXTS), self.vectors)
        np.testing.assert_array_equal(self.model.encode(np.array(TEXTS)), self.vectors)
        np.testing.assert_array_equal(self.model.encode(iter(TEXTS), device=["cpu", "cpu"], chunk_size=2), self.vectors)
        self.assertEqual(self.model.encode([]).shape, (0,))

    def test_prompts(self):
        asked = self.model.encode(["a " + text for text in TEXTS])
        np.testing.assert_array_equal(self.model.encode(TEXTS, prompt_name="query"), asked)
        np.testing.assert_array_equal(self.model.encode(TEXTS, prompt="a "), asked)
        np.testing.assert_array_equal(self.model.encode(TEXTS, "passage", "a "), asked)  # the prompt before its name
        np.testing.assert_array_equal(self.model.encode_query(TEXTS), asked)
        # sentence-transformers 6.2 gives every model an empty "document", and takes it before "passage".
        self.assertEqual(self.model.prompts, {"query": "a ", "document": "", "passage": "b "})
        np.testing.assert_array_equal(self.model.encode_document(TEXTS), self.vectors)
        np.testing.assert_array_equal(self.model.encode(TEXTS, prompt_name="document"), self.vectors)
        np.testing.assert_array_equal(self.model.encode_query(TEXTS, prompt=""), self.vectors)
        with self.assertRaisesRegex(ValueError, "one of query, document, passage; found \"no\""):
            self.model.encode(TEXTS, prompt_name="no")
        other = heed.SentenceTransformer(self.folder, prompts={"query": "b ", "own": "a "}, default_prompt_name="own")
        np.testing.assert_array_equal(other.encode(TEXTS), asked)
        np.testing.assert_array_equal(other.encode(TEXTS, prompt=""), self.vectors)
        np.testing.assert_array_equal(other.encode_query(TEXTS), self.model.encode(TEXTS, prompt="b "))
        with self.assertRaisesRegex(ValueError, "default_prompt_name"):
            heed.SentenceTransformer(self.folder, default_prompt_name="no")

    def test_the_folder_may_cut_vectors(self):
        file = self.folder / "config_sentence_transformers.json"
        before = file.read_text()
        self.addCleanup(file.write_text, before)
        file.write_text(json.dumps({**json.loads(before), "truncate_dim": 6}))
        model = heed.SentenceTransformer(self.folder)
        self.assertEqual((model.truncate_dim, model.get_embedding_dimension()), (6, 6))
        np.testing.assert_array_equal(model.encode(TEXTS), self.vectors[:, :6])
        np.testing.assert_array_equal(model.encode(TEXTS, truncate_dim=4), self.vectors[:, :4])
        with self.assertRaisesRegex(ValueError, "truncate_dim of at most 6, as config_sentence_transformers.json says; found 7"):
            model.encode(TEXTS, truncate_dim=7)
        with self.assertRaisesRegex(ValueError, "truncate_dim of at most 6"):
            heed.SentenceTransformer(self.folder, truncate_dim=7)
        with self.assertRaisesRegex(ValueError, "truncate_dim of at most 6"):
            model.truncate_dim = 7
        model.truncate_dim = 4
        self.assertEqual(model.encode(TEXTS).shape[1], 4)
        model.truncate_dim = None  # as the folder says
        self.assertEqual((model.truncate_dim, model.encode(TEXTS).shape[1]), (6, 6))

    def test_lengths(self):
        model = heed.SentenceTransformer(self.folder, truncate_dim=6)
        self.assertEqual(model.get_embedding_dimension(), 6)
        np.testing.assert_array_equal(model.encode(TEXTS), self.vectors[:, :6])
        np.testing.assert_array_equal(model.encode(TEXTS, truncate_dim=4), self.vectors[:, :4])
        short = self.model.encode(TEXTS, truncate_dim=4, normalize_embeddings=True)
        np.testing.assert_allclose(short, self.vectors[:, :4] / np.linalg.norm(self.vectors[:, :4], axis=1, keepdims=True),
                                   atol=1e-6)
        self.assertEqual(model.max_seq_length, model.encoder.longest)
        model.max_seq_length = 4
        np.testing.assert_array_equal(model.encode("a b c"), model.encode("a b"))  # two tokens stand around
        self.assertEqual(model.preprocess(["a b c"])["input_ids"].shape[1], 4)
        with self.assertRaises(ValueError):
            model.max_seq_length = 10**6
        # A limit below the model's positions may be raised.
        file = self.folder / "sentence_bert_config.json"
        before = file.read_text()
        self.addCleanup(file.write_text, before)
        file.write_text(json.dumps({"max_seq_length": 4}))
        longer = heed.SentenceTransformer(self.folder)
        np.testing.assert_array_equal(longer.encode("a b c"), longer.encode("a b"))
        longer.max_seq_length = 12
        np.testing.assert_array_equal(longer.encode("a b c x y"), self.model.encode("a b c x y"))
        self.assertEqual(longer.preprocess(["a b c x y"])["input_ids"].shape[1], 7)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(self.model.encode("a " * 5000).shape, self.vectors[0].shape)  # cut without a word

    def test_precisions(self):
        bits = self.model.encode(TEXTS, precision="ubinary")
        np.testing.assert_array_equal(np.unpackbits(bits, axis=1)[:, : self.vectors.shape[1]], self.vectors > 0)
        np.testing.assert_array_equal(self.model.encode(TEXTS, precision="binary").astype(int), bits.astype(int) - 128)
        with self.assertWarnsRegex(UserWarning, "5 sentences"):
            numbers = self.model.encode(TEXTS, precision="uint8")
        low, high = self.vectors.min(axis=0), self.vectors.max(axis=0)
        self.assertGreaterEqual(numbers.max(axis=0).min(), 254)
        np.testing.assert_array_equal(numbers.min(axis=0), 0)
        np.testing.assert_allclose(low + numbers / 255.0 * (high - low), self.vectors, atol=((high - low) / 255).max())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_array_equal(self.model.encode(TEXTS, precision="int8").astype(int), numbers.astype(int) - 128)
        with self.assertRaisesRegex(ValueError, "several sentences"):
            self.model.encode("a", precision="int8")

    def test_similarities(self):
        a, b = self.vectors[:2].astype(float), self.vectors[2:].astype(float)
        distances = np.sqrt(((a[:, None] - b) ** 2).sum(axis=2))
        lengths = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
        expected = {"cosine": a @ b.T / lengths, "dot": a @ b.T, "euclidean": -distances,
                    "manhattan": -np.abs(a[:, None] - b).sum(axis=2)}
        for name, matrix in expected.items():
            model = heed.SentenceTransformer(self.folder, similarity_fn_name=name)
            np.testing.assert_allclose(np.asarray(model.similarity(a, b)), matrix, atol=1e-5)
            pairs = np.asarray(model.similarity_pairwise(a, self.vectors[2:4]))
            np.testing.assert_allclose(pairs, np.diagonal(matrix), atol=1e-5)
            np.testing.assert_allclose(np.asarray(model.similarity_pairwise(a[0], b)), matrix[0], atol=1e-5)
            self.assertEqual(np.asarray(model.similarity(a[:0], b)).shape, (0, 3))
            one = np.asarray(model.similarity_pairwise(a[0], b[0]))
            self.assertEqual(one.shape, ())  # as sentence-transformers has it
            self.assertAlmostEqual(float(one), matrix[0, 0], places=5)
            self.assertEqual(np.asarray(model.similarity_pairwise(list(a[0]), list(b[0]))).shape, ())
            self.assertEqual(np.asarray(model.similarity_pairwise(list(a[:1]), list(b[:1]))).shape, (1,))
        self.assertEqual(self.model.similarity_fn_name, "dot")  # as the folder says
        with self.assertRaisesRegex(ValueError, "similarity_fn_name: one of cosine, .*; found \"near\""):
            self.model.similarity_fn_name = "near"
        names = enum.Enum("SimilarityFunction", {"DOT_PRODUCT": "dot"})  # as sentence-transformers has them
        model = heed.SentenceTransformer(self.folder, similarity_fn_name=names.DOT_PRODUCT)
        self.assertEqual(model.similarity_fn_name, "dot")
        model.similarity_fn_name = None
        self.assertEqual(model.similarity_fn_name, "cosine")
        self.assertEqual(np.asarray(self.model.similarity(self.vectors[0], list(b))).shape, (1, 3))

    def test_tokens(self):
        found = self.model.tokenize(["a b", "c"])
        self.assertEqual(set(found), {"input_ids", "attention_mask", "token_type_ids"})
        rows = self.model.tokenizer.encode_batch(["a b", "c"])
        self.assertEqual(np.asarray(found["input_ids"]).tolist(), [rows[0].ids, rows[1].ids + [0]])
        self.assertEqual(np.asarray(found["attention_mask"]).tolist(), [[1, 1, 1, 1], [1, 1, 1, 0]])

    def test_special_tokens_in_a_text_are_special(self):
        rows = self.model.tokenizer.encode_batch(["a [SEP] b"], parse_special=True)
        found = self.model.tokenize(["a [SEP] b"])
        self.assertEqual(np.asarray(found["input_ids"]).tolist(), [rows[0].ids])
        self.assertEqual(rows[0].tokens, ["[CLS]", "a", "[SEP]", "b", "[SEP]"])
        vector = self.model.encode("a [SEP] b")
        np.testing.assert_array_equal(vector, self.model.encoder.embed(["a [SEP] b"], parse_special=True)[0])
        self.assertGreater(np.abs(vector - self.model.encoder.embed(["a [SEP] b"])[0]).max(), 1e-4)

    def test_a_folder_may_ask_for_lower_case(self):
        file = self.folder / "sentence_bert_config.json"
        before = file.read_text() if file.exists() else None
        file.write_text(json.dumps({"max_seq_length": 20, "do_lower_case": True}))
        try:
            lower = heed.SentenceTransformer(self.folder)
        finally:
            file.unlink() if before is None else file.write_text(before)
        self.assertEqual(np.asarray(lower.tokenize(["A B"])["input_ids"]).tolist(),
                         np.asarray(self.model.tokenize(["a b"])["input_ids"]).tolist())
        np.testing.assert_array_equal(lower.encode("A B"), lower.encode("a b"))
        self.assertEqual(np.asarray(lower.tokenize(["A [SEP] B"])["input_ids"]).tolist(),
                         np.asarray(self.model.tokenize(["a [SEP] b"])["input_ids"]).tolist())
        np.testing.assert_array_equal(lower.encode("A [SEP] B"), self.model.encode("a [SEP] b"))

    def test_what_is_not_done_is_refused(self):
        for wrong in ({"output_value": None}, {"output_value": "states"}, {"precision": "float16"}, {"batch_size": 0},
                      {"device": "cuda"}, {"device": ["cpu", "cuda:1"]}, {"pool": {}, "processing_kwargs": {"text": {}}},
                      {"pool": {"input": None}}):
            with self.assertRaises(ValueError, msg=str(wrong)):
                self.model.encode(TEXTS, **wrong)
        for wrong in ({"colour": "blue"}, {"inputs": None}, {"inputs": [("a", "b")]}, {"inputs": 3}):
            with self.assertRaises(TypeError, msg=str(wrong)):
                self.model.encode(**{"inputs": TEXTS, **wrong})
        for wrong in ({"device": "cuda"}, {"modules": [1]}, {"backend": "onnx"}, {"model_kwargs": {"dtype": "float16"}},
                      {"revision": "main"}, {"cache_folder": ""}, {"similarity_fn_name": "near"}):
            with self.assertRaises(ValueError, msg=str(wrong)):
                heed.SentenceTransformer(self.folder, **wrong)
        with self.assertRaises(TypeError):
            heed.SentenceTransformer(self.folder, colour="blue")
        same = heed.SentenceTransformer(self.folder, trust_remote_code=True, local_files_only=True, token="t", backend="torch",
                                        model_kwargs={})
        np.testing.assert_array_equal(same.eval().to("cpu").encode(TEXTS), self.vectors)

    def test_threads_leave_the_warnings_of_the_process_alone(self):
        before = list(warnings.filters)
        long = ["a b c d e f g h " * 20] * 300
        threads = [threading.Thread(target=lambda: [self.model.encode(long) for _ in range(5)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(warnings.filters, before)

    def test_texts_and_prompts_are_named(self):
        for wrong, text in (
            ({"inputs": ["a", 3]}, "text 2 as a str; found int 3"), ({"inputs": {"a": 1}}, "a list of texts; found dict"),
            ({"inputs": 3}, "a list of texts; found int 3"), ({"inputs": TEXTS, "prompt": 3}, "prompt as a str; found int 3"),
        ):
            with self.assertRaisesRegex(TypeError, text):
                self.model.encode(**wrong)
        with self.assertRaisesRegex(TypeError, "text 1 as a str; found int 3"):
            self.model.tokenize([3])
        with self.assertRaisesRegex(ValueError, "text 1 of Unicode's characters; found a lone surrogate"):
            self.model.encode(["a\ud800"])
        with self.assertRaisesRegex(TypeError, 'the prompt "q" as a str; found int 3'):
            heed.SentenceTransformer(self.folder, prompts={"q": 3}).encode(["a"], prompt_name="q")

    def test_senseless_numbers_are_refused(self):
        model = heed.SentenceTransformer(self.folder)
        with self.assertRaisesRegex(TypeError, "value as a whole number; found float 5.5"):
            model.max_seq_length = 5.5
        for wrong in (-1, 0):
            with self.assertRaisesRegex(ValueError, "truncate_dim of 1 or more"):
                heed.SentenceTransformer(self.folder, truncate_dim=wrong)
            with self.assertRaisesRegex(ValueError, "truncate_dim of 1 or more"):
                model.encode(TEXTS, truncate_dim=wrong)
        for wrong in (self.vectors[:, :3], [[1.0], [1.0, 2.0]], "text", np.zeros((2, 2, 2))):
            with self.assertRaisesRegex(ValueError, r"^\[similarity\] vectors "):
                model.similarity(self.vectors, wrong)
        with self.assertRaisesRegex(ValueError, "as many vectors of one size"):
            model.similarity_pairwise(self.vectors, self.vectors[:2])

    def test_what_was_saved_gives_the_same_bits(self):
        to = pathlib.Path(self.folder).parent / "saved"
        self.model.save_pretrained(to)
        np.testing.assert_array_equal(heed.SentenceTransformer(to).encode(TEXTS), self.vectors)
        with self.assertRaises(FileExistsError):
            self.model.save(to)

    def test_settings_are_saved(self):
        model = heed.SentenceTransformer(self.folder)
        model.prompts = {**model.prompts, "own": "c "}
        model.default_prompt_name = "own"
        model.max_seq_length = 4
        model.similarity_fn_name = "manhattan"
        model.truncate_dim = 6
        to = pathlib.Path(self.folder).parent / "changed"
        model.save_pretrained(to)
        found = heed.SentenceTransformer(to)
        self.assertEqual((found.prompts, found.default_prompt_name), (model.prompts, "own"))
        self.assertEqual((found.max_seq_length, found.similarity_fn_name, found.truncate_dim), (4, "manhattan", 6))
        np.testing.assert_array_equal(found.encode(TEXTS), model.encode(TEXTS))
        self.assertEqual({file.name for file in to.iterdir()},
                         {file.name for file in self.folder.iterdir()} - {"golden.safetensors"})
        # An argument for the tokenizer would count more.
        file = to / "sentence_bert_config.json"
        file.write_text(json.dumps({"max_seq_length": 9, "processor_kwargs": {"model_max_length": 6, "use_fast": True}}))
        limited = heed.SentenceTransformer(to)
        self.assertEqual(limited.max_seq_length, 6)
        limited.max_seq_length = 5
        limited.save(to.parent / "limited")
        self.assertEqual(heed.SentenceTransformer(to.parent / "limited").max_seq_length, 5)

    def test_settings_are_those_of_now_after_a_save_onto_the_own_folder(self):
        own = pathlib.Path(self.folder).parent / "own"
        self.model.save(own)
        model = heed.SentenceTransformer(own)
        before = dict(model.prompts), model.max_seq_length
        model.prompts["new"], model.max_seq_length = "n ", 4
        model.save(own, overwrite=True)
        del model.prompts["new"]
        model.max_seq_length = before[1]
        model.save(own.parent / "after")
        found = heed.SentenceTransformer(own.parent / "after")
        self.assertEqual((found.prompts, found.max_seq_length), before)

    def test_a_default_prompt_that_is_gone_is_not_saved(self):
        model = heed.SentenceTransformer(self.folder)
        model.prompts["own"] = "c "
        model.default_prompt_name = "own"
        del model.prompts["own"]
        to = pathlib.Path(self.folder).parent / "gone"
        with self.assertRaisesRegex(ValueError, r'^\[save\] default_prompt_name: one of .*; found "own"'):
            model.save(to)
        self.assertFalse(to.exists())

    def test_a_prompt_that_is_no_text_is_not_saved(self):
        to = pathlib.Path(self.folder).parent / "no prompt"
        for prompts, error in (({"q": 5}, TypeError), ({"q": "\ud800"}, ValueError), ({5: "q"}, TypeError)):
            model = heed.SentenceTransformer(self.folder)
            model.prompts = prompts
            with self.assertRaisesRegex(error, r"^\[save\] the "):
                model.save(to)
            self.assertFalse(to.exists())

    def test_a_cross_encoders_settings_do_not_count(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = bert_folder(pathlib.Path(scratch) / "pairs", "bert-cross-encoder")
            (folder / "modules.json").write_text(json.dumps(
                [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.Transformer"}]))
            (folder / "config_sentence_transformers.json").write_text(json.dumps(
                {"model_type": "CrossEncoder", "prompts": {"own": "a "}, "default_prompt_name": "own"}))
            model = heed.SentenceTransformer(folder)
            self.assertEqual((model.prompts, model.default_prompt_name), ({"query": "", "document": ""}, None))
            self.assertEqual(heed.CrossEncoder(folder).default_prompt_name, "own")

    def test_names_without_an_organisation(self):
        with tempfile.TemporaryDirectory() as cache, unittest.mock.patch.dict(os.environ, {"HF_HUB_CACHE": cache}):
            for name, wanted in (("bert-base-uncased", "bert-base-uncased"),
                                 ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")):
                with self.assertRaisesRegex(ValueError, f"hf download {wanted}"):
                    heed.SentenceTransformer(name)

    def test_another_cache(self):
        commit = "0123456789" * 4
        with tempfile.TemporaryDirectory() as cache:
            model = pathlib.Path(cache) / "models--sentence-transformers--tiny"
            (model / "refs").mkdir(parents=True)
            (model / "refs" / "main").write_text(commit)
            bert_folder(model / "snapshots" / commit, "st-mean")
            wanted = heed.SentenceTransformer(model / "snapshots" / commit).encode("a")
            np.testing.assert_array_equal(heed.SentenceTransformer("tiny", cache_folder=cache).encode("a"), wanted)
            with unittest.mock.patch.dict(os.environ, {"SENTENCE_TRANSFORMERS_HOME": cache}):
                np.testing.assert_array_equal(heed.SentenceTransformer("tiny").encode("a"), wanted)
                with self.assertRaisesRegex(ValueError, "found neither"):
                    heed.SentenceTransformer("tiny", cache_folder=cache + "/none")

    def test_evaluators_have_a_place_for_their_metrics(self):
        self.assertIsNone(self.model.model_card_data.set_evaluation_metrics("evaluator", {"accuracy": 1.0}, 0, 0))

    def test_truncated_vectors_keep_no_others(self):
        truncated = self.model.encode(TEXTS, truncate_dim=3)
        self.assertTrue(truncated.flags.c_contiguous)
        self.assertIsNone(truncated.base)

    def test_without_modules_there_are_no_settings(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = bert_folder(pathlib.Path(scratch) / "plain", "bert-model")
            settings = {"prompts": {"own": "a "}, "default_prompt_name": "own", "truncate_dim": 3}
            (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
            model = heed.SentenceTransformer(folder)
            self.assertEqual((model.prompts, model.default_prompt_name), ({"query": "", "document": ""}, None))
            self.assertEqual(model.encode("a").shape, (16,))
            model.max_seq_length = 5
            with self.assertRaisesRegex(ValueError, "a folder with a modules.json, for .*max_seq_length"):
                model.save(pathlib.Path(scratch) / "to")
            self.assertFalse((pathlib.Path(scratch) / "to").exists())

    def test_a_source_that_is_gone_is_an_error(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = bert_folder(pathlib.Path(scratch) / "from", "st-mean")
            model = heed.load(folder)
            shutil.rmtree(folder)
            with self.assertRaisesRegex(ValueError, "the folder that the model was loaded from"):
                model.save(pathlib.Path(scratch) / "to")
            self.assertFalse((pathlib.Path(scratch) / "to").exists())

    def test_queries_of_models_without_that_prompt(self):
        model = heed.SentenceTransformer(self.folder)
        model.prompts = {"passage": "b "}
        np.testing.assert_array_equal(model.encode_query(TEXTS), self.vectors)
        np.testing.assert_array_equal(model.encode_document(TEXTS), self.model.encode(TEXTS, prompt="b "))
        with self.assertRaisesRegex(TypeError, "inputs or sentences; found both"):
            model.encode(TEXTS, sentences=TEXTS)

    def test_names_without_an_organisation(self):
        with self.assertRaisesRegex(ValueError, "hf download sentence-transformers/no-such-model"):
            heed.SentenceTransformer("no-such-model")

    @unittest.skipUnless(HAS_TORCH, "PyTorch is not installed for this Python")
    def test_tensors(self):
        import torch

        tensor = self.model.encode(TEXTS, convert_to_tensor=True)
        self.assertIsInstance(tensor, torch.Tensor)
        np.testing.assert_array_equal(tensor.numpy(), self.vectors)
        rows = self.model.encode(TEXTS, convert_to_numpy=False)
        np.testing.assert_array_equal(torch.stack(rows).numpy(), self.vectors)
        with self.assertRaisesRegex(ValueError, "precision"):
            self.model.encode(TEXTS, output_value="token_embeddings", precision="int8")
        states = self.model.encode(TEXTS, output_value="token_embeddings")
        self.assertEqual([len(one) for one in states], [len(self.model.tokenizer.encode(text).ids) for text in TEXTS])
        self.assertIsInstance(self.model.similarity(tensor, tensor), torch.Tensor)

    @unittest.skipIf(HAS_TORCH, "PyTorch is installed")
    def test_without_torch_tensors_are_refused(self):
        for wanted in ({"convert_to_tensor": True}, {"convert_to_numpy": False}, {"output_value": "token_embeddings"}):
            with self.assertRaisesRegex(ImportError, "PyTorch"):
                self.model.encode(TEXTS, **wanted)


if __name__ == "__main__":
    unittest.main()
