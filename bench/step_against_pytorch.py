#!/usr/bin/env python3
"""Time of a training step (forward and backward) on the processor, beside PyTorch's.

    bench/step_against_pytorch.py [--threads=1] [--rounds=5] [--only=resnet50]

Models in float32, the same sizes, batches and number of threads, one process at a time, in turn:
our step by `soapstone profile`, then PyTorch's written with its own modules, as users do. The
ratio is of the medians over the rounds. Debian's python3-torch is asked for by /usr/bin/python3;
install libopenblas0-pthread too: with the reference BLAS PyTorch's products take ten times as long.
Exit codes: 0 done, 1 a program failed, 77 there is no PyTorch.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Ours, PyTorch's (below), samples. The recurrent and attention models are scaled to seconds.
MODELS = {
    "alexnet": ("alexnet", 16),
    "resnet50": ("resnet50", 8),
    "rnnlm": ("rnnlm:hidden=1024", 16),
    "transformer_lm": ("transformer_lm:hidden=512,layers=4,heads=8", 2),
}

PYTORCH = r'''
import sys, time
import torch
from torch import nn
import torch.nn.functional as F

class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.c1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.c2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.c3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.n1, self.n2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.n3 = nn.BatchNorm2d(4 * width)
        self.short = nn.Identity()
        if stride != 1 or inputs != 4 * width:
            self.short = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False),
                                       nn.BatchNorm2d(4 * width))
    def forward(self, x):
        y = F.relu(self.n1(self.c1(x)), inplace=True)
        y = F.relu(self.n2(self.c2(y)), inplace=True)
        return F.relu(self.n3(self.c3(y)) + self.short(x), inplace=True)

def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
              nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))

def alexnet():
    relu = lambda: nn.ReLU(True)
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), relu(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, 1, 2), relu(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, 1, 1), relu(), nn.Conv2d(384, 256, 3, 1, 1), relu(),
        nn.Conv2d(256, 256, 3, 1, 1), relu(), nn.MaxPool2d(3, 2), nn.Flatten(),
        nn.Dropout(.5), nn.Linear(9216, 4096), relu(), nn.Dropout(.5), nn.Linear(4096, 4096),
        relu(), nn.Linear(4096, 1000))

class Rnnlm(nn.Module):
    def __init__(self, words, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.lstm = nn.LSTM(hidden, hidden, 2, batch_first=True)
        self.fc = nn.Linear(hidden, words)
    def forward(self, x):
        return self.fc(self.lstm(self.embedding(x))[0]).flatten(0, 1)

class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(dim), nn.LayerNorm(dim), heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
    def forward(self, x):
        n, t, d = x.shape
        y = self.n1(x)
        q, k, v = (p(y).view(n, t, self.heads, -1).transpose(1, 2)
                   for p in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / (d // self.heads) ** .5
        unseen = torch.ones(t, t, dtype=torch.bool).triu(1)
        y = scores.masked_fill(unseen, float("-inf")).softmax(-1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(n, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))

class TransformerLm(nn.Module):
    def __init__(self, words, dim, layers, steps, heads):
        super().__init__()
        self.embedding = nn.Embedding(words, dim)
        self.positions = nn.Parameter(torch.randn(steps, dim) * .02)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.norm, self.fc = nn.LayerNorm(dim), nn.Linear(dim, words)
    def forward(self, x):
        x = self.blocks(self.embedding(x) + self.positions)
        return self.fc(self.norm(x)).flatten(0, 1)

name, samples, threads, steps = sys.argv[1], *map(int, sys.argv[2:5])
torch.set_num_threads(threads)
torch.manual_seed(1)
if name in ("alexnet", "resnet50"):
    net = {"alexnet": alexnet, "resnet50": resnet50}[name]()
    x, y = torch.randn(samples, 3, 224, 224), torch.randint(1000, (samples,))
else:
    words, length = (10000, 40) if name == "rnnlm" else (32000, 512)
    net = Rnnlm(words, 1024) if name == "rnnlm" else TransformerLm(words, 512, 4, length, 8)
    x, y = torch.randint(words, (samples, length)), torch.randint(words, (samples * length,))
times = []
for _ in range(steps + 1):  # the first prepares
    begin = time.perf_counter()
    net.zero_grad(set_to_none=True)
    F.cross_entropy(net(x), y).backward()
    times.append(time.perf_counter() - begin)
print(sorted(times[1:])[steps // 2])
'''


def run(command, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads),
                       OPENBLAS_NUM_THREADS=str(threads))
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:2]))} failed: {result.stderr.strip()[-500:]}")
    return result.stdout


def ours(program, model, samples, threads):
    profile = json.loads(run([program, "profile", f"--model={model}", f"--batch={samples}",
                              f"--threads={threads}", "--seconds=2", "--json"], threads))
    return profile["step_ns"] / 1e9, profile["operators"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=sorted(MODELS))
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin/soapstone"))
    flags = parser.parse_args()
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode:
        print("NOT RUN: /usr/bin/python3 has no torch; apt-get install python3-torch", file=sys.stderr)
        return 77
    print(f"{'model':16} {'samples':>7} {'ours, ms':>9} {'PyTorch, ms':>11} {'ratio':>6}  slowest operators")
    for name, (model, samples) in MODELS.items():
        if flags.only not in (None, name):
            continue
        mine, theirs, operators = [], [], []
        for _ in range(flags.rounds):
            seconds, operators = ours(flags.bin, model, samples, flags.threads)
            mine.append(seconds)
            theirs.append(float(run(["/usr/bin/python3", "-c", PYTORCH, name, str(samples),
                                     str(flags.threads), "3"], flags.threads)))
        total = sum(o["forward_ns"] + o["backward_ns"] for o in operators)
        slowest = sorted(operators, key=lambda o: -o["forward_ns"] - o["backward_ns"])[:3]
        shares = ", ".join(f"{o['name']} {(o['forward_ns'] + o['backward_ns']) / total:.0%}"
                           for o in slowest)
        a, b = statistics.median(mine), statistics.median(theirs)
        print(f"{name:16} {samples:7} {a * 1e3:9.1f} {b * 1e3:11.1f} {a / b:6.2f}  {shares}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
