"""Writes an ONNX file of linear layers with ReLU between: what tests need, without a library."""
import json
import struct


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def node(op, inputs, outputs, *attributes):
    fields = [text(1, name) for name in inputs] + [text(2, name) for name in outputs]
    fields += [text(3, f"{op}_{outputs[0]}"), text(4, op)]
    return text(1, b"".join(fields + [text(5, attribute) for attribute in attributes]))


def tensor(name, shape, values):
    dims = b"".join(number(1, d) for d in shape)
    return text(5, dims + number(2, 1) + text(8, name) + text(9, values))


def write_mlp(path, image, layers, last="Softmax"):
    """layers: (name, weight's shape, weight's bytes, bias's bytes), as in a safetensors file."""
    shape = text(1, text(2, "N")) + b"".join(text(1, number(1, d)) for d in image)
    graph = text(11, text(1, "image") + text(2, text(1, number(1, 1) + text(2, shape))))
    graph += node("Flatten", ["image"], ["x0"])
    for i, (name, shape, weight, bias) in enumerate(layers):
        end = i + 1 == len(layers)
        made = "logits" if end else f"h{i}"
        graph += node("Gemm", [f"x{i}", f"{name}.weight", f"{name}.bias"], [made],
                      text(1, "transB") + number(3, 1) + number(20, 2))
        graph += node(last if end else "Relu", [made], ["y" if end else f"x{i + 1}"])
        graph += tensor(f"{name}.weight", shape, weight) + tensor(f"{name}.bias", shape[:1], bias)
    graph += text(12, text(1, "y"))
    with open(path, "wb") as file:
        file.write(number(1, 8) + text(8, number(2, 13)) + text(7, graph))


def read_safetensors(path):
    """{name: (shape, bytes)}, and the metadata."""
    with open(path, "rb") as file:
        content = file.read()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    metadata = header.pop("__metadata__", {})
    data = content[8 + size:]
    return {name: (entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items()}, metadata
