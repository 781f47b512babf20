#!/usr/bin/env python3
"""Random models of every family, in random configurations, by heed beside transformers.

    python3 -m venv venv && venv/bin/pip install sentence-transformers
    make test && venv/bin/python bench/compare/random_folders.py [--count 100] [--family bert t5 ...] [--first 0]

Each model has random sizes, weights and settings of its family: activations, tied and untied tables, biases, layer kinds,
poolings, heads, settings of a search. transformers (or sentence-transformers) writes its folder, with a tokenizer of
random special tokens, and loads it again, in float64 (sentence-transformers: in float32), because in float32 a search
may take another one of two tokens that are as likely. heed loads the same folder. The texts are random, too, some of them
as long as the model reads. Then

- the numbers are compared: vectors, probabilities of classes of texts, of pairs and of tokens, of missing words; of
  encoder-decoders the texts and the scores of a search;
- the results of a batch are compared with those of each text alone: they have to be the same bits;
- heed saves the model: its weights have to be the same bytes, and transformers has to compute the same bits with them.

Prints a row for each family: the number of models, the largest deviation of a number (divided by the largest of its kind
or by 1), and how many texts of searches are the same. A deviation above 1e-4, another text, or an
error of heed makes it fail; `--family FAMILY --first SEED --count 1` does that model again.
"""
import argparse
import os
import pathlib
import random
import sys
import tempfile
import traceback
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path = [path for path in sys.path if path != str(pathlib.Path(__file__).resolve().parent)]  # with a transformers.py
sys.path.insert(0, str(ROOT / "build/release/python"))

import numpy
import safetensors.torch
import sentence_transformers
import tokenizers
import torch
import transformers as hf
from sentence_transformers.sentence_transformer import modules

import heed

ACTIVATIONS = ["gelu", "relu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "silu", "swish", "tanh"]
POOLINGS = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
TOKENS = 12  # of an output
HEADS = ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"]
# What transformers' classes of a family begin with.
NAMES = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert", "mpnet": "MPNet",
         "distilbert": "DistilBert", "modernbert": "ModernBert", "marian": "Marian", "m2m_100": "M2M100", "bart": "Bart",
         "mbart": "MBart", "t5": "T5", "mt5": "MT5"}


class Different(Exception):
    pass


class Model:
    """One random model: its class, its configuration, and what a search is told."""

    def __init__(self, family, seed):
        self.family, self.draw = family, random.Random(f"{family} {seed}")
        self.deviation, self.same_texts, self.texts = 0.0, 0, 0
        self.reads, self.generation = 24, {}  # reads: tokens
        MAKERS[family](self, family)

    def some(self, **values):
        """Some of these settings, each with one of its values."""
        return {name: self.draw.choice(of) for name, of in values.items() if self.draw.random() < 0.5}

    def found(self, ours, theirs, what):
        ours, theirs = numpy.asarray(ours, numpy.float64), numpy.asarray(theirs, numpy.float64)
        if ours.shape != theirs.shape:
            raise Different(f"{what}: shape {theirs.shape}; found {ours.shape}")
        deviation = float(abs(ours - theirs).max() / max(1.0, abs(theirs).max()))
        self.deviation = max(self.deviation, deviation)
        if not deviation < 1e-4:
            raise Different(f"{what}: a deviation of {deviation:.1e}")


# ---- Configurations ----------------------------------------------------------------------------------------------------


