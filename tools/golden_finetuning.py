#!/usr/bin/env python3
"""Losses and gradients of PyPI's transformers and sentence-transformers for the small models of tests/data/families: tests/data/finetuning/.

    python3 -m venv build/venv-golden
    build/venv-golden/bin/pip install torch transformers sentence-transformers
    build/venv-golden/bin/python tools/golden_finetuning.py [--out FOLDER]

NAME.safetensors belongs to the folder tests/data/families/NAME: inputs are the ids there, dropout is off, everything is
float32 on one thread. The tensors are listed in tests/data/finetuning/README.md.
"""
import argparse
import json
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"
import safetensors.torch
import torch
import transformers as hf

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAMILIES = ROOT / "tests" / "data" / "families"
CLASSIFIERS = ("bert-classify", "distilbert-classify", "roberta-classify", "mpnet-classify", "modernbert-classify-cls",
               "modernbert-classify-mean")
ENCODERS = {"bert-model": ("mean",), "st-cls-dense": ("cls",), "st-lasttoken": ("lasttoken",), "st-max-mean": ("max", "mean"),
            "st-weightedmean-old": ("weightedmean",)}
SCALE = 20.0
STEPS, RATE, DECAY = 4, 2e-3, 0.1


def load(folder, kind):
    config = hf.AutoConfig.from_pretrained(folder)
    for key in vars(config):
        if "dropout" in key or key == "classifier_dropout":
            setattr(config, key, 0.0)
    return kind.from_pretrained(folder, config=config, attn_implementation="eager", dtype=torch.float32).train()


def gradients_of(model, loss):
    model.zero_grad()
    loss.backward()
    return {"gradient." + name: value.grad.contiguous() for name, value in model.named_parameters()
            if value.grad is not None}


