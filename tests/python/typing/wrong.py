"""A program with wrong types: mypy --strict finds a mistake in each line that says so, and in no other."""

from __future__ import annotations

from typing import List

import numpy as np

import heed

x = np.ones((1, 1, 3, 4), np.float32)
heed.attention(x, x, x, causl=True)  # wrong
heed.attention(x, x, x, dropout="0.1")  # wrong
heed.attention(x, x, x, return_weights=True).shape  # wrong
heed.attention(x, x, x, taps={"entropi": True})  # wrong
translator = heed.Translator("demo/en-zh")
text: str = translator.translate("a text")[0]  # wrong
texts: List[heed.Translation] = translator.translate(["a text", "another"])  # wrong
translator.embed(["a text"])  # wrong
heed.load("demo/en-zh").translate("a text")  # wrong
heed.load(3)  # wrong
length: int = translator.tokenizer.encode("a text").tokens  # wrong
id: int = translator.tokenizer.token_to_id("a")  # wrong
heed.train({"task": "translation"}, "runs/a", on_progress=lambda update, loss: None)  # wrong
heed.train("recipe.toml")  # wrong
loss: float = heed.Encoder("a").classify(["a"])[0].label  # wrong
heed.no_such_function()  # wrong
