"""heed.Tokenizer: ids, tokens and places in the text as PyPI's tokenizers gives them."""

import json
import pathlib
import shutil
import tempfile
import unittest

import numpy as np

import heed

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "tokenizers"
GOLDEN = json.loads((DATA / "golden.json").read_text(encoding="utf-8"))


class Golden(unittest.TestCase):
    """tests/data/tokenizers/golden.json: what PyPI's tokenizers made of the same texts."""

    def setUp(self):
        self._scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self._scratch.cleanup)

    def tokenizer(self, name):
        folder = pathlib.Path(self._scratch.name) / name
        folder.mkdir()
        shutil.copy(DATA / f"{name}.json", folder / "tokenizer.json")
        return heed.Tokenizer(folder)

    def test_ids_offsets_and_texts(self):
        texts = GOLDEN["texts"]
        for name, results in GOLDEN["results"].items():
            tokenizer = self.tokenizer(name)
            for parse_special in (True, False):
                found = tokenizer.encode_batch(texts, parse_special=parse_special)
                expected = results[: len(texts)] if parse_special else results[len(texts) : 2 * len(texts)]
                for text, one, (ids, offsets, decoded) in zip(texts, found, expected):
                    with self.subTest(tokenizer=name, text=text, parse_special=parse_special):
                        if not parse_special and tokenizer.kind == "unigram" and "</s>" in text:
                            # `tokenizers` finds the marks among the pieces, even where it should leave them as text.
                            self.assertEqual(tokenizer.decode(one.ids), text)
                            continue
                        self.assertEqual(one.ids, ids)
                        self.assertEqual([n for place in one.offsets for n in place], offsets)
                        self.assertEqual(tokenizer.decode(one.ids), decoded)
                        self.assertEqual(one.tokens, [tokenizer.id_to_token(id) for id in ids])
                        self.assertEqual(one.attention_mask, [1] * len(ids))
                self.assertEqual(tokenizer.encode(texts[9], parse_special=parse_special), found[9])

    def test_the_second_text_has_places_of_its_own(self):
        tokenizer = self.tokenizer("bert")
        for first, second in (("Größe zwei", "über alles"), ("", "naïve"), ("naïve", ""), ("é", "abc")):
            found = tokenizer.encode(first, second)
            alone = [tokenizer.encode(text, add_special_tokens=False) for text in (first, second)]
            body = [place for place, special in zip(found.offsets, found.special_tokens_mask) if not special]
            self.assertEqual(body, alone[0].offsets + alone[1].offsets)
            types = [kind for kind, special in zip(found.type_ids, found.special_tokens_mask) if not special]
            self.assertEqual(types, [0] * len(alone[0].ids) + [1] * len(alone[1].ids))
            bare = tokenizer.encode(first, second, add_special_tokens=False)  # nothing parts the two
            self.assertEqual(bare.offsets, alone[0].offsets + alone[1].offsets)

    def test_a_template_may_have_the_second_text_first_and_a_text_twice(self):
        text, pair = ({"Sequence": {"id": name, "type_id": place}} for place, name in enumerate("AB"))
        processor = {"type": "TemplateProcessing", "single": [text], "pair": [pair, text, text], "special_tokens": {}}
        document = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"},
                    "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": processor}
        (pathlib.Path(self._scratch.name) / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
        found = heed.Tokenizer(self._scratch.name).encode("éé a", "abcdef g")
        self.assertEqual(found.offsets, [(0, 6), (7, 8), (0, 2), (3, 4), (0, 2), (3, 4)])

    def test_a_pair_that_was_cut_has_its_own_places(self):
        tokenizer = self.tokenizer("bert")
        for first, second in (("é über", "the house is the house"), ("the house is the house", "é über"), ("Größe", "the")):
            alone = [tokenizer.encode(text, add_special_tokens=False) for text in (first, second)]
            for limit in range(3, 16):
                for special in (True, False):
                    found = tokenizer.encode(first, second, max_length=limit, add_special_tokens=special)
                    body = [(token, place) for token, place, own in
                            zip(found.tokens, found.offsets, found.special_tokens_mask) if not own]
                    known = [list(zip(one.tokens, one.offsets)) for one in alone]
                    splits = [n for n in range(len(body) + 1)
                              if body[:n] == known[0][:n] and body[n:] == known[1][: len(body) - n]]
                    self.assertTrue(splits, (first, second, limit, body))


class Shipped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = heed.load(ROOT / "demo" / "en-zh")

    def test_both_sides(self):
        text = "Where is the station?"
        found = self.model.tokenizer.encode(text, add_special_tokens=False)
        self.assertEqual(found.tokens, ["▁Where", "▁is", "▁the", "▁station", "?"])
        self.assertEqual([text[begin:end] for begin, end in found.offsets], ["Where", " is", " the", " station", "?"])
        self.assertEqual(self.model.tokenizer.decode(np.array(found.ids)), text)
        target = self.model.target_tokenizer.encode("车站在哪里？", add_special_tokens=False)
        self.assertEqual(target.offsets, [(0, 0), (0, 2), (2, 5), (5, 6)])  # characters, not bytes
        self.assertNotEqual(self.model.tokenizer.get_vocab(), self.model.target_tokenizer.get_vocab())
        loaded = heed.Tokenizer(ROOT / "demo" / "en-zh", side="target")
        self.assertEqual(loaded.encode("车站在哪里？", add_special_tokens=False), target)

    def test_the_vocabulary(self):
        tokenizer = self.model.tokenizer
        vocabulary = tokenizer.get_vocab()
        self.assertEqual(len(vocabulary), tokenizer.get_vocab_size())
        self.assertEqual(len(tokenizer), len(vocabulary))
        for token in ("▁Where", "</s>", "?"):
            self.assertEqual(tokenizer.token_to_id(token), vocabulary[token])
            self.assertEqual(tokenizer.id_to_token(vocabulary[token]), token)
        self.assertIsNone(tokenizer.token_to_id("no such token"))
        self.assertIsNone(tokenizer.id_to_token(len(vocabulary)))
        self.assertEqual((tokenizer.end_id, tokenizer.kind), (vocabulary["</s>"], "sentencepiece"))
        self.assertEqual(repr(tokenizer), f"Tokenizer(sentencepiece, {len(vocabulary)} tokens)")

    def test_many_texts_as_arrays(self):
        tokenizer = self.model.tokenizer
        texts = ["Help!", "", "Where is the station?"]
        rows = tokenizer.encode_batch(texts)
        arrays = tokenizer.arrays(texts)
        for place, row in enumerate(rows):
            length = len(row.ids)
            np.testing.assert_array_equal(arrays["input_ids"][place, :length], row.ids)
            self.assertTrue((arrays["input_ids"][place, length:] == tokenizer.padding_id).all())
            self.assertEqual(arrays["attention_mask"][place].sum(), length)
        self.assertEqual(tokenizer.decode_batch(arrays["input_ids"]), texts)
        self.assertEqual(tokenizer.arrays([])["input_ids"].shape, (0, 0))

    def test_a_limit_leaves_tokens_out(self):
        found = self.model.tokenizer.encode("Where is the station?", max_length=4)
        self.assertEqual((len(found.ids), found.left_out), (4, 2))
        self.assertEqual(found.tokens, ["▁Where", "▁is", "▁the", "</s>"])

    def test_what_stands_around_a_text_is_what_the_model_reads(self):
        text = "Where is the station?"
        self.assertEqual(self.model.tokenizer.encode(text).tokens, self.model.attention(text).source_tokens)
        target = self.model.target_tokenizer.encode("车站在哪里？").tokens
        self.assertEqual((target[0], target[-1]), ("<s>", "</s>"))
        writer = heed.load(ROOT / "demo" / "shakespeare")
        self.assertEqual(writer.tokenizer.encode("ROMEO:").tokens, writer.attention("ROMEO:").target_tokens)

    def test_a_model_that_only_writes_has_one_side(self):
        tokenizer = heed.Tokenizer(ROOT / "demo" / "shakespeare")
        self.assertEqual(tokenizer.encode("ROMEO:"), heed.load(ROOT / "demo" / "shakespeare").tokenizer.encode("ROMEO:"))

    def test_a_tokenizer_outlives_its_model(self):
        tokenizer = heed.load(ROOT / "demo" / "en-zh").tokenizer
        self.assertEqual(tokenizer.decode(tokenizer.encode("Help!").ids), "Help!")

    def test_wrong_input_raises(self):
        tokenizer = self.model.tokenizer
        for call in (lambda: tokenizer.decode([1.9]), lambda: tokenizer.decode(["1"]), lambda: tokenizer.decode(3), lambda: tokenizer.decode_batch(3),
                     lambda: tokenizer.encode_batch([["a", "b", "c"]]), lambda: tokenizer.encode_batch([b"a"]),
                     lambda: tokenizer.id_to_token("a"), lambda: tokenizer.encode("a", max_length="3")):
            with self.assertRaisesRegex(TypeError, r"^\[\w+\] .{1,80}; found .{1,50}$"):
                call()
        for call in (lambda: tokenizer.encode(["a"]), lambda: tokenizer.encode_batch("a"), lambda: tokenizer.encode("a", limit=3)):
            self.assertRaises(TypeError, call)
        for call in (lambda: tokenizer.decode([2**40]), lambda: tokenizer.encode("\udcff"), lambda: tokenizer.decode([-1]), lambda: tokenizer.decode([10**6]), lambda: tokenizer.encode("a", "b"),
                     lambda: tokenizer.encode("a", max_length=0), lambda: heed.Tokenizer(ROOT / "demo"),
                     lambda: heed.Tokenizer(ROOT / "demo" / "en-zh", side="left")):
            self.assertRaises(ValueError, call)


if __name__ == "__main__":
    unittest.main()
