"""One training step of a model, as model_step wrote it and as PyTorch computes it from the same
parameters and inputs, and how far they are apart.
"""
import json

import numpy
import torch
import torch.nn.functional as F

import torch_models

# Their true gradient is zero (a softmax over keys does not see what all keys have in common): what
# is there is rounding, measured against the gradient of the parameter beside it.
ZERO_GRADIENT = {".attention.key.bias": ".attention.query.bias"}
BLOCK = 1 << 22  # elements taken to double at once


def read_safetensors(path):
    """Returns ({name: array}, metadata); arrays are mapped from the file, private to the process."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    metadata = header.pop("__metadata__", {})
    data = numpy.memmap(path, numpy.uint8, "c", offset=8 + size)
    types = {"F32": numpy.float32, "U64": numpy.int64}  # ids: -1 is written as 2^64 - 1
    return {name: data[slice(*tensor["data_offsets"])].view(types[tensor["dtype"]])
            .reshape(tensor["shape"]) for name, tensor in header.items()}, metadata


class Step:
    """A step as our program ran it."""

    def __init__(self, path):
        tensors, metadata = read_safetensors(path)
        self.name, _, options = metadata["model"].partition(":")
        self.tiny = "tiny" in options.split(",")
        self.inputs, self.gradients, self.outputs, self.parameters = {}, {}, {}, {}
        kinds = {"input": self.inputs, "grad": self.gradients, "output": self.outputs}
        for name, values in tensors.items():
            kind, _, rest = name.partition(".")
            if name in ("logits", "loss", "correct"):
                setattr(self, name, torch.from_numpy(values))
            elif kind in kinds:
                kinds[kind][rest] = torch.from_numpy(values)
            else:
                self.parameters[name] = values
        assert self.parameters.keys() == self.gradients.keys(), "a gradient for each parameter"


class TorchStep:
    """The same step in PyTorch. guided: decide at kinks as the step did."""

    def __init__(self, step, dtype=torch.float32, guided=False, backward=True):
        self.net = torch_models.Net(step.parameters, dtype, step.outputs if guided else None)
        inputs = {name: x.to(dtype) if x.is_floating_point() else x
                  for name, x in step.inputs.items()}
        logits = torch_models.MODELS[step.name](self.net, inputs, step.tiny)
        labels = inputs["labels"]
        loss = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=-1,
                               reduction="none").view(labels.shape[0], -1)
        present = (labels >= 0).view(labels.shape[0], -1)
        correct = (logits.argmax(-1) == labels).view(labels.shape[0], -1)
        total = (loss.sum(1) / present.sum(1)).sum()
        if backward:
            total.backward()
        self.loss = total.detach().view(1)
        self.logits = logits.detach()
        self.correct = (correct.sum(1) / present.sum(1)).sum().view(1)
        self.gradients = {name: p.grad for name, p in self.net.parameters.items()
                          if p.grad is not None}
        if backward:
            self.gradients.update(self.net.statistics)


def norm(x):
    """Euclidean norm, summed in double."""
    return sum(float(block.double().square().sum()) for block in x.flatten().split(BLOCK)) ** 0.5


def distance(a, b):
    assert a.shape == b.shape, (a.shape, b.shape)
    pairs = zip(a.flatten().split(BLOCK), b.flatten().split(BLOCK))
    return sum(float((x.double() - y.double()).square().sum()) for x, y in pairs) ** 0.5


def errors(ours, theirs):
    """{tensor: ||ours - theirs|| / ||theirs||} of logits, loss and every gradient."""
    found = {name: distance(getattr(ours, name), getattr(theirs, name))
             / norm(getattr(theirs, name)) for name in ("logits", "loss")}
    for name, gradient in theirs.gradients.items():
        like = name
        for zero, beside in ZERO_GRADIENT.items():
            if name.endswith(zero):
                like = name[:-len(zero)] + beside
        scale = norm(theirs.gradients[like])
        found["grad." + name] = distance(ours.gradients[name], gradient) / max(scale, 1e-30)
    return found
