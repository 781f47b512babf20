"""The attention of heed and of its peers, each called as its users call it.

A peer is made for a number of threads. Its methods forward, decode and backward take a Case and PyTorch tensors query,
key, value (B, H, L, D) (and the output's gradient) and return a function that runs once and returns the output, or the
gradients, query's first. What a peer cannot do raises NotImplementedError. Peers import what they need when made.
"""

import ctypes
import os
import sys
import warnings
from typing import NamedTuple

import peers

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # before PyTorch is imported: no forks beside JAX's threads


class Case(NamedTuple):
    what: str  # forward, backward, decode
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    causal: bool = False
    dtype: str = "f32"

    def __str__(self):
        extents = ",".join(str(n) for n in self[1:7])
        return f"{self.what} {extents}" + (" causal" if self.causal else "") + (" bf16" if self.dtype == "bf16" else "")


def f32_only(case):
    if case.dtype != "f32":
        raise NotImplementedError("f32 alone")


class Heed:
    name = "heed"

    def __init__(self, threads):
        sys.path.insert(0, str(peers.ROOT / "build" / "release" / "python"))
        import heed

        self.heed = heed
        heed.set_num_threads(threads)

    def forward(self, case, *qkv):
        if case.dtype == "f32":
            qkv = [x.numpy() for x in qkv]
        options = {"causal": "top_left" if case.causal else None}
        return lambda: self.heed.attention(*qkv, **options)

    decode = forward

    def backward(self, case, query, key, value, gradient):
        arrays = [query, key, value, gradient]
        if case.dtype == "f32":
            arrays = [x.numpy() for x in arrays]
        options = {"causal": "top_left" if case.causal else None}
        r = self.heed.attention(*arrays[:3], return_logsumexp=True, **options)
        return lambda: self.heed.attention_backward(arrays[3], *arrays[:3], r.output, r.logsumexp, **options)


class PyTorch:
    name = "PyTorch"

    def __init__(self, threads):
        import torch

        self.torch = torch
        torch.set_num_threads(threads)

    def forward(self, case, query, key, value):
        attention = self.torch.nn.functional.scaled_dot_product_attention
        grouped = case.heads != case.kv_heads

        def run():
            with self.torch.no_grad():
                return attention(query, key, value, is_causal=case.causal, enable_gqa=grouped)

        return run

    decode = forward

    def backward(self, case, query, key, value, gradient):
        leaves = [x.detach().requires_grad_() for x in (query, key, value)]
        out = self.torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=case.causal)
        return lambda: self.torch.autograd.grad(out, leaves, gradient, retain_graph=True)


class FlexAttention:
    """PyTorch's, compiled. Forward alone: its CPU backend has no backward pass."""

    name = "FlexAttention"

    def __init__(self, threads):
        import torch
        from torch.nn.attention import flex_attention

        self.torch, self.flex = torch, flex_attention
        torch.set_num_threads(threads)
        torch.compiler.reset()  # after eight shapes it would not compile any more
        self.attention = torch.compile(flex_attention.flex_attention, dynamic=False)

    def forward(self, case, query, key, value):
        mask = None
        if case.causal:
            mask = self.flex.create_block_mask(
                lambda b, h, i, j: i >= j, None, None, case.queries, case.keys, device="cpu"
            )
        grouped = case.heads != case.kv_heads

        def run():
            with self.torch.no_grad():
                return self.attention(query, key, value, block_mask=mask, enable_gqa=grouped)

        return run

    decode = forward


class OneDnnGraph:
    """oneDNN's fused attention, as PyTorch's TorchScript hands it the formula: one partition of its graph."""

    name = "oneDNN Graph"

    def __init__(self, threads):
        import torch

        self.torch = torch
        torch.set_num_threads(threads)
        torch.jit.enable_onednn_fusion(True)

    def forward(self, case, query, key, value):
        torch, scale = self.torch, case.size**0.5
        mask = None
        if case.causal:
            mask = torch.full((case.queries, case.keys), -torch.inf, dtype=query.dtype).triu(1)
        if case.heads != case.kv_heads:  # (B, Hkv, G, L, D) against (B, Hkv, 1, S, D)
            query = query.unflatten(1, (case.kv_heads, -1))
            key, value = key.unsqueeze(2), value.unsqueeze(2)

        class Attention(torch.nn.Module):
            def forward(self, query, key, value):
                scores = torch.matmul(query, key.transpose(-2, -1)) / scale
                return torch.matmul(torch.softmax(scores if mask is None else scores + mask, -1), value)

        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # TorchScript is deprecated, and still the only way to oneDNN Graph
            model = torch.jit.freeze(torch.jit.trace(Attention().eval(), (query, key, value)))
            for _ in range(3):  # it fuses on the second call
                model(query, key, value)
            if "oneDNNFusionGroup" not in str(model.graph_for(query, key, value)):
                raise NotImplementedError("not fused")

        def run():
            with torch.no_grad():
                return model(query, key, value).flatten(1, -3)

        return run

    decode = forward


