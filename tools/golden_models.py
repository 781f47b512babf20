#!/usr/bin/env python3
"""Small random models in the folders of others, and what PyPI's transformers computes with them: tests/data/families/.

    python3 -m venv build/venv-golden
    build/venv-golden/bin/pip install torch transformers sentence-transformers
    build/venv-golden/bin/python tools/golden_models.py [--only NAME ...] [--out FOLDER]

Each folder has config.json, model.safetensors and, for a translator, generation_config.json as transformers writes them,
or as its older versions did. golden.safetensors has the inputs and the results. Every result comes from the folder as it
lies on disk, loaded again in float32 with "eager" attention. The seeds are fixed; those of the translators are the first
with which some rows end early, others do not, and no token changes in double precision or with slightly other weights.
tests/data/families/README.md names the variants and the tensors.
"""
import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
import safetensors
import safetensors.torch
import torch
import transformers as hf

ROOT = pathlib.Path(__file__).resolve().parent.parent
LENGTHS = (10, 6, 1)  # of the sources; the rest of each row is padding
LONGER = {"mpnet-model": (22, 9, 1)}  # so that the distances reach the logarithmic buckets
VOCABULARY = 61
TARGET = 9  # tokens that the decoders read
NEW_TOKENS = 32
POOL = 40  # sentences of each length from which those of a translator are chosen
LAST_NORMS = ("decoder.layers.1.final_layer_norm.weight", "decoder.layer_norm.weight", "decoder.final_layer_norm.weight")
BEAM = {"num_beams": 4, "length_penalty": 1.0, "early_stopping": False}


# ---- Random models ---------------------------------------------------------------------------------------------------


