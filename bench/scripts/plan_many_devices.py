#!/usr/bin/env python3
"""How long a plan takes on a machine where pricing one strategy may take longer than the budget.

    bench/scripts/plan_many_devices.py [--bin=build/release/bin] [--budget=3] [--nodes=256] [MODEL ...]

`soapstone plan` on so many nodes of four P100: its time in all, start, search, comparison and output
included, over the budget; the plan's step beside data parallelism's, in ms; and what it says that there
was no time for.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

MODELS = ["alexnet", "resnet50", "inception_v3", "rnnlm", "gnmt", "transformer_lm", "transformer_lm:layers=96"]
BATCH = {"transformer_lm": 8192, "transformer_lm:layers=96": 1024}  # of others 64 a device: more does not fit


def milliseconds(strategies, name):
    of = strategies.get(name)
    if of is None:
        return "-"
    return f"{of['step_ns'] / 1e6:.1f}{' (does not fit)' if of['overflow_bytes'] > 0 else ''}"


def measure(options, model, machine):
    began = time.monotonic()
    done = subprocess.run([os.path.join(options.bin, "soapstone"), "plan", f"--model={model}", f"--machine={machine}",
                           f"--budget={options.budget}s", "--json",
                           *([f"--batch={BATCH[model]}"] if model in BATCH else [])], capture_output=True, text=True)
    took = time.monotonic() - began
    print(f"{model}: {took:.1f} s, {took / options.budget:.2f} of the budget", end=" | ")
    if done.returncode != 0:
        print(f"code {done.returncode}: {done.stderr.strip()}", flush=True)
        return
    said = json.loads(done.stdout)
    strategies = {s["name"]: s for s in said["strategies"]}
    print(f"found {milliseconds(strategies, 'found')} | data parallel {milliseconds(strategies, 'data parallel')} | "
          f"{'; '.join(re.findall('no time [^;]*', said['search']))}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--budget", type=float, default=3)
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("models", nargs="*", default=MODELS)
    options = parser.parse_args()
    with open("examples/machines/p100_4x4.machine.textproto") as file:
        text, replaced = re.subn(r"\bcount: 4\n", f"count: {options.nodes}\n", file.read())
    if replaced != 1:
        sys.exit("the example's machine has not one line `count: 4`")
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as machine:
        machine.write(text)
        machine.flush()
        for model in options.models or MODELS:
            measure(options, model, machine.name)


if __name__ == "__main__":
    main()