class Jax:
    """jax.nn.dot_product_attention, compiled. Its threads are as many as the process may use cores."""

    name = "JAX"

    def __init__(self, threads):
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax

        self.jax = jax

    def arrays(self, *tensors):
        import numpy as np

        # (B, L, H, D) is how JAX wants them.
        narrow = self.jax.numpy.bfloat16 if "bfloat16" in str(tensors[0].dtype) else self.jax.numpy.float32
        return [self.jax.numpy.asarray(np.asarray(x.float().transpose(1, 2))).astype(narrow) for x in tensors]

    def attention(self, case):
        return lambda q, k, v: self.jax.nn.dot_product_attention(q, k, v, is_causal=case.causal)

    def forward(self, case, *qkv):
        arrays, run = self.arrays(*qkv), self.jax.jit(self.attention(case))
        return lambda: run(*arrays).block_until_ready().transpose(0, 2, 1, 3)

    decode = forward

    def backward(self, case, *operands):
        import jax

        *arrays, gradient = self.arrays(*operands)
        _, pull = jax.vjp(self.attention(case), *arrays)  # what the forward pass keeps stays outside the timing
        run = jax.jit(pull)
        return lambda: [x.block_until_ready().transpose(0, 2, 1, 3) for x in run(gradient)]


class OnnxRuntime:
    name = "ONNX Runtime"

    def __init__(self, threads):
        import onnx
        import onnxruntime

        self.onnx, self.runtime, self.threads = onnx, onnxruntime, threads

    def forward(self, case, *qkv):
        import numpy as np

        f32_only(case)
        b, h, kv, length, keys, d = case[1:7]
        if h != kv and (not case.causal or length != keys):
            raise NotImplementedError("grouped heads without causal")
        helper, f32 = self.onnx.helper, self.onnx.TensorProto.FLOAT
        merged = [np.ascontiguousarray(x.numpy().transpose(0, 2, 1, 3)).reshape(b, x.shape[2], -1) for x in qkv]
        inputs = [helper.make_tensor_value_info(n, f32, x.shape) for n, x in zip("qkv", merged)]
        feed = dict(zip("qkv", merged))
        if h == kv:
            node = helper.make_node(
                "MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=h,
                unidirectional=int(case.causal),
            )
            constants = []
        else:
            node = helper.make_node(
                "GroupQueryAttention", ["q", "k", "v", "", "", "last", "total"], ["y", "pk", "pv"],
                domain="com.microsoft", num_heads=h, kv_num_heads=kv,
            )
            constants = [
                helper.make_tensor("last", self.onnx.TensorProto.INT32, [b], [keys - 1] * b),
                helper.make_tensor("total", self.onnx.TensorProto.INT32, [1], [keys]),
            ]
        outputs = [helper.make_tensor_value_info("y", f32, (b, length, h * d))]
        if h != kv:
            outputs += [helper.make_tensor_value_info(n, f32, (b, kv, keys, d)) for n in ("pk", "pv")]
        graph = helper.make_graph([node], "g", inputs, outputs, constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        )
        model.ir_version = 9
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = self.runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return lambda: session.run(["y"], feed)[0].reshape(b, length, h, d).transpose(0, 2, 1, 3)

    decode = forward


class OpenVino:
    name = "OpenVINO"

    def __init__(self, threads):
        import openvino

        self.openvino, self.threads = openvino, threads

    def forward(self, case, *qkv):
        from openvino import opset13 as ops

        f32_only(case)
        if case.heads != case.kv_heads:
            raise NotImplementedError("grouped heads")
        f32, shape_of = self.openvino.Type.f32, self.openvino.PartialShape
        arrays = [x.numpy() for x in qkv]
        parameters = [ops.parameter(shape_of(list(x.shape)), f32) for x in arrays]
        attention = ops.scaled_dot_product_attention(*parameters, causal=case.causal)
        model = self.openvino.Model([attention], parameters, "attention")
        compiled = self.openvino.Core().compile_model(
            model, "CPU", {"INFERENCE_NUM_THREADS": self.threads, "INFERENCE_PRECISION_HINT": "f32"}
        )
        request = compiled.create_infer_request()
        return lambda: request.infer(arrays, share_inputs=True)[0]

    decode = forward


