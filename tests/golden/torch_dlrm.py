"""dlrm in PyTorch, from its paper: reads the samples by itself, and takes tensors and rows from what
dlrm_step wrote. Nothing here is made from our graph.
"""
import math
import random

import torch
import torch.nn.functional as F

DENSE, CATEGORICAL = 3, 4


def write_samples(path, samples, seed):
    """A file of format criteo: some cells are empty, some have several categories."""
    draw = random.Random(seed)
    with open(path, "w") as file:
        for _ in range(samples):
            numbers = [draw.choice(["", "-1", str(draw.randrange(100))]) for _ in range(DENSE)]
            categories = [",".join(f"{draw.randrange(6):x}" for _ in range(draw.choice([1, 1, 3])))
                          if draw.random() > 0.2 else "" for _ in range(CATEGORICAL)]
            print(draw.randrange(2), *numbers, *categories, sep="\t", file=file)


def read_samples(path):
    """labels [N], numbers [N, DENSE], and by field the keys of each sample."""
    labels, numbers, fields = [], [], [[] for _ in range(CATEGORICAL)]
    with open(path) as file:
        for line in file:
            label, *cells = line.rstrip("\n").split("\t")
            labels.append(float(label))
            numbers.append([math.log(1 + max(int(c), 0)) if c else 0.0 for c in cells[:DENSE]])
            for field, cell in zip(fields, cells[DENSE:]):
                field.append([int(c, 16) + 1 for c in cell.split(",")] if cell else [0])
    return torch.tensor(labels), torch.tensor(numbers), fields


class DlrmStep:
    """The step: logits, loss and {name: gradient}, of tensors and rows. pairs_of, beside: which
    products there are; each of them once, those of a vector with all before it together."""

    def __init__(self, path, tensors, pairs_of=torch.tril_indices, beside=-1):
        self.tensors = {name: torch.nn.Parameter(torch.from_numpy(values.copy()))
                        for name, values in tensors.items()
                        if not name.startswith("grad.") and not name.endswith(".keys")
                        and name not in ("loss", "logits")}
        labels, numbers, fields = read_samples(path)
        vectors = [self.mlp("bottom", numbers, last_relu=True)]
        for f, of_samples in enumerate(fields):
            place = {int(key): row for row, key in enumerate(tensors[f"embedding.{f}.keys"])}
            rows = self.tensors[f"embedding.{f}.rows"]
            vectors.append(torch.stack([rows[[place[key] for key in keys]].sum(0)
                                        for keys in of_samples]))
        z = torch.stack(vectors, 1)
        products = torch.bmm(z, z.transpose(1, 2))
        first, second = pairs_of(len(vectors), len(vectors), beside)
        pairs = products[:, first, second]
        logits = self.mlp("top", torch.cat([vectors[0], pairs], 1), last_relu=False)
        # The paper's loss, of one number.
        difference = logits[:, 1] - logits[:, 0]
        loss = F.binary_cross_entropy_with_logits(difference, labels, reduction="sum")
        loss.backward()
        self.logits, self.loss = logits.detach(), loss.detach().view(1)
        self.gradients = {name: p.grad for name, p in self.tensors.items()}

    def mlp(self, name, x, last_relu):
        layers = sum(key.startswith(name + ".") and key.endswith(".weight")
                     for key in self.tensors)
        for layer in range(layers):
            x = F.linear(x, self.tensors[f"{name}.{layer}.weight"],
                         self.tensors[f"{name}.{layer}.bias"])
            if last_relu or layer + 1 < layers:
                x = F.relu(x)
        return x
