#!/usr/bin/env python3
"""Writes tests/data/ctranslate2: a small random Marian as CTranslate2's own converter writes it, and what CTranslate2
translates with it.

    python3 -m venv build/golden
    build/golden/bin/pip install ctranslate2 transformers torch sentencepiece --extra-index-url https://download.pytorch.org/whl/cpu
    build/golden/bin/python tools/golden_ctranslate2.py

Folders f32, f16 and int8 hold the same model by its type; source.spm and target.spm lie beside them, and
expected.json has greedy translations, one token list for each line. The text is public domain (Carroll, 1865).
"""
import json
import pathlib
import shutil
import sys
import tempfile

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "ctranslate2"
TEXT = """Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do
once or twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it
and what is the use of a book, thought Alice, without pictures or conversations?
So she was considering in her own mind, as well as she could, for the hot day made her feel very sleepy and stupid
There was nothing so very remarkable in that; nor did Alice think it so very much out of the way""".splitlines()
LENGTH = 24  # most tokens of a translation


def tokenizers(folder):
    import sentencepiece

    pieces = ["</s>", "<unk>"]
    for side, lines in (("source", TEXT), ("target", [line[::-1] for line in TEXT])):
        (folder / "text").write_text("\n".join(lines) + "\n")
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text"), model_prefix=str(folder / side), vocab_size=64, hard_vocab_limit=False,
            normalization_rule_name="identity", bos_id=-1, minloglevel=2)
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        pieces += [p for p in map(model.id_to_piece, range(model.get_piece_size())) if p not in pieces]
    pieces.append("<pad>")  # the last one, as in every OPUS-MT
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    return len(pieces)


def marian(folder, seed):
    import torch
    import transformers

    vocabulary = tokenizers(folder)
    torch.manual_seed(seed)
    config = transformers.MarianConfig(
        vocab_size=vocabulary, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=48,
        activation_function="swish", scale_embedding=True, init_std=0.3, pad_token_id=vocabulary - 1, eos_token_id=0,
        forced_eos_token_id=0, decoder_start_token_id=vocabulary - 1)
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():  # so that they count
        for name, parameter in model.named_parameters():
            if "layer_norm" in name or name.endswith("bias"):
                parameter.add_(0.2 * torch.randn_like(parameter))
        # Else each token would be followed by itself, whose vector still is most of the state.
        model.model.decoder.layers[-1].final_layer_norm.weight.copy_(3 * torch.randn(config.d_model))
        model.final_logits_bias[:, :-1] = 0.5 * torch.randn(vocabulary - 1)
    model.save_pretrained(folder)
    transformers.MarianTokenizer(
        source_spm=str(folder / "source.spm"), target_spm=str(folder / "target.spm"),
        vocab=str(folder / "vocab.json")).save_pretrained(folder)
    return model


def translations(folder, sources):
    import ctranslate2

    translator = ctranslate2.Translator(str(folder), compute_type="float32")
    found = translator.translate_batch(sources, beam_size=1, max_decoding_length=LENGTH)
    return [one.hypotheses[0] for one in found]


def made_by_transformers(model, tokens, sources):
    """With the padding's logit in, and the padding suppressed."""
    import torch

    made = []
    for source in sources:
        ids = torch.tensor([[tokens.index(piece) if piece in tokens else 1 for piece in source]])
        with torch.no_grad():
            found = model.generate(ids, num_beams=1, do_sample=False, max_new_tokens=LENGTH + 1, forced_eos_token_id=None,
                                   bad_words_ids=[[len(tokens) - 1]])[0, 1:].tolist()
        made.append([tokens[i] for i in found if i != 0][:LENGTH])
    return made


def attempt(seed):
    """Writes everything; False where the translations are dull, or do not agree."""
    import ctranslate2
    import sentencepiece

    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = marian(folder, seed)
        for kind, quantization in (("f32", None), ("f16", "float16"), ("int8", "int8")):
            ctranslate2.converters.TransformersConverter(str(folder)).convert(str(OUT / kind), quantization=quantization)
        tokens = list(json.loads((folder / "vocab.json").read_text()))
        for side in ("source", "target"):
            shutil.copy(folder / f"{side}.spm", OUT / f"{side}.spm")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(OUT / "source.spm"))
    sources = [[*pieces.encode(line, out_type=str)[:30], "</s>"] for line in TEXT]
    expected = {"seed": seed, "texts": [pieces.decode(source[:-1]) for source in sources]}
    for kind in ("f32", "f16", "int8"):
        expected[kind] = translations(OUT / kind, sources)
    (OUT / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")
    lines = expected["f32"]
    lively = len(set(sum(lines, []))) >= 10 and min(map(len, lines)) < LENGTH - 2 and min(map(len, lines)) > 2
    return lively and made_by_transformers(model, tokens, sources) == lines


def main():
    seed = next(seed for seed in range(1000) if attempt(seed))
    print("seed", seed, sum(f.stat().st_size for f in OUT.rglob("*") if f.is_file()), "bytes")


if __name__ == "__main__":
    sys.exit(main())
