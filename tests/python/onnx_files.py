"""Reads the protobuf files of ONNX test cases: just the fields that a test of one node needs."""

import struct

import numpy as np

# onnx.proto, TensorProto.DataType
TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
BFLOAT16 = 16


def fields(data):
    """(number, value) of each field of a message: whole numbers, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value - (1 << 64) if value >> 63 else value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        elif kind == 2:
            length = varint()
            value = data[at : at + length]
            at += length
        else:
            length = {1: 8, 5: 4}[kind]
            value = data[at : at + length]
            at += length
        yield key >> 3, value


def packed(values, code):
    """Repeated numbers, each alone or many in one field."""
    found = []
    for value in values:
        if not isinstance(value, bytes):
            found.append(value)
        elif code == "varint":
            found += [v for _, v in fields(b"".join(b"\x08" + part for part in split_varints(value)))]
        else:
            found += [x[0] for x in struct.iter_unpack("<" + code, value)]
    return found


def split_varints(data):
    start = 0
    for at, byte in enumerate(data):
        if byte < 128:
            yield data[start : at + 1]
            start = at + 1


def collect(data):
    found = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def tensor(data):
    """An array, and whether it was bfloat16 (then widened to float32)."""
    message = collect(data)
    shape = packed(message.get(1, []), "varint")
    kind = message[2][0]
    if 9 in message:
        raw = message[9][0]
        if kind == BFLOAT16:
            values = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, TYPES[kind])
    elif 4 in message:
        values = np.array(packed(message[4], "f"), np.float32)
    elif 7 in message:
        values = np.array(packed(message[7], "varint"), np.int64)
    else:
        whole = np.array(packed(message.get(5, []), "varint"), np.int64)
        if kind == 10:
            values = whole.astype(np.uint16).view(np.float16)
        elif kind == BFLOAT16:
            values = (whole.astype(np.uint32) << 16).view(np.float32)
        else:
            values = whole.astype(TYPES[kind])
    return values.reshape(shape), kind == BFLOAT16


def attributes(node):
    found = {}
    for data in node.get(5, []):
        message = collect(data)
        name = message[1][0].decode()
        if 2 in message:
            found[name] = struct.unpack("<f", message[2][0])[0]
        elif 3 in message:
            found[name] = message[3][0]
        elif 4 in message:
            found[name] = message[4][0].decode()
        else:
            found[name] = message
    return found


def case(folder):
    """The nodes of the graph, the named inputs and the expected outputs, in the graph's order."""
    graph = collect(collect((folder / "model.onnx").read_bytes())[7][0])
    names = {number: [collect(v)[1][0].decode() for v in graph.get(number, [])] for number in (11, 12)}
    data = folder / "test_data_set_0"
    if not data.is_dir():
        data = folder
    inputs = {name: tensor((data / f"input_{n}.pb").read_bytes()) for n, name in enumerate(names[11])}
    outputs = {name: tensor((data / f"output_{n}.pb").read_bytes()) for n, name in enumerate(names[12])}
    return [collect(node) for node in graph[1]], inputs, outputs