class OpenVinoCache(OpenVino):
    """OpenVINO's fused attention over the keys and values that it keeps as its state, as its language models decode.

    Every call appends one key, so that the state grows by some per mille while it is timed. Where the case asks for
    bf16 the state is f16: asked for bf16, a processor without it keeps f32.
    """

    name = "OpenVINO cache"
    forward = None

    def decode(self, case, query, key, value):
        import numpy as np
        from openvino import opset13 as ops

        b, h, kv, _, _, d = case[1:7]
        f32, whole, shape_of = self.openvino.Type.f32, self.openvino.Type.i32, self.openvino.PartialShape
        new = [ops.parameter(shape_of([b, heads, -1, d]), f32) for heads in (h, kv, kv)]
        beams = ops.parameter(shape_of([b]), whole)
        sinks, kept = [], []
        for name, rows in zip(("key", "value"), new[1:]):
            # The pattern that the plugin knows: read, gathered by beam, joined with what is new, assigned.
            past = ops.read_value(ops.constant(np.zeros((b, kv, 0, d), np.float32)), name, np.float32, shape_of([b, kv, -1, d]))
            all_rows = ops.concat([ops.gather(past, beams, ops.constant(np.int32(0))), rows], 2)
            sinks.append(ops.assign(all_rows, name))
            if h != kv:
                count = ops.gather(ops.shape_of(all_rows), ops.constant(np.array([2])), ops.constant(np.int64(0)))
                target = ops.concat([ops.constant(np.array([b, kv, h // kv])), count, ops.constant(np.array([d]))], 0)
                spread = ops.broadcast(ops.unsqueeze(all_rows, ops.constant(np.int64(2))), target, broadcast_spec="BIDIRECTIONAL")
                all_rows = ops.reshape(spread, ops.constant(np.array([0, h, -1, d])), True)
            kept.append(all_rows)
        attention = ops.scaled_dot_product_attention(new[0], *kept, causal=False)
        model = self.openvino.Model([ops.result(attention)], sinks, [*new, beams], "decode")
        compiled = self.openvino.Core().compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": self.threads, "INFERENCE_PRECISION_HINT": "f32",
            "KV_CACHE_PRECISION": "f16" if case.dtype == "bf16" else "f32",
        })
        request = compiled.create_infer_request()
        query, key, value = (x.float().numpy() for x in (query, key, value))
        for state in request.query_state():
            rows = key if state.name == "key" else value
            state.state = self.openvino.Tensor(np.ascontiguousarray(rows[:, :, :-1]))
        last = [query, *(np.ascontiguousarray(x[:, :, -1:]) for x in (key, value)), np.arange(b, dtype=np.int32)]
        return lambda: request.infer(last, share_inputs=True)[0]


class Ggml:
    """ggml_flash_attn_ext over f32 or bf16 keys and values; queries are f32."""

    name = "ggml"

    def __init__(self, threads):
        import ggml

        self.ggml, self.threads = ggml, threads

    def forward(self, case, *qkv):
        import numpy as np

        lib, (query, key, value) = self.ggml, qkv
        b, h, length, d = query.shape
        keys, padded = case.keys, (case.queries + 31) // 32 * 32
        narrow = lib.GGML_TYPE_BF16 if case.dtype == "bf16" else lib.GGML_TYPE_F32
        size = sum(x.numel() * 4 for x in (query, query, key, value)) + 2 * padded * keys + (64 << 20)
        context = lib.ggml_init(lib.ggml_init_params(mem_size=size, mem_buffer=None, no_alloc=False))

        def tensor(x, kind):
            made = lib.ggml_new_tensor_4d(context, kind, *reversed(x.shape))
            x = x.contiguous()
            ctypes.memmove(lib.ggml_get_data(made), x.data_ptr(), x.numel() * x.element_size())
            return made

        mask = None
        if case.causal:
            hidden = np.arange(keys)[None] > np.arange(padded)[:, None]
            values = np.where(hidden, -np.inf, 0).astype(np.float16)
            mask = lib.ggml_new_tensor_2d(context, lib.GGML_TYPE_F16, keys, padded)
            ctypes.memmove(lib.ggml_get_data(mask), values.ctypes.data, values.nbytes)
        out = lib.ggml_flash_attn_ext(
            context, tensor(query.float(), lib.GGML_TYPE_F32), tensor(key, narrow), tensor(value, narrow), mask,
            d**-0.5, 0.0, 0.0,
        )
        graph = lib.ggml_new_graph(context)
        lib.ggml_build_forward_expand(graph, out)

        def run():
            lib.ggml_graph_compute_with_ctx(context, graph, self.threads)
            data = ctypes.cast(lib.ggml_get_data(out), ctypes.POINTER(ctypes.c_float))
            return np.ctypeslib.as_array(data, (b, length, h, d)).transpose(0, 2, 1, 3)

        return run

    decode = forward


ALL = (Heed, PyTorch, FlexAttention, OneDnnGraph, Jax, OnnxRuntime, OpenVino, OpenVinoCache, Ggml)
PACKAGES = [
    ("onnxruntime", "onnxruntime"),
    ("onnx", "onnx"),
    ("openvino", "openvino"),
    ("jax", "jax"),
    ("ggml", "ggml-python"),
]