def randomize(model, seed, scale, embeddings=0.4):
    """Every parameter anew. Norms and biases too: those of a fresh model are 1 and 0 and hide mistakes."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            noise = torch.randn(value.shape, generator=draw)
            if "embed_positions" in name and not value.requires_grad:
                continue  # sinusoids
            if name.endswith(LAST_NORMS):
                value.copy_(noise)  # of both signs: a decoder with tied weights would say its last token again and again
            elif value.requires_grad and value.dim() == 1:
                value.copy_(noise * 0.3 + (1.0 if name.endswith("weight") else 0.0))
            elif value.requires_grad:
                value.copy_(noise * (embeddings if "embed" in name or "shared" in name else scale))
            elif name == "final_logits_bias":
                value.copy_(noise * 0.3)
                value[0, model.config.eos_token_id] += 0.5  # so that some rows end
    return model.eval()


def tensors_of(model):
    """Name -> tensor, each storage once: under the first name, as transformers writes tied weights."""
    seen, out = set(), {}
    for name, value in model.state_dict().items():
        if value.data_ptr() not in seen:
            seen.add(value.data_ptr())
            out[name] = value.contiguous()
    return out


def read(folder):
    return safetensors.torch.load_file(folder / "model.safetensors")


def write(folder, tensors, name="model.safetensors", metadata=("format", "pt")):
    # One entry: several would come in another order each time.
    safetensors.torch.save_file(tensors, folder / name, metadata=dict([metadata]))


def edit_json(path, remove=(), **changes):
    values = json.loads(path.read_text())
    for key in remove:
        values.pop(key, None)
    values.update(changes)
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")


def load(folder, kind):
    return kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


# ---- Encoders --------------------------------------------------------------------------------------------------------


def source(seed, pad, lengths=LENGTHS, vocabulary=VOCABULARY):
    """Ids (3, L), padded on the right, and their mask."""
    draw = torch.Generator().manual_seed(seed + 1000)
    ids = torch.randint(5, vocabulary - 1, (len(lengths), max(lengths)), generator=draw)
    mask = (torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]).long()
    return torch.where(mask == 1, ids, pad), mask


def without_padding(x, mask, axis=1):
    """0 where the row is padding: what a model computes there means nothing."""
    shape = [1] * x.dim()
    shape[0], shape[axis] = mask.shape
    return (x * mask.view(shape)).float().contiguous()


def encoder_golden(folder, kind, seed, segments, lengths=LENGTHS):
    model = load(folder, kind)
    pad = model.config.pad_token_id
    ids, mask = source(seed, pad, lengths)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if segments:
        types = torch.zeros_like(ids)
        types[0, 5:] = 1
        types[1, 3:7] = 1
        inputs["token_type_ids"] = types
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True, output_attentions=True)
    golden = dict(inputs)
    for n, x in enumerate(out.hidden_states):
        golden[f"hidden_states.{n}"] = without_padding(x, mask)
    for n, x in enumerate(out.attentions):
        golden[f"attentions.{n}"] = without_padding(x, mask, 2)
    for name in ("logits", "start_logits", "end_logits", "pooler_output"):
        x = getattr(out, name, None)
        if x is not None:
            golden[name] = without_padding(x, mask) if x.shape[1] == mask.shape[1] else x.contiguous()
    return golden


BERT = {
    "vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 24, "attn_implementation": "eager",
}  # fmt: skip
DISTILBERT = {
    "vocab_size": VOCABULARY, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 24,
    "attn_implementation": "eager",
}  # fmt: skip
ROBERTA = {**BERT, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
MPNET = {**BERT, "layer_norm_eps": 1e-5}
# The local layers see two tokens to each side, so that the longest row is wider than their window.
MODERNBERT = {
    "vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 20,
    "max_position_embeddings": 32, "local_attention": 5, "pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2,
    "cls_token_id": 1, "sep_token_id": 2, "attn_implementation": "eager",
    "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5000.0},
                        "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}},
}  # fmt: skip
MOODS = {"id2label": {0: "sad", 1: "calm", 2: "glad"}, "label2id": {"sad": 0, "calm": 1, "glad": 2}}
NAMES = {
    "id2label": {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"},
    "label2id": {"O": 0, "B-PER": 1, "I-PER": 2, "B-LOC": 3, "I-LOC": 4},
}  # fmt: skip
ONE = {"id2label": {0: "LABEL_0"}, "label2id": {"LABEL_0": 0}}

# name -> class, configuration
ENCODERS = {
    "bert-masked": (hf.BertForMaskedLM, hf.BertConfig, BERT),
    "bert-model": (hf.BertModel, hf.BertConfig, BERT),
    "bert-classify": (hf.BertForSequenceClassification, hf.BertConfig, {**BERT, **MOODS}),
    "bert-cross-encoder": (hf.BertForSequenceClassification, hf.BertConfig, {**BERT, **ONE}),
    "bert-tokens": (hf.BertForTokenClassification, hf.BertConfig, {**BERT, **NAMES}),
    "bert-answer": (hf.BertForQuestionAnswering, hf.BertConfig, BERT),
    "bert-gelu-new": (hf.BertForMaskedLM, hf.BertConfig, {**BERT, "hidden_act": "gelu_new"}),
    "distilbert-masked": (hf.DistilBertForMaskedLM, hf.DistilBertConfig, DISTILBERT),
    "distilbert-classify": (hf.DistilBertForSequenceClassification, hf.DistilBertConfig, {**DISTILBERT, **MOODS}),
    "distilbert-answer": (hf.DistilBertForQuestionAnswering, hf.DistilBertConfig, DISTILBERT),
    "roberta-masked": (hf.RobertaForMaskedLM, hf.RobertaConfig, ROBERTA),
    "roberta-classify": (hf.RobertaForSequenceClassification, hf.RobertaConfig, {**ROBERTA, **MOODS}),
    "roberta-tokens": (hf.RobertaForTokenClassification, hf.RobertaConfig, {**ROBERTA, **NAMES}),
    "xlm-roberta-masked": (hf.XLMRobertaForMaskedLM, hf.XLMRobertaConfig, ROBERTA),
    "mpnet-masked": (hf.MPNetForMaskedLM, hf.MPNetConfig, MPNET),
    "mpnet-model": (hf.MPNetModel, hf.MPNetConfig, MPNET),
    "mpnet-classify": (hf.MPNetForSequenceClassification, hf.MPNetConfig, {**MPNET, **MOODS}),
    "modernbert-masked": (hf.ModernBertForMaskedLM, hf.ModernBertConfig, MODERNBERT),
    "modernbert-classify-cls": (
        hf.ModernBertForSequenceClassification, hf.ModernBertConfig, {**MODERNBERT, **MOODS, "classifier_pooling": "cls"},
    ),
    "modernbert-classify-mean": (
        hf.ModernBertForSequenceClassification, hf.ModernBertConfig, {**MODERNBERT, **MOODS, "classifier_pooling": "mean"},
    ),
    "modernbert-tokens": (hf.ModernBertForTokenClassification, hf.ModernBertConfig, {**MODERNBERT, **NAMES}),
    # Every bias that the family can have.
    "modernbert-model": (
        hf.ModernBertModel, hf.ModernBertConfig,
        {**MODERNBERT, "attention_bias": True, "mlp_bias": True, "norm_bias": True},
    ),
}  # fmt: skip


def new_encoder(name, seed):
    kind, config, options = ENCODERS[name]
    return kind, randomize(kind(config(**options)), seed, 0.4)


# The encoders of encoder-decoders. (The seeds of ENCODERS are their places.)
ENCODERS_ALONE = {"t5-encoder": (hf.T5EncoderModel, hf.T5Config), "mt5-encoder": (hf.MT5EncoderModel, hf.MT5Config)}


def make_encoder_alone(name, folder, seed):
    kind, config = ENCODERS_ALONE[name]
    model = randomize(kind(config(**T5)), seed, 0.6, 0.6)
    model.save_pretrained(folder)
    return encoder_golden(folder, kind, seed, False)


def has_segments(name):
    return name.startswith(("bert", "st-"))


def make_encoder(name, folder, seed):
    kind, model = new_encoder(name, seed)
    model.save_pretrained(folder)
    return encoder_golden(folder, kind, seed, has_segments(name), LONGER.get(name, LENGTHS))


def make_half(base, dtype):
    def make(_, folder, seed):
        kind, model = new_encoder(base, seed)
        model.to(dtype).save_pretrained(folder)
        return encoder_golden(folder, kind, seed, True)

    return make


def make_shards(_, folder, seed):
    kind, model = new_encoder("bert-masked", seed)
    model.save_pretrained(folder, max_shard_size="12KB")
    assert len(list(folder.glob("model-*-of-*.safetensors"))) > 1
    return encoder_golden(folder, kind, seed, True)


def make_bert_of_2019(_, folder, seed):
    """Names and leftovers of the first files: gamma and beta, buffers, tied weights twice, heads that are not asked for."""
    kind, model = new_encoder("bert-masked", seed)
    model.save_pretrained(folder)
    expected = encoder_golden(folder, kind, seed, True)
    old = {}
    for name, value in read(folder).items():
        old[name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")] = value
    old["bert.embeddings.position_ids"] = torch.arange(24)[None]
    old["bert.pooler.dense.weight"], old["bert.pooler.dense.bias"] = torch.ones(16, 16), torch.ones(16)
    old["cls.seq_relationship.weight"], old["cls.seq_relationship.bias"] = torch.ones(2, 16), torch.ones(2)
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    write(folder, old)
    edit_json(
        folder / "config.json", remove=["dtype"], torch_dtype="float32", transformers_version="4.6.0.dev0",
        gradient_checkpointing=False, position_embedding_type="absolute", architectures=["BertForMaskedLM"],
    )  # fmt: skip
    the_same(expected, encoder_golden(folder, kind, seed, True))
    return expected


def make_modernbert_of_4(_, folder, seed):
    """The folder "modernbert-masked" as transformers 4 wrote it: other keys, the same numbers."""
    kind, model = new_encoder("modernbert-masked", seed)
    model.save_pretrained(folder)
    expected = encoder_golden(folder, kind, seed, False)
    edit_json(
        folder / "config.json", remove=["dtype", "layer_types", "rope_parameters"], torch_dtype="float32",
        transformers_version="4.48.0", global_attn_every_n_layers=3, global_rope_theta=5000.0, local_rope_theta=300.0,
        position_embedding_type="absolute", reference_compile=None, repad_logits_with_grad=False,
        gradient_checkpointing=False, layer_norm_eps=1e-5,
    )  # fmt: skip
    return the_same(expected, encoder_golden(folder, kind, seed, False))


def the_same(expected, found):
    """`found` without the states and the attention weights, after a check that they are those of the other folder."""
    for name, value in expected.items():
        assert torch.equal(value, found[name]), name
    return {name: value for name, value in found.items() if "hidden_states" not in name and "attentions" not in name}


# ---- Sentence embeddings ---------------------------------------------------------------------------------------------


def tokenizer_of_words(folder):
    """sentence-transformers wants one; it is not kept."""
    from tokenizers import Tokenizer, models

    words = {f"w{n}": n for n in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, "w3"))
    hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="w0").save_pretrained(folder)


def sentence_golden(folder, modules, seed):
    """The golden data of the BertModel in `folder`, and `modules` of sentence-transformers on top."""
    golden = encoder_golden(folder, hf.BertModel, seed, True)
    last = f"hidden_states.{BERT['num_hidden_layers']}"
    features = {"token_embeddings": golden[last], "attention_mask": golden["attention_mask"]}
    prompt = {} if modules[0].include_prompt else {"prompt_length": torch.tensor([1])}
    features |= prompt
    with torch.no_grad():
        for module in modules:
            features = module(features)
    golden = {name: value for name, value in golden.items() if value.dtype == torch.int64 or name == last}
    return {**golden, **prompt, "sentence_embedding": features["sentence_embedding"].contiguous()}


ALL_POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


def modules_of(name, width):
    name = name.removesuffix("-old")
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling

    torch.manual_seed(5)
    tanh, identity = torch.nn.Tanh(), torch.nn.Identity()
    return {
        "st-mean": [Pooling(width, "mean"), Normalize()],
        "st-cls-dense": [Pooling(width, "cls"), Dense(width, 12, True, tanh), Dense(12, 10, False, identity), Normalize()],
        "st-lasttoken": [Pooling(width, "lasttoken")],
        "st-weightedmean": [Pooling(width, "weightedmean"), Normalize()],
        "st-no-prompt": [Pooling(width, list(ALL_POOLINGS), include_prompt=False)],
        "st-max-mean": [Pooling(width, ["max", "mean_sqrt_len_tokens", "mean"])],
    }[name]


def make_sentence(name, folder, seed):
    """As the installed sentence-transformers saves it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer

    with tempfile.TemporaryDirectory() as start:
        new_encoder("bert-model", seed)[1].save_pretrained(start)
        tokenizer_of_words(start)
        modules = modules_of(name, 16)
        SentenceTransformer(modules=[Transformer(start), *modules], device="cpu").save(str(folder), create_model_card=False)
    for path in [*folder.glob("tokenizer*"), *folder.glob("special_tokens_map.json"), *folder.glob("README.md")]:
        path.unlink()
    return sentence_golden(folder, modules, seed)


