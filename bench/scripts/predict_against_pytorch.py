#!/usr/bin/env python3
"""`soapstone predict` beside PyTorch with the same values, on one thread: how far their probabilities are apart, and
whose samples a second are more.

    bench/scripts/predict_against_pytorch.py [--rounds=5] [--only=lenet5|logistic|transformer_lm]

Each model is trained for a moment first: lenet5 on the digits, which are then predicted as a folder of PNGs; logistic
regression on lines like a9a's (libsvm); transformer_lm:tiny on the project's pages, byte by byte, which then continues
a text by the likeliest tokens. PyTorch's models are those of tests/golden/torch_models.py, in inference mode; of
logistic regression an EmbeddingBag. One process at a time, in turn; ratios are PyTorch's seconds by ours, of medians
over the rounds: above 1 we are faster. `computed` is the model alone, from samples in memory to probabilities, its
first step included on both sides; `then` is that without the first batch, for which both make their kernels;
`with reading` begins at the files. Of PNGs PyTorch's side reads with Pillow
(python3-pil); without it that ratio is left out. Each token of a text is a pass over the last tokens on both sides.
Debian's python3-torch is asked for by /usr/bin/python3 (--python: another); libopenblas0-pthread too.
Exit codes: 0 done, 1 a program failed or probabilities are more than 1e-4 apart, 77 there is no PyTorch.
"""
import argparse
import csv
import glob
import io
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests/predict"))
APART_MAX = 1e-4
COPIES = 4        # of the 1797 digits
LINES = 20000
PROMPT, TOKENS = "A policy decides ", 200

PYTORCH = r'''
import json, sys, time
import numpy, torch
import torch.nn.functional as F
root, what, model, samples, out = sys.argv[1:6]
sys.path.append(root + "/tests/golden")
import torch_models
from torch_step import read_safetensors
torch.set_num_threads(1)
tensors, metadata = read_safetensors(model)
reading = json.loads(metadata.get("reading", "{}"))
read = computed = first = 0
seconds = time.perf_counter

def in_batches(inputs, logits, size=256):
    global computed, first
    size = -(-len(inputs) // -(-len(inputs) // size))  # as we divide them: all of one size
    begin = seconds()
    said = []
    for at in range(0, len(inputs), size):
        said.append(F.softmax(logits(inputs[at:at + size]), -1))
        first = first or seconds() - begin
    computed += seconds() - begin
    return torch.cat(said)

def lenet5():
    global read
    net = torch_models.Net(tensors, torch.float32)
    begin = seconds()
    import glob
    names = sorted(glob.glob(samples + "/*.png"))
    try:
        from PIL import Image
        images = [numpy.asarray(Image.open(name)) for name in names]
        read = seconds() - begin
    except ImportError:
        images, read = numpy.fromfile(samples + "/../pixels", numpy.uint8).reshape(-1, 8, 8), None
    x = torch.from_numpy(numpy.stack(images)).float().div(255).unsqueeze(1)
    return in_batches(x, lambda part: torch_models.lenet5(net, {"input": part}, True))

def logistic():
    global read, computed
    begin = seconds()
    keys, starts = [], []
    with open(samples) as lines:
        for line in lines:
            starts.append(len(keys))
            keys.extend(int(cell.split(":")[0]) for cell in line.split()[1:])
    keys, starts = torch.tensor(keys), torch.tensor(starts)
    read = seconds() - begin
    weights = torch.zeros(max(int(keys.max()), int(tensors["weight.keys"].max())) + 1, 1)
    weights[torch.from_numpy(tensors["weight.keys"].copy())] = torch.from_numpy(tensors["weight.rows"].copy())
    begin = seconds()
    z = F.embedding_bag(keys, weights, starts, mode="sum") + weights[0]
    p = torch.sigmoid(z)
    computed = seconds() - begin
    return torch.cat([1 - p, p], 1)

def transformer_lm():
    global computed
    net = torch_models.Net(tensors, torch.float32)
    said = json.load(open(samples))
    tokens, steps, probabilities = list(said["prompt"].encode()), reading["length"], []
    begin = seconds()
    for token in said["tokens"]:
        window = torch.tensor([tokens[-steps:]])
        # A shorter text than the model's takes the positions that it has.
        short = torch_models.Net.__new__(torch_models.Net)
        short.__dict__ = dict(net.__dict__, parameters=dict(
            net.parameters, **{"positions.weight": net["positions.weight"][:window.shape[1]]}))
        p = F.softmax(torch_models.transformer_lm(short, {"tokens": window}, True)[0, -1], -1)
        probabilities.append([float(p[token["token"]]), float(p.max())])
        tokens.append(token["token"])
    computed = seconds() - begin
    return torch.tensor(probabilities)

with torch.inference_mode():
    said = globals()[what]()
numpy.save(out, said.numpy())
print(json.dumps({"read": read, "computed": computed, "first": first}))
'''