def losses_of(model, loss):
    """AdamW with decay of matrices alone, as heed has it."""
    matrices = [value for value in model.parameters() if value.dim() == 2]
    others = [value for value in model.parameters() if value.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        losses.append(value.item())
        optimizer.step()
    return torch.tensor(losses)


def classifier(name):
    golden = safetensors.torch.load_file(FAMILIES / name / "golden.safetensors")
    inputs = {key: golden[key] for key in ("input_ids", "attention_mask", "token_type_ids") if key in golden}
    model = load(FAMILIES / name, hf.AutoModelForSequenceClassification)
    labels = torch.arange(len(golden["input_ids"])).flip(0) % model.config.num_labels

    def loss():
        return torch.nn.functional.cross_entropy(model(**inputs).logits, labels)

    first = loss()
    return {"labels": labels, "loss": first.detach().reshape(1), **gradients_of(model, first),
            "losses": losses_of(model, loss)}


def scores(name, problem):
    """A head with one number: transformers' regression, or the loss of sentence-transformers' CrossEncoder."""
    golden = safetensors.torch.load_file(FAMILIES / name / "golden.safetensors")
    inputs = {key: golden[key] for key in ("input_ids", "attention_mask", "token_type_ids") if key in golden}
    model = load(FAMILIES / name, hf.AutoModelForSequenceClassification)
    model.config.problem_type = "regression"
    wanted = torch.tensor({"squared_error": [2.5, -1.0, 0.3], "cross_entropy": [1.0, 0.0, 0.3]}[problem])

    def loss():
        if problem == "squared_error":
            return model(**inputs, labels=wanted).loss
        return torch.nn.BCEWithLogitsLoss()(model(**inputs).logits.view(-1), wanted)

    first = loss()
    return {"scores": wanted, "loss": first.detach().reshape(1), **gradients_of(model, first), "losses": losses_of(model, loss)}


def pairs(name, modes, scored=False):
    """MultipleNegativesRankingLoss of sentence-transformers, or where the pairs have scores its CosineSimilarityLoss,
    with its Pooling above the encoder: three texts of a folder and their reversals."""
    from sentence_transformers.sentence_transformer import losses, modules

    ids = torch.tensor([[7, 8, 9, 10, 11, 12], [20, 21, 22, 23, 0, 0], [30, 31, 0, 0, 0, 0]])
    others = torch.tensor([[12, 11, 10, 9, 0], [40, 23, 22, 21, 20], [31, 30, 5, 0, 0]])
    encoder = load(FAMILIES / name, hf.AutoModel)
    pooling = modules.Pooling(encoder.config.hidden_size, pooling_mode=list(modes))

    def embed(ids):
        mask = (ids != 0).long()
        states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return pooling({"token_embeddings": states, "attention_mask": mask})["sentence_embedding"]

    objective = losses.CosineSimilarityLoss(None) if scored else losses.MultipleNegativesRankingLoss(None, scale=SCALE)
    wanted = torch.tensor([0.9, -0.2, 0.4]) if scored else None

    def loss():
        return objective.compute_loss_from_embeddings([embed(ids), embed(others)], wanted)

    first = loss()
    made = {"anchors": ids, "positives": others, "loss": first.detach().reshape(1), **gradients_of(encoder, first)}
    return {**made, "scores": wanted, "losses": losses_of(encoder, loss)} if scored else made


def dense(name, modes):
    """The same with the Dense modules of the folder, which are trained too; their parameters are named
    "2_Dense/linear.weight"."""
    from sentence_transformers.sentence_transformer import losses, modules

    ids = torch.tensor([[7, 8, 9, 10, 11, 12], [20, 21, 22, 23, 0, 0], [30, 31, 0, 0, 0, 0]])
    others = torch.tensor([[12, 11, 10, 9, 0], [40, 23, 22, 21, 20], [31, 30, 5, 0, 0]])
    encoder = load(FAMILIES / name, hf.AutoModel)
    pooling = modules.Pooling(encoder.config.hidden_size, pooling_mode=list(modes))
    layers = {entry["path"]: modules.Dense.load(str(FAMILIES / name / entry["path"]))
              for entry in json.loads((FAMILIES / name / "modules.json").read_text()) if entry["type"].endswith("Dense")}

    def embed(ids):
        mask = (ids != 0).long()
        features = pooling({"token_embeddings": encoder(input_ids=ids, attention_mask=mask).last_hidden_state,
                            "attention_mask": mask})
        for layer in layers.values():
            features = layer(features)
        return features["sentence_embedding"]

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = encoder
            self.layers = torch.nn.ModuleList(layers.values())

    objective = losses.MultipleNegativesRankingLoss(None, scale=SCALE)

    def loss():
        return objective.compute_loss_from_embeddings([embed(ids), embed(others)], None)

    first = loss()
    made = {"anchors": ids, "positives": others, "loss": first.detach().reshape(1), **gradients_of(encoder, first)}
    for path, layer in layers.items():
        made |= {f"gradient.{path}/{key}": value.grad.contiguous() for key, value in layer.named_parameters()}
    return {**made, "losses": losses_of(Whole(), loss)}


def of_languages(name, behind):
    """Two pairs from language 57 into language 58: the tokens of languages before the texts, or behind their ends, where
    the decoder begins with its language."""
    end, source, target, padding = 2, 57, 58, 1
    around = (lambda ids, language: [*ids, end, language]) if behind else (lambda ids, language: [language, *ids, end])
    sources = torch.tensor([around([4, 5, 6], source), [*around([7, 8], source), padding]])
    labels = torch.tensor([[*around([6, 5], target), -100], around([9, 10, 11], target)])
    model = load(FAMILIES / name, hf.AutoModelForSeq2SeqLM).eval()  # which keeps every layer
    found = model(input_ids=sources, attention_mask=(sources != padding).long(), labels=labels)
    return {"sources": sources, "labels": labels, "loss": found.loss.detach().reshape(1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests" / "data" / "finetuning")
    out = parser.parse_args().out
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    made = {"made with": f"transformers {hf.__version__}, PyTorch {torch.__version__}"}
    for name in CLASSIFIERS:
        safetensors.torch.save_file(classifier(name), out / f"{name}.safetensors", metadata=made)
    for name, modes in ENCODERS.items():
        safetensors.torch.save_file(pairs(name, modes), out / f"pairs-{name}.safetensors", metadata=made)
    kept = "dense-st-cls-dense.safetensors"
    safetensors.torch.save_file(dense("st-cls-dense", ENCODERS["st-cls-dense"]), out / kept, metadata=made)
    for problem in ("squared_error", "cross_entropy"):
        kept = f"scores-{problem.replace('_', '-')}.safetensors"
        safetensors.torch.save_file(scores("bert-cross-encoder", problem), out / kept, metadata=made)
    for name in ("bert-model", "st-max-mean"):
        safetensors.torch.save_file(pairs(name, ENCODERS[name], True), out / f"cosines-{name}.safetensors", metadata=made)
    for name, behind in (("m2m100", False), ("nllb", False), ("mbart", False), ("mbart", True)):
        kept = f"languages-{name}{'-behind' if behind else ''}.safetensors"
        safetensors.torch.save_file(of_languages(name, behind), out / kept, metadata=made)


if __name__ == "__main__":
    main()
