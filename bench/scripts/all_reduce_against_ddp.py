#!/usr/bin/env python3
"""AlexNet's data parallelism on this machine: through one server, by all-reduce, and by PyTorch's DDP over gloo.

    bench/scripts/all_reduce_against_ddp.py [--bin=build/release/bin] [--workers=2] [--batch=32] [--steps=12] [--pairs=3]

A worker has one thread. The ways take turns, there and back. Prints for each the samples a second (median, quartiles)
and, pair by pair, the ratios of all-reduce to the other two. Needs Debian's python3-torch for DDP.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

from strategy_on_shaped_links import DDP, PATIENCE_S, PYTHON, Trial

JOB = """
model: "alexnet"
data {{ {data} }}
policy: "{policy}"
training {{ epochs: 1 batch: {batch} micro_batches: {workers} seed: 1 optimizer: "sgd:lr=0.001" }}
cluster {{ servers: 1 workers: {workers} heartbeat_timeout_s: 30 threads: 1 }}
"""


class Here(Trial):
    """The same without namespaces: whatever carries most between processes of one machine."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.make_data()

    def train(self, policy):
        path = f"{self.folder}/{policy}.textproto"
        with open(path, "w") as file:
            file.write(JOB.format(data=self.data, policy=policy, batch=self.args.batch, workers=self.args.workers))
        done = subprocess.run([f"{self.args.bin}/soapstone", "train", f"--config={path}", f"--log_dir={self.folder}/logs"],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        rate = re.search(r"^ +samples/s +([\d,.]+) ", done.stdout, re.M)
        if done.returncode != 0 or not rate:
            sys.exit(f"soapstone train ended with {done.returncode}: {done.stderr}")
        return float(rate[1].replace(",", ""))

    def ddp(self):
        environment = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        sizes = [str(n) for n in (self.args.batch, self.args.steps, self.args.side)]
        processes = [subprocess.Popen([PYTHON, "-c", DDP, str(i), str(self.args.workers), "127.0.0.1", *sizes],
                                      stdout=subprocess.PIPE, text=True, env=environment)
                     for i in range(self.args.workers)]
        try:
            outs = [process.communicate(timeout=PATIENCE_S)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        if any(process.returncode for process in processes):
            sys.exit("DDP ended early: python3-torch is needed, with gloo")
        return float(outs[0])


def spread(values):
    if len(values) < 2:
        return f"{values[0]:.2f}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.2f} [{low:.2f} {high:.2f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32, help="samples a step, of all workers")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--side", type=int, default=224, help="of images")
    parser.add_argument("--pairs", type=int, default=3, help="of rounds there and back")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="soapstone-ddp-")
    here = Here(args, folder)
    ways = {"server": lambda: here.train("bsp"), "allreduce": lambda: here.train("allreduce"), "ddp": here.ddp}
    rates = {way: [] for way in ways}
    for turn in range(2 * args.pairs):
        for way in (ways if turn % 2 == 0 else reversed(ways)):
            rates[way].append(ways[way]())
    shutil.rmtree(folder)
    for way, of in rates.items():
        print(f"  {way:10} {spread(of)} samples/s")
    for other in ("server", "ddp"):
        print(f"  allreduce / {other}: {spread([a / b for a, b in zip(rates['allreduce'], rates[other])])}")


if __name__ == "__main__":
    main()
