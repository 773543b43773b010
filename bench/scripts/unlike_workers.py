#!/usr/bin/env python3
"""What a plan that knows its workers' speeds gains where one is slower than the other: real processes, real kernels.

    bench/scripts/unlike_workers.py [--bin=build/release/bin] [--model=gnmt:hidden=256] [--factor=2] [--pairs=3]

Two workers with a thread each; worker 0 takes --factor times as long for whatever it computes, as a processor would that
is so much slower (training.stragglers "slow": it rests after its kernels). Two strategies, in turn, there and back:

    even     samples cut in two halves, one for each worker
    plan     what `soapstone plan --for_workers` finds for a machine file that says both speeds

Prints the time of a step for both, and how much faster the plan is. Exit code 1: less than --at_least times.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

from pipeline_steps import run_nodes

JOB = """
model: "{model}"
data {{ format: "copy" length: {length} vocabulary: {vocabulary} samples: {samples} }}
policy: "bsp"
training {{ epochs: 1 batch: {batch} seed: 1 optimizer: "sgd:lr=0.01" stragglers: "{slow}" }}
cluster {{ servers: 1 workers: 2 threads: 1 scheduler: "ipc://{folder}/s.sock" {more} }}
"""
MACHINE = """
name: "unlike"
kinds {{ name: "slow" tflops: {slow} memory_gbytes_per_s: {slow_memory} memory_gib: 4 launch_us: 5 }}
kinds {{ name: "fast" tflops: {fast} memory_gbytes_per_s: 10 memory_gib: 4 launch_us: 5 }}
nodes {{ name: "a" count: 1 devices: 1 kind: "slow" {nic} }}
nodes {{ name: "b" count: 1 devices: 1 kind: "fast" {nic} }}
nodes {{ name: "s" count: 1 servers: 1 server_apply_gbytes_per_s: 4 {nic} }}
"""
NIC = "nics { count: 1 connection { gbytes_per_s: 4 latency_us: 10 } direct: true }"


class Way:

    def __init__(self, args, folder, name, factor, *search):
        self.args, self.folder, self.name, self.steps_ms = args, folder, name, []
        machine = f"{folder}/{name}.machine.textproto"
        with open(machine, "w") as file:
            file.write(MACHINE.format(slow=args.tflops / factor, slow_memory=10 / factor, fast=args.tflops, nic=NIC))
        self.strategy = f"{folder}/{name}.strategy.textproto"
        subprocess.run([f"{args.bin}/soapstone", "plan", f"--config={self.job('')}", f"--machine={machine}", "--devices=2",
                        "--for_workers", "--sync=servers", *search, f"--output={self.strategy}"], check=True,
                       stdout=subprocess.DEVNULL)

    def job(self, more):
        path = f"{self.folder}/{self.name}.textproto"
        slow = f"slow:workers=1,factor={self.args.factor:g}"
        with open(path, "w") as file:
            file.write(JOB.format(model=self.args.model, length=self.args.length, vocabulary=self.args.vocabulary,
                                  samples=-(-self.args.steps * self.args.batch * 5 // 4), batch=self.args.batch,
                                  slow=slow, folder=self.folder, more=more))
        return path

    def run(self):
        reports = run_nodes(self.args.bin, self.job(f'strategy: "{self.strategy}"'), 2, self.name)
        result = next(report for report in reports if "test_loss" in report)
        self.steps_ms.append(1e3 * self.args.batch / result["samples_per_s"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--model", default="gnmt:hidden=256")
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--factor", type=float, default=2)
    parser.add_argument("--tflops", type=float, default=.02, help="of the faster one, for the planner")
    parser.add_argument("--pairs", type=int, default=1, help="of rounds there and back")
    parser.add_argument("--at_least", type=float, default=1.3)
    args = parser.parse_args()
    args.bin = os.path.abspath(args.bin)
    with tempfile.TemporaryDirectory(prefix="soapstone-unlike-") as folder:
        ways = [Way(args, folder, "even", 1, "--search=data"), Way(args, folder, "plan", args.factor, "--budget=10s")]
        for _ in range(args.pairs):
            for way in [*ways, *reversed(ways)]:
                way.run()
    even, plan = (statistics.median(way.steps_ms) for way in ways)
    for way in ways:
        print(f"{way.name:6} step {statistics.median(way.steps_ms):7.1f} ms ({min(way.steps_ms):.1f} to "
              f"{max(way.steps_ms):.1f})")
    print(f"the plan is {even / plan:.2f} times as fast")
    sys.exit(0 if even / plan >= args.at_least else 1)


if __name__ == "__main__":
    main()