def bert_like(self, family):
    choose = self.draw.choice
    self.name = NAMES[family]
    heads, positions = choose([1, 2, 3, 4]), choose([24, 40])
    types = {"bert": {"type_vocab_size": [2, 3]}, "mpnet": {}}.get(family, {"type_vocab_size": [1, 2]})
    self.config = getattr(hf, self.name + "Config")(
        vocab_size=choose([61, 70]), num_labels=choose([1, 2, 3, 5]), hidden_size=heads * choose([4, 6, 8, 10]),
        num_hidden_layers=choose([1, 2, 3]), num_attention_heads=heads, intermediate_size=choose([20, 32]),
        max_position_embeddings=positions, **types and self.some(**types), **self.some(
            hidden_act=ACTIVATIONS, layer_norm_eps=[1e-12, 1e-5, 1e-6], tie_word_embeddings=[True, False],
            # transformers takes 1 for MPNet's padding whatever the key says.
            pad_token_id=[1] if family == "mpnet" else [0, 1, 5]))
    # Positions of the others begin behind the padding's id.
    self.reads = positions - (0 if family == "bert" else self.config.pad_token_id + 1)
    if choose([True, False]) and self.config.num_labels > 1:
        self.config.problem_type = choose(["single_label_classification", "multi_label_classification"])
    self.head = choose(HEADS)


def distilbert(self, family):
    choose = self.draw.choice
    heads, self.reads = choose([1, 2, 3, 4]), choose([24, 40])
    self.config = hf.DistilBertConfig(
        vocab_size=choose([61, 70]), num_labels=choose([1, 2, 3, 5]), dim=heads * choose([4, 6, 8, 10]),
        n_layers=choose([1, 2, 3]), n_heads=heads, hidden_dim=choose([20, 32]), max_position_embeddings=self.reads,
        **self.some(activation=["gelu", "relu"], sinusoidal_pos_embds=[True], tie_word_embeddings=[True, False],
                    pad_token_id=[0, 5]))
    self.name, self.head = NAMES[family], choose(HEADS)


def modernbert(self, family):
    choose = self.draw.choice
    heads, self.reads = choose([1, 2, 3, 4]), choose([24, 40])
    biases = choose([True, False])
    self.config = hf.ModernBertConfig(
        vocab_size=choose([61, 70]), num_labels=choose([2, 3, 5]), hidden_size=heads * choose([4, 8, 12]),
        num_hidden_layers=choose([1, 2, 3, 4, 5]), num_attention_heads=heads, intermediate_size=choose([20, 24]),
        max_position_embeddings=self.reads, pad_token_id=3, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
        attention_bias=biases, mlp_bias=biases, norm_bias=biases, classifier_bias=biases, **self.some(
            local_attention=[4, 5, 6, 8, 128], global_attn_every_n_layers=[1, 2, 3, 4], norm_eps=[1e-5, 1e-12],
            classifier_pooling=["cls", "mean"], decoder_bias=[True, False], hidden_activation=["gelu", "silu", "relu"],
            classifier_activation=["gelu", "relu", "silu", "tanh"], tie_word_embeddings=[True, False],
            rope_parameters=[{"full_attention": {"rope_type": "default", "rope_theta": 5000.0},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}]))
    self.name, self.head = NAMES[family], choose(HEADS)


def t5(self, family):
    choose = self.draw.choice
    layers, self.name = choose([1, 2, 3]), NAMES[family]
    self.config = getattr(hf, self.name + "Config")(
        vocab_size=choose([61, 70]), d_model=choose([12, 16, 20]), d_kv=choose([4, 6, 8]), d_ff=choose([20, 32]),
        num_layers=layers, num_decoder_layers=choose(range(1, layers + 1)),  # more are an IndexError of transformers 5.24
        num_heads=choose([1, 2, 4]), decoder_start_token_id=0, relative_attention_max_distance=choose([20, 40, 128]),
        **self.some(relative_attention_num_buckets=[4, 8, 16, 32], layer_norm_epsilon=[1e-6, 1e-5],
                    tie_word_embeddings=[True, False],
                    feed_forward_proj=["relu", "gated-gelu", "gelu", "gated-silu", "gated-relu"]))
    self.head = choose(["ForConditionalGeneration"] * 3 + ["EncoderModel"])
    self.generation = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}