class Bench:
    def __init__(self, flags, folder):
        self.flags, self.folder = flags, folder
        self.soapstone = os.path.join(flags.bin, "soapstone")

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, command):
        environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900, cwd=ROOT)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command[:2]))} failed: {(done.stderr or done.stdout).strip()[-800:]}")
        return done

    def train(self, name, *flags):
        model = self.path(f"{name}.safetensors")
        self.run([self.soapstone, "train", "--policy=bsp", "--workers=1", "--servers=1", "--batch=32",
                  "--http=off", f"--log_dir={self.path('logs')}", f"--model_path={model}", *flags])
        return model

    def ours(self, *flags):
        done = self.run([self.soapstone, "predict", *flags])
        took = re.search(r"(\d+) \w+: read in ([0-9.]+) s, computed in ([0-9.]+) s, \d+ a second"
                         r"(?:, (\d+) after the first (\d+))?", done.stderr)
        said = {"read": float(took[2]), "computed": float(took[3]), "first": 0}
        if took[4]:
            said["first"] = said["computed"] - (int(took[1]) - int(took[5])) / int(took[4])
        return done.stdout, said

    def theirs(self, what, model, samples):
        out = self.path("torch.npy")
        done = self.run([self.flags.python, "-c", PYTORCH, str(ROOT), what, model, samples, out])
        return self.run([self.flags.python, "-c", "import json, numpy, sys; "
                         "print(json.dumps(numpy.load(sys.argv[1]).tolist()))", out]), json.loads(done.stdout)

    def probabilities(self, text, classes):
        return [[float(row[f"p_{k}"]) for k in classes] for row in csv.DictReader(io.StringIO(text))]

    def compare(self, what, model, samples, *flags, parse):
        pairs, apart, count = [], 0, 0
        for _ in range(self.flags.rounds):
            text, mine = self.ours(f"--model_file={model}", *flags)
            given = samples
            if samples is None:  # what we have drawn
                given = self.path("said.json")
                pathlib.Path(given).write_text(text)
            said, other = self.theirs(what, model, given)
            a, b = parse(text), json.loads(said.stdout)
            count = len(a)
            assert len(a) == len(b) > 0, (len(a), len(b))
            apart = max(apart, max(abs(x - y) for p, q in zip(a, b) for x, y in zip(p, q)))
            pairs.append((mine, other))
        ratio = self.ratio(pairs, lambda took: took["computed"])
        then = self.ratio(pairs, lambda took: took["computed"] - took["first"]) if pairs[0][0]["first"] else None
        reads = all(other["read"] for _, other in pairs)
        with_reading = self.ratio(pairs, lambda took: took["computed"] + took["read"]) if reads else None
        rate = count / statistics.median(mine["computed"] for mine, _ in pairs)
        print(f"{what:15} {count:7} {apart:12.2g} {rate:12,.0f} {ratio:9.2f} {self.shown(then):>6} "
              f"{self.shown(with_reading):>13}", flush=True)
        return apart <= APART_MAX

    @staticmethod
    def shown(ratio):
        return "-" if ratio is None else f"{ratio:.2f}"

    @staticmethod
    def ratio(pairs, of):
        return statistics.median(of(b) for _, b in pairs) / statistics.median(of(a) for a, _ in pairs)

    def lenet5(self):
        from predicting import SIDE, digits, png
        model = self.train("lenet5", "--model=lenet5", "--epochs=4", "--optimizer=momentum:lr=0.03,mu=0.9")
        folder = self.path("images")
        os.makedirs(folder)
        images = [[round(v * 255 / 16) for v in values] for values, _ in digits()] * COPIES
        for i, pixels in enumerate(images):
            pathlib.Path(folder, f"{i:05}.png").write_bytes(png(pixels, SIDE, SIDE))
        pathlib.Path(self.path("pixels")).write_bytes(b"".join(map(bytes, images)))
        return self.compare("lenet5", model, folder, f"--images={folder}", "--probabilities",
                            parse=lambda text: self.probabilities(text, range(10)))

    def logistic(self):
        from predicting import write_libsvm
        lines = write_libsvm(self.path("lines"), LINES, 1)
        model = self.train("logistic", "--model=logistic", "--data_format=libsvm", f"--data_path={lines}",
                           "--epochs=1", "--optimizer=ftrl:lr=0.5")
        return self.compare("logistic", model, lines, f"--data={lines}", "--probabilities",
                            parse=lambda text: self.probabilities(text, ("-1", "1")))

    def transformer_lm(self):
        text = self.path("text")
        pages = sorted(glob.glob(str(ROOT / "docs/*.md")))
        pathlib.Path(text).write_bytes(b"".join(pathlib.Path(page).read_bytes() for page in pages)[:200_000])
        model = self.train("lm", "--model=transformer_lm:tiny", "--data_format=bytes", f"--data_path={text}",
                           "--length=64", "--epochs=1", "--optimizer=adam:lr=1e-3")
        # The token that we took: its probability here, and there, where it is the likeliest too.
        return self.compare("transformer_lm", model, None, f"--text={PROMPT}", f"--length={TOKENS}", "--format=json",
                            parse=lambda said: [[t["probability"]] * 2 for t in json.loads(said)["tokens"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = ("lenet5", "logistic", "transformer_lm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=models)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"), help="folder of the programs")
    parser.add_argument("--python", default="/usr/bin/python3", help="that has torch")
    flags = parser.parse_args()
    if subprocess.run([flags.python, "-c", "import torch"], capture_output=True).returncode != 0:
        print(f"NOT RUN: {flags.python} has no torch; apt-get install python3-torch", file=sys.stderr)
        return 77
    os.environ.setdefault("SOAPSTONE_BIN", flags.bin)
    os.environ.setdefault("SOAPSTONE_SOURCE", str(ROOT))
    print(f"{'model':15} {'samples':>7} {'apart':>12} {'ours a second':>12} {'computed':>9} {'then':>6} {'with reading':>13}")
    with tempfile.TemporaryDirectory(prefix="soapstone-") as folder:
        bench = Bench(flags, folder)
        near = [getattr(bench, name)() for name in models if flags.only in (None, name)]
    return 0 if all(near) else 1


if __name__ == "__main__":
    sys.exit(main())
