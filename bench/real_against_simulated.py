#!/usr/bin/env python3
"""Time to accuracy: real processes against co-simulation, over the matrix of an experiment file.

    bench/real_against_simulated.py [--bin=build/release/bin] [--spec=FILE] --out=DIR

The file has `mode: real`. Its runs are made as it says, in DIR/real, and once more in co-simulation, in
DIR/simulated, with the same policies, stragglers and seeds; both by `soapstone experiment`, so that
both can be interrupted and gone on with. What co-simulation is told of the machine is measured once,
by CALIBRATIONS real runs of `async` without stragglers, and is the same for every policy:

    iteration   median of what a worker's iteration takes, computing and injected delay
    latency     half of what a clock takes beyond that

Prints, for each straggler model and policy, the median and the range over the seeds of both times to the
target, and the ratio of the medians. On a virtual machine the host may withhold the processors: a
real run during which that ("steal" of /proc/stat) came to more than STEAL_MAX of its time is counted as
disturbed, and is left out, whatever its time. Exit code 1: a ratio is further from 1 than
--within, or nothing is left to compare; 0 else.

On a machine that does other work, `chrt -r 10 bench/real_against_simulated.py ...` (as root) keeps that
out: the processes sleep most of the time.
"""
import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time

CALIBRATIONS = 3
STEAL_MAX = 0.01
STEAL_EVERY_S = 0.5
SEED = 1000  # of the first calibration: none of the measured seeds


class StealWatch:
    """Writes down how much time the host has withheld, for as long as it is entered."""

    def __init__(self, path):
        self.path = path
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def watch(self):
        with open(self.path, "a") as file:
            while not self.ended.wait(STEAL_EVERY_S):
                with open("/proc/stat") as stat:
                    jiffies = int(stat.readline().split()[8])
                file.write("%.2f,%.2f\n" % (time.time(), jiffies / os.sysconf("SC_CLK_TCK")))
                file.flush()


def steal_share(path, begin, end):
    """Of the time from begin to end; None where it was not watched."""
    with open(path) as file:
        samples = [tuple(map(float, line.split(","))) for line in file]
    before = [steal for at, steal in samples if begin - 5 < at <= begin]
    after = [steal for at, steal in samples if end <= at < end + 5]
    if not before or not after:
        return None
    return (after[0] - before[-1]) / (end - begin)


def block(text, name):
    """The contents of a message field of the file, at the top level."""
    begin = re.search(r"(?m)^%s \{" % name, text).end()
    end, depth = begin, 1
    while depth > 0:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[begin:end - 1]


def number(text, name):
    return float(re.search(r"(?m)^%s: *([0-9.]+)" % name, text).group(1))


def calibrate(args, text, iteration_ms):
    """Medians of (iteration ms, latency us)."""
    job = os.path.join(args.out, "calibration.textproto")
    with open(job, "w") as file:
        file.write(block(text, "base"))
    trace, curve = (os.path.join(args.out, f"calibration-{what}.csv") for what in ("trace", "curve"))
    found = []
    for i in range(CALIBRATIONS):
        subprocess.run([os.path.join(args.bin, "soapstone"), "train", f"--config={job}",
                        "--policy=async", f"--workers={int(number(text, 'workers'))}", "--epochs=5",
                        f"--base_ms={iteration_ms}", f"--seed={SEED + i}", f"--record_trace={trace}",
                        f"--curve={curve}", f"--log_dir={os.path.join(args.out, 'calibration')}"],
                       check=True, stdout=subprocess.DEVNULL)
        with open(trace) as file:
            rows = [(int(row["clock"]), float(row["compute_us"]) + float(row["injected_us"]))
                    for row in csv.DictReader(file)]
        with open(curve) as file:
            end_us = 1e6 * float(list(csv.DictReader(file))[-1]["time_s"])
        iteration_us = statistics.median(us for _, us in rows)
        clocks = 1 + max(clock for clock, _ in rows)
        found.append((iteration_us / 1000, max(0.0, (end_us / clocks - iteration_us) / 2)))
    print("calibrations (iteration ms, latency us): " +
          "; ".join("%.2f, %.0f" % each for each in found))
    return [statistics.median(each) for each in zip(*found)]