def bart_like(self, family):
    choose = self.draw.choice
    self.name = NAMES[family]
    vocabulary, heads = choose([61, 70]), choose([1, 2, 4])
    pad, end, start = (vocabulary - 1, 0, vocabulary - 1) if family == "marian" else (1, 2, 2)
    more = {"share_encoder_decoder_embeddings": [True, False]} if family == "marian" else {}
    self.config = getattr(hf, self.name + "Config")(
        vocab_size=vocabulary, d_model=heads * choose([4, 6, 8]), encoder_layers=choose([1, 2, 3]),
        decoder_layers=choose([1, 2]), encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=24,
        decoder_ffn_dim=24, max_position_embeddings=choose([48, 64]), pad_token_id=pad, eos_token_id=end,
        decoder_start_token_id=start, **self.some(activation_function=ACTIVATIONS, scale_embedding=[True, False],
                                                  tie_word_embeddings=[True, False], **more))
    self.head = "MTModel" if family == "marian" else "ForConditionalGeneration"
    self.generation = {"pad_token_id": pad, "eos_token_id": end, "decoder_start_token_id": start}
    if family != "bart":
        self.generation["forced_bos_token_id"] = 57
    self.generation |= self.some(forced_eos_token_id=[end])


MAKERS = {**dict.fromkeys(["bert", "roberta", "xlm-roberta", "camembert", "mpnet"], bert_like), "distilbert": distilbert,
          "modernbert": modernbert, **dict.fromkeys(["marian", "m2m_100", "bart", "mbart"], bart_like),
          **dict.fromkeys(["t5", "mt5"], t5)}


def search_of(model):
    """Settings of a search. No output has the padding: positions of transformers would depend on its cache."""
    pad, choose = model.config.pad_token_id, model.draw.choice
    beam = choose([1, 3, 4])
    settings = {**model.generation, "num_beams": beam, "bad_words_ids": [[pad], [8]] if choose([0, 1]) else [[pad]]}
    if choose([0, 1, 1]) == 0:
        settings["bad_words_ids"] += [[choose(range(9, 40)) for _ in range(choose([2, 2, 3]))] for _ in range(200)]
    settings |= model.some(repetition_penalty=[1.3, 2.0, 0.8], no_repeat_ngram_size=[2, 3], min_length=[4, 8],
                           begin_suppress_tokens=[[9]], suppress_tokens=[[7, 10]])
    if beam > 1:
        settings |= model.some(length_penalty=[0.5, 2.0, 0.0, -1.0], early_stopping=[True, False, "never"],
                               renormalize_logits=[True])
    return settings


# ---- Folders -----------------------------------------------------------------------------------------------------------


def randomize(model, weights):
    """Every parameter anew: norms and biases of a fresh model are 1 and 0, and hide mistakes."""
    noise = torch.Generator().manual_seed(model.draw.randrange(1 << 30))
    with torch.no_grad():
        for name, value in weights.named_parameters():
            if value.requires_grad:
                x = torch.randn(value.shape, generator=noise)
                value.copy_(x * 0.3 + name.endswith("weight") if value.dim() == 1 else x * model.draw.choice([0.3, 0.5]))
        if hasattr(weights, "final_logits_bias"):
            weights.final_logits_bias.copy_(torch.randn(weights.final_logits_bias.shape, generator=noise) * 0.3)
    return weights


