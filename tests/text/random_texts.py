"""Random texts for tokenizers: the same ones wherever they are made, from the same seed."""
import pathlib
import random

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORDS = (ROOT / "tests/data/text/the-verdict.txt").read_text(encoding="utf-8").split()


def random_texts(count, seed):
    """Texts of all kinds of characters, words among them, and special tokens."""
    rng = random.Random(seed)

    def any_character():
        while True:
            c = rng.randrange(1, 0x110000)
            # U+1171E became another kind of mark in Unicode 16; PCRE2 follows its own version.
            if not 0xd800 <= c < 0xe000 and c != 0x1171e:
                return chr(c)

    special = ["[CLS]", "[MASK]", "</s>", "<s>", "<mask>", "<|endoftext|>", " the", "ing", "newword", "   ", "'s", "'LL"]
    odd = "\u1100\u1161\u11a8\u200d\ufe0f\u0301\u0323\u0345\u200b\u2028\u0085\u00a0\u180e\ufeff\r\n\t \u2581\u017f"
    ranges = [(32, 127), (0xa0, 0x250), (0x300, 0x370), (0x370, 0x2000), (0x2000, 0x3100), (0x4e00, 0x9fff),
              (0xac00, 0xd7a4), (0x1f300, 0x1fb00)]
    kinds = [lambda r=r: chr(rng.randrange(*r)) for r in ranges]
    kinds += [any_character, lambda: rng.choice(odd), lambda: rng.choice(special), lambda: rng.choice("abcde etaoin  ")]

    def text():
        kind = rng.random()
        if kind < 0.3:
            return "".join(rng.choice(kinds)() for _ in range(rng.randrange(40)))
        if kind < 0.6:
            one = rng.choice(kinds)
            return "".join(one() for _ in range(rng.randrange(40)))
        words = [rng.choice(WORDS) for _ in range(rng.randrange(20))]
        for _ in range(3 if kind < 0.8 else 0):
            words.insert(rng.randrange(len(words) + 1), rng.choice(kinds)())
        return rng.choice([" ", " ", "", "  ", "\n"]).join(words)

    return [text() for _ in range(count)]