def make_sentence_of_3(name, folder, seed):
    """As sentence-transformers 3 and 4 saved it: other class paths, a flag for each pooling."""
    modules = modules_of(name, 16)
    golden = make_sentence(name, folder, seed)
    entries = json.loads((folder / "modules.json").read_text())
    for entry in entries:
        entry["type"] = "sentence_transformers.models." + entry["type"].split(".")[-1]
    (folder / "modules.json").write_text(json.dumps(entries, indent=2) + "\n")
    modes = ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
    mode = modules[0].pooling_mode
    flags = {f"pooling_mode_{m}": m.removesuffix("_tokens").removesuffix("_token") == mode or m == mode for m in modes}
    assert sum(flags.values()) == 1
    old = {"word_embedding_dimension": 16, **flags, "include_prompt": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(old, indent=2) + "\n")
    lengths = {"max_seq_length": 24, "do_lower_case": False}
    (folder / "sentence_bert_config.json").write_text(json.dumps(lengths, indent=2) + "\n")
    for path in folder.glob("*_Normalize"):
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    edit_json(
        folder / "config_sentence_transformers.json", remove=["model_type"],
        __version__={"sentence_transformers": "3.4.1", "transformers": "4.48.3", "pytorch": "2.5.1"},
    )  # fmt: skip
    return golden


