#!/usr/bin/env python3
"""What replicas and checkpoints cost: the same training with and without, by turns (A B B A), on an idle machine.

  bench/scripts/durability_cost.py replicas|checkpoint|off [--pairs=N] [--bin=build/release/bin] [--before=DIR]

Prints of each policy the median of samples a second with them over those without, and its quartiles. `off` compares
with another build's programs, in DIR: what it costs to be able to have them.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile

POLICIES = ("bsp", "ssp:s=2")
JOB = ["--config=examples/digits-lenet5.textproto", "--servers=2", "--workers=3", "--epochs=20"]


def rate(program, *flags):
    """Samples a second of one run."""
    folder = tempfile.mkdtemp()
    if any(flag.startswith("--checkpoint_every") for flag in flags):
        flags = (*flags, f"--checkpoint={folder}/checkpoint")
    done = subprocess.run([program, "train", *JOB, f"--log_dir={folder}/logs", "--http=off", *flags],
                          capture_output=True, text=True, timeout=300, check=False)
    shutil.rmtree(folder)
    found = re.search(r"samples/s +([\d,.]+)", done.stdout + done.stderr) or re.search(
        r"([\d,.]+) samples/s", done.stdout + done.stderr)
    if done.returncode != 0 or found is None:
        raise SystemExit(done.stdout + done.stderr)
    return float(found.group(1).replace(",", ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("replicas", "checkpoint", "off"))
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--before", default="")
    args = parser.parse_args()
    program = os.path.join(args.bin, "soapstone")
    ways = {"replicas": [(program, ()), (program, ("--replicas=2",))],
            "checkpoint": [(program, ()), (program, ("--checkpoint_every=20",))],
            "off": [(os.path.join(args.before, "soapstone"), ()), (program, ())]}[args.what]
    for policy in POLICIES:
        ratios, without = [], []
        for pair in range(args.pairs):
            rates = {}
            for way in (0, 1) if pair % 2 == 0 else (1, 0):
                path, flags = ways[way]
                rates[way] = rate(path, f"--policy={policy}", *flags)
            ratios.append(rates[1] / rates[0])
            without.append(rates[0])
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{policy:10} {statistics.median(without):9.0f} samples/s  {middle:.3f} ({low:.3f} to {high:.3f}, "
              f"{args.pairs} pairs)", flush=True)


if __name__ == "__main__":
    main()
