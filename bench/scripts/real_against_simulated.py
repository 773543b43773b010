#!/usr/bin/env python3
"""Time to accuracy: real processes against co-simulation, over the matrix of an experiment file.

    bench/scripts/real_against_simulated.py [--bin=build/release/bin] [--spec=FILE] --out=DIR

The file has `mode: real`. Its runs are made as it says, in DIR/real, and once more in co-simulation, in
DIR/simulated, with the same policies, stragglers and seeds; both by `soapstone experiment`, so that
both can be interrupted and gone on with. What co-simulation is told of the machine is measured once,
by CALIBRATIONS real runs of `async` without stragglers, and is the same for every policy:

    iteration   median of what a worker's iteration takes, computing and injected delay
    latency     half of what a clock takes beyond that

Prints, for each straggler model and policy, the median and the range over the seeds of both times to the
target, and the ratio of the medians. On a virtual machine the host may withhold the processors: a
real run during which that ("steal" of /proc/stat) came to more than STEAL_MAX of its time is counted as
disturbed, and is left out, whatever its time; it is made again, up to ROUNDS times. Seeds that both
have are compared. Exit code 1: a ratio is further from 1 than --within, or a cell has no seed to
compare; 0 else.

On a machine that does other work, `chrt -r 10 bench/scripts/real_against_simulated.py ...` (as root) keeps that
out: the processes sleep most of the time.
"""
import argparse
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time

CALIBRATIONS = 3
STEAL_MAX = 0.05  # of both cores together: moves a time by as much at most, or so
ROUNDS = 4
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
            while True:
                with open("/proc/stat") as stat:
                    jiffies = int(stat.readline().split()[8])
                file.write("%.2f,%.2f\n" % (time.time(), jiffies / os.sysconf("SC_CLK_TCK")))
                file.flush()
                if self.ended.wait(STEAL_EVERY_S):
                    return


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


def in_full(text, folder):
    """The file with its paths from the root on, so that it means the same in another folder."""
    return re.sub(r'(path: ")(?!/)', lambda match: f"{match[1]}{folder}/", text)


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


HOLD_POINTS = 3  # as cluster/curve.h


def time_to(curve, target):
    """As cluster/curve.h: linear between the first of HOLD_POINTS points in a row that are at or
    above, and the one before; None where there are none."""
    hold = max(1, min(HOLD_POINTS, len(curve)))
    for i in range(len(curve) - hold + 1):
        if all(point[4] >= target for point in curve[i:i + hold]):
            if i == 0:
                return curve[0][0]
            before, hit = curve[i - 1], curve[i]
            share = (target - before[4]) / (hit[4] - before[4])
            return before[0] + share * (hit[0] - before[0])
    return None


def undisturbed(args, folder, runs):
    """The real runs during which the processors were not withheld."""
    kept = []
    for run in runs:
        # The job file was written just before the run.
        began = os.path.getmtime(os.path.join(args.out, folder, "logs", run["id"], "job.textproto"))
        share = steal_share(os.path.join(args.out, "steal.csv"), began,
                            began + run["outcome"]["spent_s"])
        if share is not None and share <= STEAL_MAX:
            kept.append(run)
    print("%s: %d of %d real runs were disturbed" % (folder, len(runs) - len(kept), len(runs)))
    return kept


def watched(args, spec, folder):
    """The undisturbed runs of a file of real processes."""
    with StealWatch(os.path.join(args.out, "steal.csv")):
        runs = experiment(args, spec, folder)
        time.sleep(4 * STEAL_EVERY_S)
    return undisturbed(args, folder, runs)


def only(text, straggler, policy, seeds):
    """The file with one of its straggler models and policies, by their place, and these seeds."""
    lines = []
    left = {"stragglers": straggler, "policies": policy}
    for line in text.split("\n"):
        kind = line.split(" ")[0]
        if kind in left:
            left[kind] -= 1
            if left[kind] != -1:
                continue
        lines.append(re.sub(r"^seeds: .*$", f"seeds: {sorted(seeds)}", line))
    return "\n".join(lines)


def times(runs, target, found=None):
    """{(stragglers, policy): {seed: time to the target}}, in the order of the file."""
    found = {} if found is None else found
    for run in runs:
        found.setdefault((run["under"], run["policy"]), {})[run["seed"]] = time_to(
            run["outcome"]["curve"], target)
    return found


def measure(args, text, target, modelled):
    """Times as above, of real runs, those that were disturbed made again."""
    real = times(watched(args, args.spec, "real"), target)
    stragglers = list(dict.fromkeys(under for under, _ in modelled))
    policies = list(dict.fromkeys(policy for _, policy in modelled))
    for again in range(2, ROUNDS + 1):
        for i, key in enumerate(modelled):
            missing = modelled[key].keys() - real.get(key, {}).keys()
            if not missing:
                continue
            folder = f"real-{again}-{i}"
            spec = os.path.join(args.out, f"{folder}.textproto")
            with open(spec, "w") as file:
                file.write(only(text, stragglers.index(key[0]), policies.index(key[1]), missing))
            times(watched(args, spec, folder), target, real)
    return real


def spread(values):
    return "%6.2f (%5.2f to %5.2f) of %d" % (statistics.median(values), min(values), max(values),
                                             len(values))


def compare(real, simulated, within):
    """Prints the table; whether all ratios are near enough to 1."""
    good = bool(real)
    print("%-11s %-32s %-30s %-30s %s" % ("stragglers", "policy", "real, s", "simulated, s", "ratio"))
    for key, by_seed in simulated.items():
        seeds = sorted(real.get(key, {}).keys() & by_seed.keys())
        values, modelled = [real[key][seed] for seed in seeds], [by_seed[seed] for seed in seeds]
        if not values or None in values or None in modelled:
            print("%-11s %-32s %s" % (*key, "not reached by all" if values else
                                      "all real runs were disturbed"))
            good = False
            continue
        ratio = statistics.median(modelled) / statistics.median(values)
        good = good and abs(ratio - 1) <= within
        print("%-11s %-32s %-30s %-30s %.3f" % (*key, spread(values), spread(modelled), ratio))
    return good


def main():
    source = str(pathlib.Path(__file__).resolve().parent.parent.parent)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default=os.path.join(source, "build/release/bin"))
    parser.add_argument("--spec", default=os.path.join(
        source, "experiment/specs/real-against-simulated.textproto"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--within", type=float, default=0.1)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    args.spec, args.out = os.path.abspath(args.spec), os.path.abspath(args.out)
    os.chdir(source)
    os.makedirs(args.out, exist_ok=True)
    with open(args.spec) as file:
        text = in_full(file.read(), os.path.dirname(args.spec))
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
    real = measure(args, text, target, modelled)
    return 0 if compare(real, modelled, args.within) else 1


if __name__ == "__main__":
    sys.exit(main())
