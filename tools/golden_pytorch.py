"""Writes tests/data/pytorch/: tensors as torch.save() writes them, in both of its formats, and as safetensors.

    tools/golden_pytorch.py

Needs PyTorch and safetensors.
"""
import collections
from pathlib import Path

import torch
from safetensors.torch import save_file

OUT = Path(__file__).resolve().parent.parent / "tests" / "data" / "pytorch"


def state():
    """What a state_dict can have: all types, tied weights, views, a parameter, and a table's attribute."""
    random = torch.Generator().manual_seed(1)
    matrix = torch.randn(5, 7, generator=random)
    whole = torch.randn(40, generator=random)
    tensors = collections.OrderedDict(
        {
            "matrix": matrix,
            "tied": matrix,
            "transposed": matrix.t(),
            "part": whole[3:19].view(4, 4),
            "columns": whole.view(8, 5)[:, 1:3],
            "parameter": torch.nn.Parameter(torch.randn(3, generator=random)),
            "f64": torch.randn(3, generator=random, dtype=torch.float64),
            "f16": torch.randn(3, generator=random).half(),
            "bf16": torch.randn(3, generator=random).bfloat16(),
            "embeddings.position_ids": torch.arange(6).expand(1, -1),
            "i32": torch.tensor([-1, 2**31 - 1], dtype=torch.int32),
            "i8": torch.tensor([-128, 127], dtype=torch.int8),
            "u8": torch.tensor([0, 255, 7], dtype=torch.uint8),
            "bool": torch.tensor([True, False, True]),
            "number": torch.tensor(0.5),
            "empty": torch.zeros(0, 3),
            "名": torch.ones(1),
        }
    )
    tensors._metadata = collections.OrderedDict({"": {"version": 1}})
    return tensors


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    tensors = state()
    torch.save(tensors, OUT / "zip.bin")
    torch.save(tensors, OUT / "old.bin", _use_new_zipfile_serialization=False)
    torch.save(tensors, OUT / "protocol4.bin", pickle_protocol=4)
    save_file({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, OUT / "values.safetensors")


if __name__ == "__main__":
    main()