# ---- Encoder-decoders ------------------------------------------------------------------------------------------------

STACKS = {
    "vocab_size": VOCABULARY, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 48,
    "attn_implementation": "eager",
}  # fmt: skip
T5 = {
    "vocab_size": VOCABULARY, "d_model": 16, "d_kv": 6, "d_ff": 32, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 3,
    # Few buckets, so that the rows reach the logarithmic ones.
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "decoder_start_token_id": 0,
    "attn_implementation": "eager",
}  # fmt: skip
LAST = VOCABULARY - 1
MARIAN = {
    **STACKS, "activation_function": "swish", "scale_embedding": True, "pad_token_id": LAST, "eos_token_id": 0,
    "decoder_start_token_id": LAST,
}  # fmt: skip
MARIAN_GENERATION = {
    "bad_words_ids": [[LAST]], "forced_eos_token_id": 0, "eos_token_id": 0, "pad_token_id": LAST,
    "decoder_start_token_id": LAST, "max_length": 512, "num_beams": 4,
}  # fmt: skip
M2M_GENERATION = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "max_length": 200}
BART_GENERATION = {**M2M_GENERATION, "forced_bos_token_id": 0, "forced_eos_token_id": 2}
T5_GENERATION = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}

# name -> class, configuration, generation_config.json, scales of matrices and of embeddings, more for generate()
TRANSLATORS = {
    "marian": (hf.MarianMTModel, hf.MarianConfig, MARIAN, MARIAN_GENERATION, (0.22, 0.6), {}),
    "marian-apart": (
        hf.MarianMTModel, hf.MarianConfig,
        {**MARIAN, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 53, "pad_token_id": 52,
         "decoder_start_token_id": 52, "tie_word_embeddings": False},
        {**MARIAN_GENERATION, "bad_words_ids": [[52]], "pad_token_id": 52, "decoder_start_token_id": 52}, (0.22, 0.6), {},
    ),
    "m2m100": (
        hf.M2M100ForConditionalGeneration, hf.M2M100Config, STACKS,
        {**M2M_GENERATION, "num_beams": 5, "early_stopping": True, "forced_bos_token_id": 57}, (0.8, 0.3), {},
    ),
    "nllb": (
        hf.M2M100ForConditionalGeneration, hf.M2M100Config, STACKS, M2M_GENERATION, (0.8, 0.3), {"forced_bos_token_id": 55},
    ),
    "bart": (hf.BartForConditionalGeneration, hf.BartConfig, STACKS, BART_GENERATION, (0.22, 1.0), {}),
    "mbart": (
        hf.MBartForConditionalGeneration, hf.MBartConfig, {**STACKS, "scale_embedding": True, "decoder_start_token_id": 2},
        {**M2M_GENERATION, "forced_eos_token_id": 2, "num_beams": 5}, (0.8, 0.3), {"forced_bos_token_id": 56},
    ),
    "t5": (hf.T5ForConditionalGeneration, hf.T5Config, T5, T5_GENERATION, (0.6, 0.6), {}),
    "t5-v1.1": (
        hf.T5ForConditionalGeneration, hf.T5Config, {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        T5_GENERATION, (0.6, 0.6), {},
    ),
    "mt5": (hf.MT5ForConditionalGeneration, hf.MT5Config, T5, T5_GENERATION, (0.6, 0.6), {}),
}  # fmt: skip


def new_translator(name, seed):
    kind, config, options, generation, scales, _ = TRANSLATORS[name]
    model = kind(config(**options))
    untied = name in ("t5-v1.1", "mt5", "marian-apart")
    if untied:
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    randomize(model, seed, *scales)
    model.generation_config = hf.GenerationConfig(**generation)
    return model


def sources_of(name, seed):
    """POOL sentences of each length: ids (3, POOL, L)."""
    pad = TRANSLATORS[name][3]["pad_token_id"]
    vocabulary = pad if pad > 1 else VOCABULARY
    draw = torch.Generator().manual_seed(seed + 1000)
    ids = torch.randint(5, vocabulary, (len(LENGTHS), POOL, max(LENGTHS)), generator=draw)
    mask = torch.arange(max(LENGTHS))[None] < torch.tensor(LENGTHS)[:, None]
    return torch.where(mask[:, None], ids, pad)


def targets_of(name, seed):
    target = torch.randint(5, 50, (len(LENGTHS), TARGET), generator=torch.Generator().manual_seed(seed + 2000))
    target[:, 0] = TRANSLATORS[name][3]["decoder_start_token_id"]
    return target


def mask_of(ids, pad):
    return (ids != pad).long()


def generate(model, ids, mask, **options):
    with torch.no_grad():
        return model.generate(
            input_ids=ids, attention_mask=mask, do_sample=False, max_new_tokens=NEW_TOKENS, return_dict_in_generate=True,
            output_scores=True, **options,
        )  # fmt: skip


def calls_of(name):
    """Name -> how generate() is called. Each call says all of its search; the rest is in generation_config.json."""
    calls = {
        "greedy": {"num_beams": 1, "early_stopping": False},
        "beam": BEAM,
        "beam_early": {**BEAM, "early_stopping": True},
        "beam_never": {**BEAM, "early_stopping": "never"},
        "beam_long": {**BEAM, "length_penalty": 2.0},
    }
    if name == "bart":
        calls["beam_min"] = {**BEAM, "min_new_tokens": 12}
        calls["beam_ngram"] = {**BEAM, "no_repeat_ngram_size": 3}
    return {key: {**call, **TRANSLATORS[name][5]} for key, call in calls.items()}


def tokens_of(model, ids, mask, name):
    return {key: generate(model, ids, mask, **call) for key, call in calls_of(name).items()}


def end_early(tokens, end):
    """For each row, whether its end comes before the last of all steps."""
    return [(row[1:NEW_TOKENS] == end).any().item() for row in tokens]


def choices(model, name, pool):
    """Sentences, one of each length: greedy search ends early after one of them, and not at all after another."""
    end, pad = model.generation_config.eos_token_id, model.generation_config.pad_token_id
    flat = pool.flatten(0, 1)
    tokens = generate(model, flat, mask_of(flat, pad), **calls_of(name)["greedy"]).sequences[:, 1:].unflatten(0, (-1, POOL))
    ending, lasting = [], []
    for n, rows in enumerate(tokens.tolist()):
        early = [(len(set(row[: row.index(end)])), i) for i, row in enumerate(rows) if end in row[3 : NEW_TOKENS - 2]]
        late = [(len(set(row)), i) for i, row in enumerate(rows) if end not in row[: NEW_TOKENS - 1]]
        ending.append([i for several, i in sorted(early, reverse=True) if several >= 3])
        lasting.append([i for several, i in sorted(late, reverse=True) if several >= 6])
    for short in range(len(LENGTHS)):
        for long in range(len(LENGTHS)):
            if short != long and ending[short] and lasting[long]:
                other = 3 - short - long
                for rank in range(min(3, len(ending[short]))):
                    third = (lasting[other] or ending[other] or [0])[0]
                    order = {short: ending[short][rank], long: lasting[long][0], other: third}
                    yield torch.stack([pool[n, order[n]] for n in range(len(LENGTHS))])


def has_padding(row, options):
    """Whether padding stands before the end: no trained model says it, and positions would depend on the cache."""
    row = row[1:]
    return options.pad_token_id in (row[: row.index(options.eos_token_id)] if options.eos_token_id in row else row)


def good(model, name, ids):
    """Whether these sentences make a test that many mistakes fail."""
    mask = mask_of(ids, model.generation_config.pad_token_id)
    runs = tokens_of(model, ids, mask, name)
    if not any(end_early(runs["beam"].sequences, model.generation_config.eos_token_id)):
        return False
    if torch.equal(runs["beam"].sequences, runs["beam_early"].sequences):
        return False
    if any(has_padding(row, model.generation_config) for run in runs.values() for row in run.sequences.tolist()):
        return False
    return steady(model, name, ids, mask, runs)


def steady(model, name, ids, mask, runs):
    """Whether the same tokens come out of double precision, and of weights that differ in the sixth digit."""
    draw = torch.Generator().manual_seed(1)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    same = True
    for trial in range(3):
        model.double()
        with torch.no_grad():
            for value in model.parameters() if trial else []:
                value.mul_(1 + 3e-6 * torch.randn(value.shape, generator=draw, dtype=torch.float64))
        others = tokens_of(model, ids, mask, name)
        same = same and all(torch.equal(run.sequences, others[key].sequences) for key, run in runs.items())
        model.float().load_state_dict(weights)
        if not same:
            break
    return same


def translator_golden(folder, name, seed, ids):
    model = load(folder, TRANSLATORS[name][0])
    mask, target = mask_of(ids, TRANSLATORS[name][3]["pad_token_id"]), targets_of(name, seed)
    with torch.no_grad():
        out = model(
            input_ids=ids, attention_mask=mask, decoder_input_ids=target, output_hidden_states=True, output_attentions=True
        )
    golden = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": target, "logits": out.logits.contiguous()}
    for n, x in enumerate(out.encoder_hidden_states):
        golden[f"encoder_hidden_states.{n}"] = without_padding(x, mask)
    for n, x in enumerate(out.encoder_attentions):
        golden[f"encoder_attentions.{n}"] = without_padding(x, mask, 2)
    for key in ("decoder_hidden_states", "decoder_attentions", "cross_attentions"):
        for n, x in enumerate(getattr(out, key)):
            golden[f"{key}.{n}"] = x.contiguous()
    runs = tokens_of(model, ids, mask, name)
    for key, run in runs.items():
        golden[key] = run.sequences.contiguous()
        if key != "greedy":
            golden[f"{key}_scores"] = run.sequences_scores.contiguous()
    if forced := TRANSLATORS[name][5].get("forced_bos_token_id"):
        golden["forced_bos_token_id"] = torch.tensor(forced)
    return golden


def save_translator(name, folder, seed):
    model = new_translator(name, seed)
    model.save_pretrained(folder)
    if name in ("t5-v1.1", "mt5", "marian-apart"):  # with an output of their own, which save_pretrained() might tie
        write(folder, tensors_of(model))
        edit_json(folder / "config.json", remove=["scale_decoder_outputs"], tie_word_embeddings=False)
    return model


def make_translator(name, folder, seed):
    for attempt in range(seed, seed + 1000):
        model = new_translator(name, attempt)
        ids = next((ids for ids in choices(model, name, sources_of(name, attempt)) if good(model, name, ids)), None)
        if ids is not None:
            break
    else:
        sys.exit(f"golden_models.py: a seed with which {name} generates well; found none")
    save_translator(name, folder, attempt)
    return {**translator_golden(folder, name, attempt, ids), "seed": torch.tensor(attempt)}


def make_marian_of_4(_, folder, seed):
    """The folder "marian" as the models of Helsinki-NLP have it: search settings in config.json, tables of positions."""
    shutil.copytree(folder.parent / "marian", folder, dirs_exist_ok=True)
    golden = safetensors.torch.load_file(folder / "golden.safetensors")
    (folder / "generation_config.json").unlink()
    old = read(folder)
    positions = load(folder.parent / "marian", hf.MarianMTModel).model.encoder.embed_positions.weight.detach()
    for side in ("encoder", "decoder"):
        old[f"model.{side}.embed_positions.weight"] = positions.clone()
        old[f"model.{side}.embed_tokens.weight"] = old["model.shared.weight"].clone()
    old["lm_head.weight"] = old["model.shared.weight"].clone()
    write(folder, old)
    edit_json(
        folder / "config.json", remove=["dtype", "decoder_vocab_size", "share_encoder_decoder_embeddings"],
        torch_dtype="float32", transformers_version="4.22.0.dev0", **MARIAN_GENERATION, _num_labels=3, add_bias_logits=False,
        add_final_layer_norm=False, classif_dropout=0.0, classifier_dropout=0.0, gradient_checkpointing=False,
        normalize_before=False, normalize_embedding=False, num_hidden_layers=2, static_position_embeddings=True,
        architectures=["MarianMTModel"], id2label={"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
    )  # fmt: skip
    return same_translator(folder, "marian", int(golden["seed"]), golden)


def make_nllb_of_4(_, folder, seed):
    """The folder "nllb" as transformers 4 wrote it."""
    shutil.copytree(folder.parent / "nllb", folder, dirs_exist_ok=True)
    golden = safetensors.torch.load_file(folder / "golden.safetensors")
    edit_json(
        folder / "config.json", remove=["dtype"], torch_dtype="float32", transformers_version="4.21.0.dev0", max_length=200,
        num_hidden_layers=2, tokenizer_class="NllbTokenizer", architectures=["M2M100ForConditionalGeneration"],
    )  # fmt: skip
    old = read(folder)
    for side in ("encoder", "decoder"):
        old[f"model.{side}.embed_tokens.weight"] = old["model.shared.weight"].clone()
        old[f"model.{side}.embed_positions.weights"] = torch.ones(50, 16)
    old["lm_head.weight"] = old["model.shared.weight"].clone()
    write(folder, old)
    return same_translator(folder, "nllb", int(golden["seed"]), golden)


def make_t5_of_5(_, folder, seed):
    """The folder "t5-v1.1" as transformers 5 writes it again: tied in name, though the file has an output of its own."""
    golden = safetensors.torch.load_file(folder.parent / "t5-v1.1" / "golden.safetensors")
    load(folder.parent / "t5-v1.1", hf.T5ForConditionalGeneration).save_pretrained(folder)
    assert "lm_head.weight" in read(folder)
    config = json.loads((folder / "config.json").read_text())
    assert config["tie_word_embeddings"] and not config["scale_decoder_outputs"], config
    return same_translator(folder, "t5-v1.1", int(golden["seed"]), golden)


def same_translator(folder, name, seed, expected):
    golden = {**translator_golden(folder, name, seed, expected["input_ids"]), "seed": torch.tensor(seed)}
    return the_same(expected, golden)


# ---- All of them -----------------------------------------------------------------------------------------------------


def makers():
    """Name -> (function(name, folder, seed) -> golden tensors, seed)."""
    out = {name: (make_encoder, 100 + n) for n, name in enumerate(ENCODERS)}
    out["bert-masked-bf16"] = (make_half("bert-masked", torch.bfloat16), 140)
    out["bert-model-f16"] = (make_half("bert-model", torch.float16), 141)
    out["bert-sharded"] = (make_shards, 142)
    out["bert-old-names"] = (make_bert_of_2019, 143)
    out["modernbert-old-keys"] = (make_modernbert_of_4, out["modernbert-masked"][1])
    out["st-mean"] = (make_sentence, 150)
    out["st-mean-old"] = (make_sentence_of_3, 151)
    out["st-cls-dense"] = (make_sentence, 152)
    out["st-lasttoken"] = (make_sentence, 153)
    out["st-weightedmean-old"] = (make_sentence_of_3, 154)
    out["st-max-mean"] = (make_sentence, 155)
    out["st-no-prompt"] = (make_sentence, 156)
    for n, name in enumerate(ENCODERS_ALONE):
        out[name] = (make_encoder_alone, 160 + n)
    for n, name in enumerate(TRANSLATORS):
        out[name] = (make_translator, 1000 * (n + 1))
    out["marian-old"] = (make_marian_of_4, 0)
    out["nllb-old"] = (make_nllb_of_4, 0)
    out["t5-v1.1-resaved"] = (make_t5_of_5, 0)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these folders")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests" / "data" / "families", metavar="FOLDER")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    torch.set_num_threads(1)
    all_makers = makers()
    if unknown := set(arguments.only) - set(all_makers):
        sys.exit(f"golden_models.py: names of folders; found {', '.join(sorted(unknown))}")
    for name in arguments.only or all_makers:
        make, seed = all_makers[name]
        folder = arguments.out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        golden = make(name, folder, seed)
        versions = f"transformers {hf.__version__}, PyTorch {torch.__version__}"
        write(folder, golden, "golden.safetensors", ("made with", versions))
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{name:26} {size:7} bytes  {len(golden)} tensors", flush=True)


if __name__ == "__main__":
    main()
