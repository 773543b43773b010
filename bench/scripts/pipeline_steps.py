#!/usr/bin/env python3
"""How long the steps of pipelines are that real processes run, beside what no pipeline can fall below.

    bench/scripts/pipeline_steps.py [--bin=build/release/bin] [--stage_ms=60] [--steps=40] [--pairs=3]

Stages are seats of a strategy whose operators are whole. Each takes --stage_ms a step, a third of it forward and two
thirds backward (training.base_ms: it rests for what its kernels do not take), so that the two processors of a machine
can have four of them. Three pipelines, in turn, there and back:

    2 stages, 8 micro-batches     GPipe, bsp: ideal (m + k - 1) / m of a stage
    4 stages, 8 micro-batches     the same
    4 stages, 4 micro-batches     the same, and beside it
    4 stages, 4 steps under way   1F1B with stashed weights, ssp:s=3, the same batch in one piece: ideal a stage, and
                                  k - 1 of them once a run, until all stages have work

Prints for each the time of a step and its ratio to the ideal, for the last two how much faster the second is, and by
stage how far its reads of parameters lagged at most. Exit code 1: a step takes more than 1.05 of the ideal, the last is
not --at_least times as fast as GPipe, or reads of stage k of 4 lagged by more than 3 - k.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

JOB = """
model: "lenet5"
data {{ format: "digits" path: "{digits}" }}
policy: "{policy}"
training {{ epochs: {epochs} batch: {batch} seed: 1 optimizer: "sgd:lr=0.01" base_ms: {stage_ms} }}
cluster {{ servers: 1 threads: 1 strategy: "{strategy}" scheduler: "ipc://{folder}/s.sock" }}
strict: true
"""
MACHINE = """
name: "stages"
kinds {{ name: "core" tflops: 0.02 memory_gbytes_per_s: 10 memory_gib: 4 launch_us: 5 }}
nodes {{ name: "w" count: {stages} devices: 1 kind: "core" {nic} }}
nodes {{ name: "s" count: 1 servers: 1 server_apply_gbytes_per_s: 4 {nic} }}
"""
NIC = "nics { count: 1 connection { gbytes_per_s: 1.25 latency_us: 10 } direct: true }"
BATCH = 32
PATIENCE_S = 600
CUTS = {2: [5], 4: [2, 5, 7]}  # of lenet5's operators: each stage has parameters
EPOCH = 45  # steps of 32 of the digits' training samples


def run_nodes(programs, config, workers, what):
    """What the scheduler and the server have reported of a job that ended well."""
    nodes = [("scheduler",), ("server", "--rank=0")] + [("worker", f"--rank={rank}") for rank in range(workers)]
    processes = [subprocess.Popen([f"{programs}/soapstone-{role}", f"--config={config}", "--progress=json", *flags],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                 for role, *flags in nodes]
    try:
        outs = [process.communicate(timeout=PATIENCE_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode for process in processes):
        sys.exit(f"{what}: exit codes {[process.returncode for process in processes]}\n{outs[0]}")
    return [json.loads(line) for out in outs[:2] for line in out.splitlines() if line.startswith("{")]


class Pipeline:

    def __init__(self, args, folder, stages, micro_batches, staleness=0):
        self.args, self.folder = args, folder
        self.stages, self.micro_batches, self.staleness = stages, micro_batches, staleness
        self.rates, self.lags = [], {}
        self.strategy = self.place()

    def __str__(self):
        way = f"{self.staleness + 1} steps under way" if self.staleness else f"{self.micro_batches} micro-batches"
        return f"{self.stages} stages, {way}"

    def ideal_ms(self):
        fills = (self.stages - 1) / (self.args.steps if self.staleness else self.micro_batches)
        return self.args.stage_ms * (1 + fills)

    def place(self):
        """A strategy file: the model's operators in their order, shared out over the stages."""
        machine = f"{self.folder}/machine{self.stages}.textproto"
        with open(machine, "w") as file:
            file.write(MACHINE.format(stages=self.stages, nic=NIC))
        path = f"{self.folder}/{self.stages}x{self.micro_batches}-{self.staleness}.strategy.textproto"
        subprocess.run([f"{self.args.bin}/soapstone", "plan", f"--config={self.job('bsp', '')}", f"--machine={machine}",
                        f"--devices={self.stages}", f"--batch={self.args.batch}", f"--micro_batches={self.micro_batches}",
                        "--search=model", "--sync=servers", f"--output={path}"],
                       check=True, stdout=subprocess.DEVNULL)
        with open(path) as file:
            text = file.read()
        names = re.findall(r'^ops \{\n  name: "([^"]+)"', text, re.MULTILINE)
        whole = list(dict.fromkeys(name.split("#")[0] for name in names))
        head = re.sub(r"^staleness: .*\n", "", text[:text.index("ops {")], flags=re.MULTILINE)
        with open(path, "w") as file:
            file.write(head + "".join(re.findall(r"^micro_batches: .*\n", text, re.MULTILINE)))
            file.write(f"staleness: {self.staleness}\n")
            stage_of = [sum(whole.index(name.split("#")[0]) >= cut for cut in CUTS[self.stages]) for name in names]
            for name, stage in zip(names, stage_of):
                file.write(f'ops {{ name: "{name}" devices: {stage} }}\n')
            for stage in range(self.stages):  # all forward, then all backward
                count = stage_of[:len(whole)].count(stage)
                mine = [range(first, first + count) for first in range(0, count * self.micro_batches, count)]
                halves = [2 * op for batch in mine for op in batch]
                halves += [2 * op + 1 for batch in mine for op in reversed(batch)]
                file.write(f"order {{ {' '.join(f'halves: {half}' for half in halves)} }}\n")
        return path

    def job(self, policy, strategy):
        path = f"{self.folder}/{policy.replace(':', '')}-{bool(strategy)}.textproto"
        with open(path, "w") as file:
            file.write(JOB.format(digits=f"{self.args.data}/digits.csv.gz", policy=policy, folder=self.folder,
                                  epochs=self.args.steps // EPOCH, batch=self.args.batch, strategy=strategy,
                                  stage_ms=self.args.stage_ms))
        return path

    def run(self):
        policy = f"ssp:s={self.staleness}" if self.staleness else "bsp"
        reports = run_nodes(self.args.bin, self.job(policy, self.strategy), self.stages, self)
        result = next(report for report in reports if "test_loss" in report)
        self.rates.append(result["samples_per_s"])
        for row in (row for report in reports for row in report.get("ledger", [])):
            self.lags[row["shard"]] = max(self.lags.get(row["shard"], 0), row["read_lags"]["max"])

    def step_ms(self):
        return 1e3 * self.args.batch / statistics.median(self.rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--data", default="data/digits")
    parser.add_argument("--stage_ms", type=float, default=60)
    parser.add_argument("--steps", type=int, default=EPOCH, help="rounded up to whole epochs of 45")
    parser.add_argument("--pairs", type=int, default=1, help="of rounds there and back")
    parser.add_argument("--at_least", type=float, default=1.6)
    args = parser.parse_args()
    args.data = os.path.abspath(args.data)
    args.steps, args.batch = -(-args.steps // EPOCH) * EPOCH, BATCH
    with tempfile.TemporaryDirectory(prefix="soapstone-pipeline-") as folder:
        pipelines = [Pipeline(args, folder, 2, 8), Pipeline(args, folder, 4, 8), Pipeline(args, folder, 4, 4),
                     Pipeline(args, folder, 4, 1, staleness=3)]
        for _ in range(args.pairs):
            for pipeline in [*pipelines, *reversed(pipelines)]:
                pipeline.run()
    good = True
    for pipeline in pipelines:
        ratio = pipeline.step_ms() / pipeline.ideal_ms()
        good = good and ratio <= 1.05
        print(f"{str(pipeline):29} step {pipeline.step_ms():6.1f} ms  {ratio:5.3f} of the ideal")
    gain = pipelines[2].step_ms() / pipelines[3].step_ms()
    lags = [pipelines[3].lags[shard] for shard in sorted(pipelines[3].lags)]
    print(f"under way at once, over GPipe: {gain:.2f}; greatest lag of reads, by stage: {lags}")
    sys.exit(0 if good and gain >= args.at_least and lags == [3, 2, 1, 0] else 1)


if __name__ == "__main__":
    main()
