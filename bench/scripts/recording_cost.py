#!/usr/bin/env python3
"""What --record costs: the same training with and without it, in turn, on an idle machine.

  bench/scripts/recording_cost.py [--pairs=N] [--bin=build/release/bin]

Prints, for each of three jobs, the median over pairs of the relative differences of training time (wall clock, as the closing
table has it) and of the CPU time of all processes, with their quartiles and the standard error of the median
(1.253 s / sqrt(pairs), s the deviation of the pairs).
"""
import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile

JOBS = [
    ["--servers=1", "--workers=1", "--model=softmax", "--policy=bsp", "--epochs=160"],
    ["--servers=1", "--workers=1", "--policy=bsp", "--epochs=40"],
    ["--servers=2", "--workers=3", "--policy=async", "--epochs=60"],
]


def train(program, flags, record):
    """Seconds of training, and of CPU, of one run."""
    folder = tempfile.mkdtemp()
    command = [program, "train", "--config=examples/digits-lenet5.textproto",
               f"--log_dir={folder}/logs", *flags]
    if record:
        command.append(f"--record={folder}/recording")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(folder)
    wall = re.search(r"^  time +([\d.]+) s", done.stdout + done.stderr, re.M)
    if done.returncode != 0 or wall is None:
        raise SystemExit(done.stdout + done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(wall.group(1)), cpu


def summary(ratios):
    low, middle, high = statistics.quantiles(ratios, n=4)
    error = 1.253 * statistics.stdev(ratios) / len(ratios) ** 0.5
    return (f"{100 * (middle - 1):+.1f}% ({100 * (low - 1):+.1f} to {100 * (high - 1):+.1f}, "
            f"standard error {100 * error:.1f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--bin", default="build/release/bin")
    args = parser.parse_args()
    program = os.path.join(args.bin, "soapstone")
    for job in JOBS:
        flags = job
        walls, cpus, seconds = [], [], []
        for pair in range(args.pairs):
            runs = {record: train(program, flags, record)
                    for record in ((False, True) if pair % 2 == 0 else (True, False))}
            walls.append(runs[True][0] / runs[False][0])
            cpus.append(runs[True][1] / runs[False][1])
            seconds.append(runs[False][0])
        print(f"{' '.join(flags):66} {statistics.median(seconds):5.2f} s  "
              f"time {summary(walls)}  CPU {summary(cpus)}  ({args.pairs} pairs)", flush=True)


if __name__ == "__main__":
    main()
