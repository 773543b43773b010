#!/usr/bin/env python3
"""What is gained by choosing micro-batches and staleness together with the strategy.

    bench/scripts/joint_search.py [--bin=build/release/bin] [--budget=20] [--staleness=4] [--only=MODEL]

For models at small batches on some devices, by `soapstone plan` with the roofline's costs, steps in ms:
data parallelism; what the walk finds for whole batches; what it finds with --micro_batches=auto in the
same time, in how many micro-batches, and what each number's trial came to; then iterations under
--staleness: of the best step's plan under the bound that suits it best, and of the plan that was
searched for together with its bound. '-': it does not fit in memory.
"""
import argparse
import json
import os
import re
import subprocess
import sys

CASES = [
    ("resnet101", "k80_16x4", 16, 64),
    ("resnet101", "p100_4x4", 16, 64),
    ("inception_v3", "k80_16x4", 16, 64),
    ("alexnet", "k80_16x4", 4, 16),
    ("rnnlm", "k80_16x4", 8, 16),
    ("gnmt", "k80_16x4", 16, 16),
    ("gnmt", "p100_4x4", 4, 8),
    ("bert_base", "k80_16x4", 8, 8),
    ("transformer_lm:layers=32", "k80_16x4", 16, 16),
    ("transformer_lm:layers=48,hidden=3072,heads=24", "k80_16x4", 8, 8),
]


def plan(options, case, *flags):
    model, machine, devices, batch = case
    command = [os.path.join(options.bin, "soapstone"), "plan", f"--model={model}", f"--devices={devices}",
               f"--machine=examples/machines/{machine}.machine.textproto", f"--batch={batch}",
               f"--budget={options.budget}s", "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 78 and "are missing on" in done.stderr:
        return None
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def step(strategy, key="step_ns"):
    return "-" if strategy is None or strategy["overflow_bytes"] > 0 else f"{strategy[key] / 1e6:.2f}"


def measure(options, case):
    whole, auto = plan(options, case), plan(options, case, "--micro_batches=auto")
    by_name = {s["name"]: s for s in (whole or {"strategies": []})["strategies"]}
    print(*case, "| data", step(by_name.get("data parallel")), "| whole", step(by_name.get("found")), end=" ")
    if auto:
        trials = (f"{t['micro_batches']}: {step(t)}" for t in auto["micro_batch_trials"])
        print("| auto", step(auto["strategies"][0]), "in", auto["micro_batches"], f"({', '.join(trials)})", end=" ")
    stale = plan(options, case, f"--staleness={options.staleness}")
    if stale:
        found = stale["strategies"][0]
        after = re.search(r"plan takes ([\d.]+) ms under staleness (\d+)", stale["search"])
        print("| bound after", " s=".join(after.groups()) if after else "the same",
              "| with the plan", step(found, "iteration_ns"), f"s={found['staleness']}", end="")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--budget", type=float, default=20)
    parser.add_argument("--staleness", type=int, default=4)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for case in CASES:
        if case[0].startswith(options.only):
            measure(options, case)


if __name__ == "__main__":
    main()