def write_tokenizer(model, folder):
    """A word is a token. Ids of special tokens are those of the configuration, and others that are free."""
    taken = {}
    for name in ("pad", "eos", "cls", "sep", "unk", "mask"):
        want = getattr(model.config, f"{name}_token_id", None)
        if name == "eos" and not model.generation:
            continue
        free = (i for i in range(6) if i not in taken)
        taken[next(free) if want is None or want in taken else want] = f"<{name}>"
    words = {taken.get(i, f"w{i}"): i for i in range(model.config.vocab_size)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordPiece(words, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    inner.decoder = tokenizers.decoders.WordPiece()
    kind = 1 if model.family == "bert" else 0  # of the tokens of a second text
    around = ("$A <eos>", None) if model.generation else ("<cls> $A <sep>", f"<cls> $A <sep> $B:{kind} <sep>:{kind}")
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single=around[0], pair=around[1], special_tokens=[(token, words[token]) for token in taken.values()])
    inputs = ["input_ids", *(["token_type_ids"] if model.family == "bert" else []), "attention_mask"]
    names = {f"{token[1:-1]}_token": token for token in taken.values()}
    result = hf.PreTrainedTokenizerFast(tokenizer_object=inner, model_input_names=inputs, **names)
    result.save_pretrained(folder)
    return result


def random_texts(model, count, room=2):
    longest = model.reads - room
    lengths = [model.draw.choice([1, 2, 5, 10, longest]) for _ in range(count)]
    return [" ".join(f"w{model.draw.randrange(10, 60)}" for _ in range(min(length, longest))) for length in lengths]


# ---- Comparisons -------------------------------------------------------------------------------------------------------


def compare_vectors(model, folder, kind, tokenizer):
    texts = random_texts(model, 5)
    if model.draw.random() < 0.5:
        start = modules.Transformer(str(folder))
        width = start.get_embedding_dimension()
        parts = [modules.Pooling(width, model.draw.choice([*POOLINGS, POOLINGS]))]
        if model.draw.random() < 0.5:
            parts.append(modules.Dense(parts[0].get_embedding_dimension(), 7, bias=model.draw.random() < 0.5,
                                       activation_function=model.draw.choice([torch.nn.Tanh(), torch.nn.Identity()])))
        if model.draw.random() < 0.5:
            parts.append(modules.Normalize())
        peer = sentence_transformers.SentenceTransformer(modules=[start, *parts], device="cpu")
        folder = folder / "sentence"
        peer.save(str(folder), create_model_card=False)
        theirs = peer.encode(texts)
    else:
        peer = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
        states = [peer(**tokenizer(text, return_tensors="pt")).last_hidden_state[0] for text in texts]
        theirs = numpy.stack([of_text.mean(0) for of_text in states])
    ours = heed.load(str(folder))
    vectors = ours.embed(texts)
    model.found(vectors, theirs, "vectors")
    if not all(numpy.array_equal(ours.embed([text])[0], vector) for text, vector in zip(texts, vectors)):
        raise Different("vectors: other bits alone than among others")
    return ours


def probabilities(config, logits):
    many = config.problem_type == "multi_label_classification"
    return logits.sigmoid() if many or logits.shape[-1] == 1 else logits.softmax(-1)


def compare_classes(model, folder, peer, tokenizer):
    ours, pair = heed.load(str(folder)), model.draw.random() < 0.5
    texts = random_texts(model, 4, 14 if pair else 2)
    others = [" ".join(text.split()[:10]) for text in random_texts(model, 4, 14)]
    given = list(zip(texts, others)) if pair else texts
    found = ours.classify(given)
    for text, result in zip(given, found):
        inputs = tokenizer(*(text if pair else [text]), return_tensors="pt")
        model.found(result.scores, probabilities(peer.config, peer(**inputs).logits[0]), "classes")
        if ours.classify([text])[0].scores != result.scores:
            raise Different("classes: other bits alone than among others")
    return ours


def compare_token_classes(model, folder, peer, tokenizer):
    ours = heed.load(str(folder))
    for text in random_texts(model, 3):
        theirs = peer(**tokenizer(text, return_tensors="pt")).logits[0, 1:-1].softmax(-1).max(-1)
        found = ours.classify_tokens(text)
        model.found([token.score for token in found], theirs.values, "classes of tokens")
        if [token.label for token in found] != [peer.config.id2label[int(i)] for i in theirs.indices]:
            raise Different("classes of tokens: other labels")
    return ours


def compare_words(model, folder, peer, tokenizer):
    ours = heed.load(str(folder))
    for text in random_texts(model, 3):
        words = text.split()
        words[model.draw.randrange(len(words))] = "<mask>"
        inputs = tokenizer(" ".join(words), return_tensors="pt")
        place = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
        theirs = peer(**inputs).logits[0, place].softmax(-1).topk(5)
        found = ours.fill(" ".join(words), count=5)
        model.found([filling.probability for filling in found[0]], theirs.values, "words")
    return ours


def compare_searches(model, folder, peer, tokenizer):
    ours, texts = heed.load(str(folder)), random_texts(model, 4)
    beam = peer.generation_config.num_beams
    found = ours.translate(texts, beam=beam, max_length=TOKENS)
    for text, [result] in zip(texts, found):
        given = tokenizer(text, return_tensors="pt")
        output = peer.generate(input_ids=given["input_ids"], attention_mask=given["attention_mask"], do_sample=False,
                               max_new_tokens=TOKENS, return_dict_in_generate=True, output_scores=True)
        model.texts += 1
        theirs = tokenizer.decode(output.sequences[0], skip_special_tokens=True)
        if theirs.split() != result.text.split():
            raise Different(f"search: {theirs!r}; found {result.text!r}")
        model.same_texts += 1
        if beam > 1:
            model.found(result.score, output.sequences_scores[0], "scores")
        if ours.translate([text], beam=beam, max_length=TOKENS)[0][0].log_probs != result.log_probs:
            raise Different("search: other bits alone than among others")
    return ours


COMPARISONS = {"ForMaskedLM": compare_words, "ForSequenceClassification": compare_classes,
               "ForTokenClassification": compare_token_classes, "ForConditionalGeneration": compare_searches,
               "MTModel": compare_searches}


def compare_saved(model, ours, kind, folder, saved):
    """Copies that no result depends on may be missing (docs/models.md)."""
    ours.save(str(saved))
    wanted = safetensors.torch.load_file(folder / "model.safetensors")
    for name, value in safetensors.torch.load_file(saved / "model.safetensors").items():
        if name not in wanted or wanted[name].dtype != value.dtype or not torch.equal(wanted[name], value):
            raise Different(f"saved: other bytes of {name}")
    ids = torch.tensor([[model.draw.randrange(10, 60) for _ in range(9)]])
    inputs = {"input_ids": ids, **({"decoder_input_ids": ids} if kind.__name__.endswith(("Generation", "MTModel")) else {})}
    outputs = [kind.from_pretrained(place, dtype=torch.float32).eval()(**inputs)[0] for place in (folder, saved)]
    if not torch.equal(*outputs):
        raise Different("saved: other results of transformers")


def compare(model):
    kind = getattr(hf, model.name + model.head)
    with tempfile.TemporaryDirectory() as place, torch.no_grad():
        scratch, folder = pathlib.Path(place), pathlib.Path(place) / "model"
        weights = randomize(model, kind(model.config))
        if model.head in ("ForConditionalGeneration", "MTModel"):
            weights.generation_config = hf.GenerationConfig(**search_of(model))
        weights.save_pretrained(folder)
        tokenizer = write_tokenizer(model, folder)
        if model.head in ("Model", "EncoderModel"):
            ours = compare_vectors(model, folder, kind, tokenizer)
        else:
            peer = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
            ours = COMPARISONS[model.head](model, folder, peer, tokenizer)
        has_modules = (folder / "sentence").exists()
        compare_saved(model, ours, kind, folder / "sentence" if has_modules else folder, scratch / "saved")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", nargs="+", choices=list(MAKERS), default=list(MAKERS))
    parser.add_argument("--count", type=int, default=100, help="models of each family")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    torch.set_num_threads(1)
    print("| family | models | largest deviation | texts of searches |\n| --- | --- | --- | --- |")
    failed = False
    for family in options.family:
        done = []
        for seed in range(options.first, options.first + options.count):
            try:
                model = Model(family, seed)
                compare(model)
                done.append(model)
            except Exception as error:
                failed = True
                print(f"{family} {seed}: {error}", file=sys.stderr, flush=True)
                if not isinstance(error, (Different, ValueError)):
                    traceback.print_exc()
        texts = f"{sum(model.same_texts for model in done)} of {sum(model.texts for model in done)}"
        worst = max((model.deviation for model in done), default=0.0)
        print(f"| {family} | {len(done)} | {worst:.1e} | {texts if any(model.texts for model in done) else ''} |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