def plainly():
    """What computes all the time is no real-time process."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def experiment(args, spec, folder):
    subprocess.run([os.path.join(args.bin, "soapstone"), "experiment", spec,
                    f"--out={os.path.join(args.out, folder)}", "--jobs=2"],
                   check=True, stdout=None if args.verbose else subprocess.DEVNULL,
                   preexec_fn=plainly if folder == "simulated" else None)
    with open(os.path.join(args.out, folder, "runs.json")) as file:
        return json.load(file)["runs"]


def time_to(curve, target):
    """As experiment/curve.h: linear between the first point at or above and the one before."""
    before = None
    for time, _, _, _, accuracy, _ in curve:
        if accuracy >= target:
            if before is None:
                return time
            share = (target - before[1]) / (accuracy - before[1])
            return before[0] + share * (time - before[0])
        before = (time, accuracy)
    return None


def undisturbed(args, runs):
    """The real runs during which the processors were not withheld."""
    kept = []
    for run in runs:
        # The job file was written just before the run.
        began = os.path.getmtime(os.path.join(args.out, "real", "logs", run["id"], "job.textproto"))
        share = steal_share(os.path.join(args.out, "steal.csv"), began,
                            began + run["outcome"]["spent_s"])
        if share is not None and share <= STEAL_MAX:
            kept.append(run)
    print("%d of %d real runs were disturbed" % (len(runs) - len(kept), len(runs)))
    return kept


def times(runs, target):
    """{(stragglers, policy): [times to the target]}, in the order of the file."""
    found = {}
    for run in sorted(runs, key=lambda run: run["seed"]):
        found.setdefault((run["under"], run["policy"]), []).append(
            time_to(run["outcome"]["curve"], target))
    return found


def spread(values):
    return "%6.2f (%5.2f to %5.2f) of %d" % (statistics.median(values), min(values), max(values),
                                             len(values))


def compare(real, simulated, within):
    """Prints the table; whether all ratios are near enough to 1."""
    good = bool(real)
    print("%-11s %-32s %-30s %-30s %s" % ("stragglers", "policy", "real, s", "simulated, s", "ratio"))
    for key, modelled in simulated.items():
        values = real.get(key, [])
        if not values:
            print("%-11s %-32s all real runs were disturbed" % key)
            good = False
            continue
        if None in values or None in modelled:
            print("%-11s %-32s the target was not reached by all" % key)
            good = False
            continue
        ratio = statistics.median(modelled) / statistics.median(values)
        good = good and abs(ratio - 1) <= within
        print("%-11s %-32s %-30s %-30s %.3f" % (*key, spread(values), spread(modelled), ratio))
    return good


def main():
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default=os.path.join(source, "build/release/bin"))
    parser.add_argument("--spec", default=os.path.join(
        source, "experiment/specs/real-against-simulated.textproto"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--within", type=float, default=0.1)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    os.chdir(source)
    os.makedirs(args.out, exist_ok=True)
    with open(args.spec) as file:
        text = file.read()
    target = number(text, "target_accuracy")
    kept = os.path.join(args.out, "calibration.json")
    if not os.path.exists(kept):
        measured = calibrate(args, text, number(text, "iteration_ms"))
        with open(kept, "w") as file:
            json.dump(measured, file)
    with open(kept) as file:
        iteration_ms, latency_us = json.load(file)
    print("told to co-simulation: iteration %.2f ms, latency %.0f us" % (iteration_ms, latency_us))
    simulated = os.path.join(args.out, "simulated.textproto")
    with open(simulated, "w") as file:
        file.write(re.sub(r"(?m)^iteration_ms: .*$",
                          f"iteration_ms: {iteration_ms:.4f}\nlatency_us: {latency_us:.1f}",
                          re.sub(r"(?m)^mode: real$", "mode: cosim", text)))
    modelled = times(experiment(args, simulated, "simulated"), target)
    with StealWatch(os.path.join(args.out, "steal.csv")):
        runs = experiment(args, args.spec, "real")
        time.sleep(2 * STEAL_EVERY_S)
    real = times(undisturbed(args, runs), target)
    return 0 if compare(real, modelled, args.within) else 1


if __name__ == "__main__":
    sys.exit(main())
