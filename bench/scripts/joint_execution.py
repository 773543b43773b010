#!/usr/bin/env python3
"""What strategy, teams, steps under way and staleness give together under stalls, on four real workers.

    bench/scripts/joint_execution.py [--bin=build/release/bin] [--part_ms=60] [--steps=180] [--pairs=1]

Of each way of sharing a step among four workers each worker's part takes --part_ms (training.base_ms; what lenet5's
kernels do not take is slept), and now and then --stragglers times as long. Ways, in turn, there and back:

    bsp, data           four workers side by side
    bsp, 2 x 2 stages   two teams of two stages, four micro-batches each
    bsp, 4 stages       one team, eight micro-batches
    ssp, data           as the first, under --policy
    ssp, 2 x 2 stages   two teams of two stages, two steps under way
    ssp, 4 stages       one team, four steps under way

All have the same batch. Prints for each the time of a step in parts, and its loss at the end; then how much faster the
fastest under --policy is than the fastest under bsp. Exit code 1: less than --at_least.
"""
import argparse
import os
import statistics
import sys
import tempfile
import types

from pipeline_steps import Pipeline, run_nodes

BATCH = 48  # 30 steps of the digits' training samples
EPOCH = 30
JOB = """
model: "lenet5"
data {{ format: "digits" path: "{digits}" }}
policy: "{policy}"
training {{ epochs: {epochs} batch: {batch} seed: 1 optimizer: "sgd:lr=0.01" base_ms: {part_ms} stragglers: "{slow}" }}
cluster {{ servers: 1 workers: 4 threads: 1 scheduler: "ipc://{folder}/s.sock" {more} }}
strict: true
"""


class Way:

    def __init__(self, args, folder, policy, stages=1, micro_batches=1, staleness=0):
        self.args, self.folder, self.policy = args, folder, policy
        self.teams, self.stages = 4 // stages, stages
        self.strategy, self.steps_ms, self.losses = "", [], []
        if stages > 1:
            of_one = types.SimpleNamespace(bin=args.bin, data=args.data, stage_ms=0, steps=45, batch=BATCH // self.teams)
            self.strategy = Pipeline(of_one, folder, stages, micro_batches, staleness).strategy

    def __str__(self):
        shape = {1: "data", 2: "2 x 2 stages", 4: "4 stages"}[self.stages]
        return f"{self.policy}, {shape}"

    def run(self):
        more = f'strategy: "{self.strategy}" teams: {self.teams}' if self.strategy else ""
        path = f"{self.folder}/job.textproto"
        with open(path, "w") as file:
            file.write(JOB.format(digits=f"{self.args.data}/digits.csv.gz", policy=self.policy, batch=BATCH,
                                  epochs=self.args.steps // EPOCH, part_ms=self.args.part_ms, folder=self.folder,
                                  slow=self.args.stragglers, more=more))
        reports = run_nodes(self.args.bin, path, 4, str(self))
        result = next(report for report in reports if "test_loss" in report)
        self.steps_ms.append(1e3 * BATCH / result["samples_per_s"])
        self.losses.append(result["test_loss"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--data", default="data/digits")
    parser.add_argument("--part_ms", type=float, default=60)
    parser.add_argument("--steps", type=int, default=180, help="rounded up to whole epochs of 30")
    parser.add_argument("--pairs", type=int, default=1, help="of rounds there and back")
    parser.add_argument("--stragglers", default="stall:p=0.02,factor=6")
    parser.add_argument("--policy", default="ssp:s=3")
    parser.add_argument("--at_least", type=float, default=1.15)
    args = parser.parse_args()
    args.data = os.path.abspath(args.data)
    args.steps = -(-args.steps // EPOCH) * EPOCH
    with tempfile.TemporaryDirectory(prefix="soapstone-joint-") as folder:
        ways = [Way(args, folder, "bsp"), Way(args, folder, "bsp", 2, 4), Way(args, folder, "bsp", 4, 8),
                Way(args, folder, args.policy), Way(args, folder, args.policy, 2, 1, 1),
                Way(args, folder, args.policy, 4, 1, 3)]
        for _ in range(args.pairs):
            for way in [*ways, *reversed(ways)]:
                way.run()
    for way in ways:
        step = statistics.median(way.steps_ms)
        print(f"{str(way):22} step {step / args.part_ms:5.2f} parts ({min(way.steps_ms) / args.part_ms:.2f} to "
              f"{max(way.steps_ms) / args.part_ms:.2f})  loss {statistics.median(way.losses):.4f}")
    best = [min(statistics.median(way.steps_ms) for way in some) for some in (ways[:3], ways[3:])]
    print(f"the fastest under {args.policy} over the fastest under bsp: {best[0] / best[1]:.2f}")
    sys.exit(0 if best[0] / best[1] >= args.at_least else 1)


if __name__ == "__main__":
    main()
