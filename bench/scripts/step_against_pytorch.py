#!/usr/bin/env python3
"""Time of a training step (forward and backward) on this machine, beside PyTorch's.

    bench/scripts/step_against_pytorch.py [--threads=1] [--rounds=5] [--only=resnet50]
    bench/scripts/step_against_pytorch.py --device=cuda --bin=build/cuda/bin/soapstone [--trace=FOLDER]

Models of the same sizes, batches, precision and number of threads, one process at a time, in turn:
our step by `soapstone profile`, then PyTorch's written with its own modules, as users do. The
ratio is of the medians over the rounds. Debian's python3-torch is asked for by /usr/bin/python3
(--python: another); install libopenblas0-pthread too: with the reference BLAS PyTorch's products
take ten times as long.

With --device=cuda the larger models of a GPU, in tf32 and bf16 (--precision: one of them); the share
of the product rate that the device was measured to have; what micro-batches in 64 MiB gain over
measured algorithms for the whole batch; and a timeline of each model's step. A step begins with
samples and ends with gradients in the host's memory, on both sides. Where PyTorch has no CUDA our
times are printed alone.
Exit codes: 0 done, 1 a program failed, 77 there is no PyTorch (on the processor).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# Ours, PyTorch's (below), samples. The recurrent and attention models are scaled to seconds.
MODELS = {
    "alexnet": ("alexnet", 16),
    "resnet50": ("resnet50", 8),
    "rnnlm": ("rnnlm:hidden=1024", 16),
    "transformer_lm": ("transformer_lm:hidden=512,layers=4,heads=8", 2),
}
# On a GPU. gnmt is ours alone: PyTorch has no module for its attention.
CUDA_MODELS = {
    "resnet50": ("resnet50", 128),
    "rnnlm": ("rnnlm:hidden=1024", 128),
    "gnmt": ("gnmt", 64),
    "transformer_lm": ("transformer_lm:hidden=512,layers=4,heads=8", 16),
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
device, precision = sys.argv[5:7]
torch.set_num_threads(threads)
torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "float32"
if name in ("alexnet", "resnet50"):
    net = {"alexnet": alexnet, "resnet50": resnet50}[name]()
    x, y = torch.randn(samples, 3, 224, 224), torch.randint(1000, (samples,))
else:
    words, length = (10000, 40) if name == "rnnlm" else (32000, 512)
    net = Rnnlm(words, 1024) if name == "rnnlm" else TransformerLm(words, 512, 4, length, 8)
    x, y = torch.randint(words, (samples, length)), torch.randint(words, (samples * length,))
net.to(device)
on_gpu = device != "cpu"
kind = "cuda" if on_gpu else "cpu"
host = [torch.empty_like(p, device="cpu").pin_memory() for p in net.parameters()] if on_gpu else []
times = []
for _ in range(steps + 1):  # the first prepares
    begin = time.perf_counter()
    net.zero_grad(set_to_none=True)
    with torch.autocast(kind, torch.bfloat16, enabled=on_gpu and precision == "bf16"):
        loss = F.cross_entropy(net(x.to(device)), y.to(device))
    loss.backward()
    for to, p in zip(host, net.parameters()):
        to.copy_(p.grad, non_blocking=True)
    if on_gpu:
        torch.cuda.synchronize()
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


def ours(flags, model, samples, precision, convolutions="guessed", trace=None):
    command = [flags.bin, "profile", f"--model={model}", f"--batch={samples}",
               f"--threads={flags.threads}", "--seconds=2", "--json"]
    if flags.device != "cpu":
        command += [f"--device={flags.device}", f"--precision={precision}",
                    f"--convolutions={convolutions}"]
    if trace:
        command.append(f"--trace={trace}")
    return json.loads(run(command, flags.threads))


def theirs(flags, name, samples, precision):
    return float(run([flags.python, "-c", PYTORCH, name, str(samples), str(flags.threads),
                      "3" if flags.device == "cpu" else "20", flags.device, precision],
                     flags.threads))


def has_torch(flags):
    asked = "import torch" if flags.device == "cpu" else (
        "import torch; assert torch.cuda.is_available()")
    return subprocess.run([flags.python, "-c", asked], capture_output=True).returncode == 0


def median_of(rounds, measure):
    return statistics.median(measure() for _ in range(rounds))


def rate_share(profile):
    """Of the product rate measured: the step's multiplications and additions a second."""
    flops = sum(o["forward_flops"] + o["backward_flops"] for o in profile["operators"])
    return flops / profile["step_ns"] / profile["gflops_peak"]


def slowest(profile):
    took = {o["name"]: o["forward_ns"] + o["backward_ns"] for o in profile["operators"]}
    total = sum(took.values()) or 1
    return ", ".join(f"{name} {took[name] / total:.0%}"
                     for name in sorted(took, key=took.get, reverse=True)[:3])


def line(name, samples, precision, mine_s, theirs_s, profile, note=""):
    other = f"{theirs_s * 1e3:11.1f} {mine_s / theirs_s:6.2f}" if theirs_s else f"{'-':>11} {'-':>6}"
    return (f"{name:16} {samples:7} {precision:9} {mine_s * 1e3:9.2f} {other} "
            f"{rate_share(profile):6.1%}  {slowest(profile)}{note}")


def compare(flags, name, model, samples, precision, torch):
    profiles = []
    def mine():
        profiles.append(ours(flags, model, samples, precision))
        return profiles[-1]["step_ns"] / 1e9
    pairs = [(mine(), theirs(flags, name, samples, precision) if torch else 0)
             for _ in range(flags.rounds)]
    a, b = (statistics.median(times) for times in zip(*pairs))
    note = ""
    if flags.device != "cpu":
        measured, micro = (median_of(flags.rounds, lambda how=how: ours(
            flags, model, samples, precision, how)["step_ns"] / 1e6)
            for how in ("measured", "micro"))
        note = f"; algorithms measured {measured:.2f} ms, with micro-batches {micro:.2f} ms"
        if flags.trace:
            path = pathlib.Path(flags.trace) / f"{name}-{precision}.json"
            ours(flags, model, samples, precision, "micro", path)
            note += f"; timeline {path}"
    print(line(name, samples, precision, a, b, profiles[-1], note), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=sorted(MODELS | CUDA_MODELS))
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin/soapstone"))
    parser.add_argument("--python", default="/usr/bin/python3", help="that has torch")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--batch", type=int, help="in place of each model's own")
    parser.add_argument("--precision", choices=("float32", "tf32", "bf16"))
    parser.add_argument("--trace", help="a folder for timelines of a device's steps")
    flags = parser.parse_args()
    torch = has_torch(flags)
    if not torch and flags.device == "cpu":
        print(f"NOT RUN: {flags.python} has no torch; apt-get install python3-torch", file=sys.stderr)
        return 77
    if not torch:
        print(f"{flags.python} has no torch with CUDA: our times alone", file=sys.stderr)
    if flags.trace:
        pathlib.Path(flags.trace).mkdir(parents=True, exist_ok=True)
    print(f"{'model':16} {'samples':>7} {'precision':9} {'ours, ms':>9} {'PyTorch, ms':>11} {'ratio':>6} "
          f"{'rate':>6}  slowest operators")
    own = ("float32",) if flags.device == "cpu" else ("tf32", "bf16")
    for name, (model, samples) in (MODELS if flags.device == "cpu" else CUDA_MODELS).items():
        if flags.only not in (None, name):
            continue
        for precision in (flags.precision,) if flags.precision else own:
            compare(flags, name, model, flags.batch or samples, precision, torch and name != "gnmt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
