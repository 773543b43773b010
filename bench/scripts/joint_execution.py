#!/usr/bin/env python3
"""What strategy, teams, steps under way and staleness give together under stalls: on four real workers, or on eight in
virtual time.

    bench/scripts/joint_execution.py [--bin=build/release/bin] [--part_ms=60] [--steps=180] [--pairs=1]
    bench/scripts/joint_execution.py --virtual [--workers=8] [--policy=ssp:s=7] [--at_least=1.3]

Of each way of sharing a step among the workers each worker's part takes --part_ms (training.base_ms; what lenet5's
kernels do not take is slept; --virtual: simulate's --iteration_us), and now and then --stragglers times as long. Ways,
in turn, there and back, of N workers:

    bsp, data           all workers side by side
    bsp, T x 2 stages   teams of two stages, four micro-batches each
    bsp, T x 4 stages   teams of four, eight micro-batches each
    ssp, data           as the first, under --policy
    ssp, T x 2 stages   teams of two stages, two steps under way
    ssp, T x 4 stages   teams of four, four steps under way

All have the same batch. Prints for each the time of a step in parts, and its loss at the end; then how much faster the
fastest under --policy is than the fastest under bsp, and by how much more its loss is than theirs. Exit code 1: it is
less than --at_least times as fast, or, in virtual time, its loss is more by over --loss_within.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import types

from pipeline_steps import Pipeline, run_nodes

BATCH = 48  # 30 steps of the digits' training samples
MICRO_BATCHES = {2: 4, 4: 8}  # of a team under bsp
EPOCH = 30
JOB = """
model: "lenet5"
data {{ format: "digits" path: "{digits}" }}
policy: "{policy}"
training {{ epochs: {epochs} batch: {batch} seed: 1 optimizer: "sgd:lr=0.01" base_ms: {part_ms} stragglers: "{slow}" }}
cluster {{ servers: 1 workers: {workers} threads: 1 scheduler: "ipc://{folder}/s.sock" {more} }}
strict: true
"""


class Way:

    def __init__(self, args, folder, policy, stages=1, micro_batches=1, staleness=0):
        self.args, self.folder, self.policy = args, folder, policy
        self.teams, self.stages = args.workers // stages, stages
        self.strategy, self.steps_ms, self.losses = "", [], []
        if stages > 1:
            of_one = types.SimpleNamespace(bin=args.bin, data=args.data, stage_ms=0, steps=45, batch=BATCH // self.teams)
            self.strategy = Pipeline(of_one, folder, stages, micro_batches, staleness).strategy

    def __str__(self):
        shape = "data" if self.stages == 1 else f"{self.teams} x {self.stages} stages"
        return f"{self.policy}, {shape}"

    def run(self):
        more = f'strategy: "{self.strategy}" teams: {self.teams}' if self.strategy else ""
        path = f"{self.folder}/job.textproto"
        with open(path, "w") as file:
            file.write(JOB.format(digits=f"{self.args.data}/digits.csv.gz", policy=self.policy, batch=BATCH,
                                  epochs=self.args.steps // EPOCH, part_ms=self.args.part_ms, folder=self.folder,
                                  slow=self.args.stragglers, workers=self.args.workers, more=more))
        if self.args.virtual:
            return self.simulate(path)
        reports = run_nodes(self.args.bin, path, self.args.workers, str(self))
        result = next(report for report in reports if "test_loss" in report)
        self.steps_ms.append(1e3 * BATCH / result["samples_per_s"])
        self.losses.append(result["test_loss"])

    def simulate(self, path):
        run = subprocess.run([f"{self.args.bin}/soapstone", "simulate", f"--job={path}",
                              f"--iteration_us={1000 * self.args.part_ms}"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"{self}: exit code {run.returncode}: {run.stderr}")
        seconds = float(re.search(r"virtual time +([0-9.]+) s", run.stdout).group(1))
        self.steps_ms.append(1e3 * seconds / self.args.steps)
        self.losses.append(float(re.search(r"\(loss ([0-9.]+)", run.stdout).group(1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--data", default="data/digits")
    parser.add_argument("--part_ms", type=float, default=60)
    parser.add_argument("--steps", type=int, default=180, help="rounded up to whole epochs of 30")
    parser.add_argument("--pairs", type=int, default=1, help="of rounds there and back")
    parser.add_argument("--stragglers", default="stall:p=0.02,factor=6")
    parser.add_argument("--virtual", action="store_true", help="in virtual time, each way once")
    parser.add_argument("--workers", type=int, help="a multiple of 4 [4; 8 in virtual time]")
    parser.add_argument("--policy", help="[ssp:s=3; ssp:s=7 in virtual time]")
    parser.add_argument("--at_least", type=float, help="[1.15; 1.3 in virtual time]")
    parser.add_argument("--loss_within", type=float, default=0.02, help="of what it is under bsp, in virtual time")
    args = parser.parse_args()
    args.workers = args.workers or (8 if args.virtual else 4)
    args.policy = args.policy or ("ssp:s=7" if args.virtual else "ssp:s=3")
    args.at_least = args.at_least or (1.3 if args.virtual else 1.15)
    if args.workers % 4 != 0:
        parser.error("--workers: a multiple of 4")
    args.data = os.path.abspath(args.data)
    args.steps = -(-args.steps // EPOCH) * EPOCH
    with tempfile.TemporaryDirectory(prefix="soapstone-joint-") as folder:
        ways = [Way(args, folder, "bsp"), Way(args, folder, "bsp", 2, MICRO_BATCHES[2]),
                Way(args, folder, "bsp", 4, MICRO_BATCHES[4]), Way(args, folder, args.policy),
                Way(args, folder, args.policy, 2, 1, 1), Way(args, folder, args.policy, 4, 1, 3)]
        turns = [ways] if args.virtual else [[*ways, *reversed(ways)]] * args.pairs  # virtual runs are all alike
        for way in (way for turn in turns for way in turn):
            way.run()
    for way in ways:
        step = statistics.median(way.steps_ms)
        print(f"{str(way):22} step {step / args.part_ms:5.2f} parts ({min(way.steps_ms) / args.part_ms:.2f} to "
              f"{max(way.steps_ms) / args.part_ms:.2f})  loss {statistics.median(way.losses):.4f}")
    best = [min(some, key=lambda way: statistics.median(way.steps_ms)) for some in (ways[:3], ways[3:])]
    faster = statistics.median(best[0].steps_ms) / statistics.median(best[1].steps_ms)
    more = statistics.median(best[1].losses) / statistics.median(best[0].losses) - 1
    print(f"the fastest under {args.policy} over the fastest under bsp: {faster:.2f}, its loss {more:+.2%}")
    sys.exit(0 if faster >= args.at_least and not (args.virtual and more > args.loss_within) else 1)


if __name__ == "__main__":
    main()
