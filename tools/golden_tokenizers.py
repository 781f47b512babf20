#!/usr/bin/env python3
"""Writes the tokenizers of tests/data/tokenizers/ and what PyPI's `tokenizers` makes of awkward texts with them.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tools/golden_tokenizers.py

Each NAME.json is small and has other parts than its neighbours. golden.json has, for each of them and each text, the
ids, the spans in characters and the decoded text, with special tokens in the text parsed and not parsed.
"""
import argparse
import base64
import json
import pathlib
import struct

from tokenizers import (AddedToken, Regex, Tokenizer, __version__, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
TEXTS = [
    "", " ", "  ", "\n", "\t \n", "a", "A", " a", "a ", "Hello, world!", "  Hello   world  ", "It's a dog's life; don't!",
    "HELLO World", "caf\u00e9 cafe\u0301 CAF\u00c9", "na\u00efve \u00fcber stra\u00dfe \u0130stanbul", "\u4f60\u597d\u4e16\u754c", "\u4eca\u5929 is \u597d day",
    "\uac00\ub098\ub2e4 \u1100\u1161\u11a8", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0915\u094d\u0937",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467 family", "\U0001f1e9\U0001f1ea\U0001f3f3\ufe0f\u200d\U0001f308", "a\u200bb\u200cc\u200dd\ufeffe", "x\u0000y\u0001z\u007f\u0085w",
    "1234567890 3.14 1,000 \u0661\u0662\u0663 \u00bd \u2167", "a\u0301\u0323b\u0323\u0301", "\ufb01 \uff21\uff22\uff23 \u2460 \u3392 \u00b2",
    "\u2581already \u2581\u2581here", "\u00a0nbsp\u2003em\u3000ideo\u1680ogham\u180emvs", "line1\r\nline2\rline3\n\n  indented\n",
    "...!?;:---\u2014\u2026\u00ab\u00bb\u201equote\u201c", "foo_bar-baz@qux.com https://x.y/z?a=b&c=%20", "$5 + 3 = 8 < 9 > 7 ^ ~ ` | \\",
    "a" * 120, "ab" * 40 + " " + "x" * 101, "  \n \n  x", "\u0f40\u0f7c \u1780\u17d2\u1798", "\U000e0041\U0010ffff\ud7ff\ue000\ufffd",
    "[CLS] a [SEP] [MASK][PAD] b", "<s>hello</s> <pad><mask> there <unk>", "<|endoftext|>a<|endoftext|> b", "say newword and NEWWORD or subnewwordx",
    "the man was in the house of the people and they said that it is not so", "I've you're we'll he'd 'tis O'Neil's",
    "\u01c5 \u03a3\u03c3\u03c2 \u1e9e \u212b \u2126 \u0345", "\U00011938 \u32ff \U0001e030 \U00010d4a \u1c89 \ua7cb",
]


def corpus():
    lines = (DATA / "text" / "the-verdict.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line] + TEXTS


def character_map():
    """SentencePiece's map nmt_nfkc is large; this one has a few of its entries, in the same form (Darts-clone)."""
    entries = {"\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "\u2003": " ", "\u200b": " ", "\ufb01": "fi",
               "\uff21": "A", "\uff22": "B", "\uff23": "C", "\u2460": "1", "\u3392": "MHz", "\u00b2": "2", "\u00bd": "1\u20442",
               "e\u0301": "\u00e9", "a\u0301": "\u00e1", "\u212b": "\u00c5", "\u2126": "\u03a9", "\u0001": "", "\u007f": "", "\u2026": "..."}
    strings, places = b"", {}
    for value in sorted(set(entries.values())):
        places[value] = len(strings)
        strings += value.encode() + b"\0"
    trie = {}
    for key, value in entries.items():
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node["value"] = places[value]
    units, used, open_nodes = {0: [0, 0, 0]}, {0}, [(0, trie)]
    while open_nodes:
        at, node = open_nodes.pop()
        labels = [b for b in node if b != "value"]
        wanted = labels + ([0] if "value" in node else [])
        offset = 1
        while any((at ^ offset ^ label) in used for label in wanted):
            offset += 1
        if "value" in node:
            used.add(at ^ offset)
            units[at ^ offset] = ("value", node["value"])
            units[at][1] = 1
        units[at][2] = offset
        for label in labels:
            used.add(at ^ offset ^ label)
            units[at ^ offset ^ label] = [label, 0, 0]
            open_nodes.append((at ^ offset ^ label, node[label]))
    size = (max(used) | 0xff) + 257
    packed = []
    for i in range(size):
        unit = units.get(i, [0, 0, 0])
        packed.append(unit[1] | 1 << 31 if unit[0] == "value" else unit[0] | unit[1] << 8 | unit[2] << 10)
    return struct.pack(f"<I{size}I", size * 4, *packed) + strings


def trained(model, trainer, normalizer=None, pre_tokenizer=None, processor=None, decoder=None):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(corpus(), trainer)
    if processor:
        tokenizer.post_processor = processor(tokenizer)
    if decoder:
        tokenizer.decoder = decoder
    return tokenizer


def with_parts(tokenizer, **parts):
    """The tokenizer with parts of its JSON replaced."""
    document = json.loads(tokenizer.to_str())
    for path, value in parts.items():
        target = document
        keys = path.split("__")
        for key in keys[:-1]:
            target = target[key]
        target[keys[-1]] = value
    return Tokenizer.from_str(json.dumps(document))


def tokenizers():
    bytes_alphabet = pre_tokenizers.ByteLevel.alphabet()
    yield "bert", trained(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(vocab_size=900, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
        normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(),
        lambda t: processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]"))),
        decoders.WordPiece())
    tokenizer = trained(
        models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20),
        trainers.WordPieceTrainer(vocab_size=900, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
        normalizers.Sequence([normalizers.Nmt(), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip(),
                              normalizers.Lowercase()]),
        pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]),
        lambda t: processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", t.token_to_id("[CLS]")), ("[SEP]", t.token_to_id("[SEP]"))]),
        decoders.WordPiece(cleanup=False))
    tokenizer.add_tokens([AddedToken("newword", single_word=True), AddedToken("house", lstrip=True, rstrip=True)])
    yield "accents", tokenizer
    roberta = trained(
        models.BPE(),
        trainers.BpeTrainer(vocab_size=800, initial_alphabet=bytes_alphabet,
                            special_tokens=["<s>", "<pad>", "</s>", "<unk>"]),
        None, pre_tokenizers.ByteLevel(add_prefix_space=True),
        lambda t: processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>"))),
        decoders.ByteLevel())
    roberta.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    yield "roberta", roberta
    tokenizer = trained(
        models.BPE(),
        trainers.BpeTrainer(vocab_size=800, initial_alphabet=bytes_alphabet, special_tokens=["<|endoftext|>"]),
        normalizers.NFC(),
        pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
                                       r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
        lambda t: processors.ByteLevel(trim_offsets=False), decoders.ByteLevel())
    tokenizer.add_tokens([AddedToken("   ", normalized=True), AddedToken("newword")])
    yield "llama3", with_parts(tokenizer, model__ignore_merges=True)
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    llama = trained(
        models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True),
        trainers.BpeTrainer(vocab_size=900, special_tokens=special, limit_alphabet=60),
        normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None,
        lambda t: processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]),
        decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                           decoders.Strip(" ", 1, 0)]))
    document = json.loads(llama.to_str())
    document["added_tokens"] = document["added_tokens"][:3]
    yield "llama", Tokenizer.from_str(json.dumps(document))
    unigram = trained(
        models.Unigram(), trainers.UnigramTrainer(vocab_size=500, unk_token="<unk>", show_progress=False,
                                                  special_tokens=["<s>", "<pad>", "</s>", "<unk>"]),
        None, pre_tokenizers.Metaspace(),
        lambda t: processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
                                                special_tokens=[("<s>", 0), ("</s>", 2)]),
        decoders.Metaspace())
    unigram.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    charsmap = base64.b64encode(character_map()).decode()
    yield "xlmr", with_parts(
        unigram, normalizer={"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": charsmap},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]})
    first = trained(
        models.Unigram(), trainers.UnigramTrainer(vocab_size=700, unk_token="<unk>", show_progress=False,
                                                  special_tokens=special),
        normalizers.NFKC(), pre_tokenizers.Metaspace(prepend_scheme="first", split=False), None,
        decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")]))
    document = json.loads(first.to_str())
    document["added_tokens"] = document["added_tokens"][:3]
    document["model"]["byte_fallback"] = True
    yield "gemma", Tokenizer.from_str(json.dumps(document))
    clip = trained(
        models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"),
        trainers.BpeTrainer(vocab_size=900, special_tokens=["<unk>"], continuing_subword_prefix="##",
                            end_of_word_suffix="</w>", limit_alphabet=60),
        normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(),
                              normalizers.Replace(Regex(r"[\p{Mn}\d]"), "")]),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous"),
                                 pre_tokenizers.CharDelimiterSplit("x"),
                                 pre_tokenizers.Split("e", "merged_with_next"),
                                 pre_tokenizers.Split(Regex("[ab]"), "contiguous", invert=True)]),
        None, decoders.BPEDecoder("</w>"))
    yield "affixes", clip
    words = trained(
        models.WordLevel(unk_token="[UNK]"),
        trainers.WordLevelTrainer(vocab_size=700, special_tokens=["[UNK]"], show_progress=False),
        normalizers.ByteLevel(), pre_tokenizers.Split("\u0120", "removed"))
    yield "words", words


def results(tokenizer):
    made = []
    for parse in (True, False):
        tokenizer.encode_special_tokens = not parse
        for text in TEXTS:
            encoding = tokenizer.encode(text)
            spans = [n for span in encoding.offsets for n in span]
            try:
                decoded = tokenizer.decode(encoding.ids, skip_special_tokens=True)
            except BaseException:  # BPEDecoder fails where there is no token
                decoded = ""
            made.append([encoding.ids, spans, decoded])
    pair = tokenizer.encode("the first one", "and the second one")
    made.append([pair.ids, pair.type_ids, pair.special_tokens_mask])
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=DATA / "tokenizers")
    output = parser.parse_args().output
    golden = {"made_with": f"tokenizers {__version__}", "texts": TEXTS, "results": {}}
    for name, tokenizer in tokenizers():
        tokenizer.encode_special_tokens = False
        (output / f"{name}.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False,
                                                        separators=(",", ":")) + "\n", encoding="utf-8")
        golden["results"][name] = results(tokenizer)
    (output / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
