#!/usr/bin/env python3
"""Whether `soapstone train --strategy=auto` is ever slower than the job without a strategy: real processes.

    bench/scripts/auto_against_data.py [--bin=build/release/bin] [--models=lenet5,gnmt:tiny] [--workers=2] [--turns=4]
    bench/scripts/auto_against_data.py --models=alexnet,resnet50,rnnlm,gnmt --batch=16 --steps=8
    bench/scripts/auto_against_data.py --models=transformer_lm --batch=2 --steps=5

Each model trains on data that it can take (the project's digits, a text or images that are written for it) with and
without --strategy=auto by turns: A B B A. Prints for each the samples a second of both (medians), what was chosen, and
the ratio. --machine gives a machine file in place of this machine, which the links here are not then.
Exit code 1: a strategy that was chosen has less than --at_least of data parallelism's rate.
"""
import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DIGITS = ["--data_path=" + os.path.join(SOURCE, "data", "digits", "digits.csv.gz")]
PATIENCE_S = 900
SAID = "--strategy=auto: "


def text(folder, vocabulary=100, length=20):
    """Words, a few of which are frequent."""
    path = os.path.join(folder, f"words{vocabulary}.txt")
    draw = random.Random(1)
    with open(path, "w") as file:
        for _ in range(4000):
            file.write(" ".join(f"w{int(draw.expovariate(10 / vocabulary))}" for _ in range(20)) + "\n")
    return ["--data_format=words", f"--data_path={path}", f"--vocabulary={vocabulary}", f"--length={length}"]


def images(folder, side):
    """Two classes of random bytes."""
    root = os.path.join(folder, f"images{side}")
    draw = random.Random(1)
    for label in ("a", "b"):
        os.makedirs(os.path.join(root, label), exist_ok=True)
        for i in range(160):
            with open(os.path.join(root, label, f"{i}.raw"), "wb") as file:
                file.write(draw.randbytes(3 * side * side))
    return ["--data_format=images", f"--data_path={root}", f"--height={side}", f"--width={side}", "--channels=3"]


def copies(_, more=()):
    return ["--data_format=copy", "--samples=2000", *more]


DATA = {
    "softmax": lambda folder: DIGITS,
    "mlp": lambda folder: DIGITS,
    "lenet5": lambda folder: DIGITS,
    "alexnet:tiny": lambda folder: images(folder, 32),
    "resnet50:tiny": lambda folder: images(folder, 32),
    "inception_v3:tiny": lambda folder: images(folder, 80),
    "nasnet_a:tiny": lambda folder: images(folder, 32) + ["--optimizer=sgd:lr=0.0001"],
    "rnnlm:tiny": text,
    "gnmt:tiny": copies,
    "transformer_lm:tiny": text,
}
FULL = {
    "alexnet": lambda folder: images(folder, 224),
    "resnet50": lambda folder: images(folder, 224) + ["--optimizer=sgd:lr=0.0001"],
    "rnnlm": lambda folder: text(folder, 10000, 40),
    "gnmt": lambda folder: copies(folder, ["--vocabulary=32000", "--length=40"]),
    "transformer_lm": lambda folder: text(folder, 10000, 512),
}


class Bench:

    def __init__(self, flags, folder):
        self.flags = flags
        self.folder = folder

    def run(self, model, auto):
        """(samples a second, what was said of the strategy)."""
        command = [os.path.join(self.flags.bin, "soapstone"), "train", f"--model={model}", *(DATA | FULL)[model](self.folder),
                   f"--workers={self.flags.workers}", f"--batch={self.flags.batch}", f"--epochs={self.flags.epochs}",
                   "--seed=1", "--evaluation=none", f"--log_dir={self.folder}/logs"]
        command += [f"--steps={self.flags.steps}"] if self.flags.steps else []
        if auto:
            command += ["--strategy=auto", f"--plan_budget={self.flags.plan_budget}"]
            command += [f"--machine={self.flags.machine}"] if self.flags.machine else []
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        rate = re.search(r"^ +samples/s +([\d,.]+)", done.stdout, re.M)
        if done.returncode != 0 or not rate:
            raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
        said = [line.split(SAID, 1)[1] for line in done.stderr.splitlines() if SAID in line]
        return float(rate.group(1).replace(",", "")), said[-1] if said else ""

    def compare(self, model):
        """Whether auto does: it stayed whole, or is fast enough."""
        rates = {True: [], False: []}
        chosen = []
        for turn in range(self.flags.turns):
            for auto in ((False, True) if turn % 2 == 0 else (True, False)):
                rate, said = self.run(model, auto)
                rates[auto].append(rate)
                chosen += [said] if auto else []
        whole, found = (statistics.median(rates[auto]) for auto in (False, True))
        split = [said for said in chosen if not said.startswith("without a strategy")]
        print(f"{model:20} {whole:10.1f} {found:10.1f} {found / whole:6.3f}  {len(split)} of {len(chosen)} split: "
              f"{(split or chosen)[-1]}", flush=True)
        return not split or found >= self.flags.at_least * whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(SOURCE, "build", "release", "bin"))
    parser.add_argument("--models", default=",".join(DATA))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="of a run, at most [those of --epochs]")
    parser.add_argument("--turns", type=int, default=2, help="runs of each; even: A B B A")
    parser.add_argument("--plan_budget", default="10s")
    parser.add_argument("--machine", default="")
    parser.add_argument("--at_least", type=float, default=.98)
    flags = parser.parse_args()
    models = flags.models.split(",")
    unknown = [model for model in models if model not in DATA | FULL]
    if unknown:
        parser.error(f"no data for {', '.join(unknown)}; there are {', '.join(DATA | FULL)}")
    folder = tempfile.mkdtemp(prefix="soapstone-auto-")
    try:
        bench = Bench(flags, folder)
        print(f"{'model':20} {'whole':>10} {'auto':>10} {'ratio':>6}  (samples/s)")
        return 0 if all([bench.compare(model) for model in models]) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
