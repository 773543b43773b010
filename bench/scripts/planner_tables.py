#!/usr/bin/env python3
"""Plans of FlexFlow's six networks on its two clusters, beside what the paper and its talk published.

    bench/scripts/planner_tables.py [--bin=build/release/bin] [--budget=20] [--out=FILE.json] [--models=A,B] [--machines=p100_4x4,k80_16x4] [--sync=owner]

For every network and machine, by `soapstone plan` with the roofline's costs: the simulated step of data
parallelism, of the expert's strategy, of what OptCNN finds, and of what the random walk finds, each
under the synchronization of the paper (`--sync=owner`: a parameter's first device takes in all
gradients and sends the parameter back), and the last and data parallelism once more under whichever
synchronization suits best. `gain` is data parallelism over found, both as in the paper; the published gain
is over the best of data parallelism and expert where the paper gives it so. `bytes` are what a step moves.

    bench/scripts/planner_tables.py --longer=10 --machines=k80_16x4 --budget=6

instead searches twice under whichever synchronization suits best, the second time for ten times as
long, and prints by how much that is better.

    bench/scripts/planner_tables.py --devices=2,4,8 --machines=p100_4x4 --budget=10

instead searches on the first devices of the machine, and prints whether what was found is certified:
no other configuration of one operator makes it faster.
"""
import argparse
import json
import os
import subprocess
import sys

MODELS = ["alexnet", "resnet101", "inception_v3", "rnntc", "rnnlm", "gnmt"]
PUBLISHED = {"alexnet": 3.3, "resnet101": 1.1, "inception_v3": 1.6, "rnntc": 1.7, "rnnlm": 1.9, "gnmt": 2.4}
RECURRENT = {"rnntc", "rnnlm", "gnmt"}


def plan(options, model, machine, search, sync, budget, devices=None):
    """The chosen strategy of one `soapstone plan`, with the search's line."""
    command = [
        os.path.join(options.bin, "soapstone"), "plan", f"--model={model}", f"--search={search}",
        f"--machine=examples/machines/{machine}.machine.textproto", f"--budget={budget}s", "--json",
    ]
    if model in RECURRENT:
        command.append("--time_chunk=8")
    if devices:
        command.append(f"--devices={devices}")
    if sync:
        command.append(f"--sync={sync}")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    chosen = result["strategies"][0]
    return {
        "search": search, "sync": chosen["synchronization"], "line": result["search"],
        "certified": "no change of one operator" in result["search"],
        "ms": chosen["step_ns"] / 1e6, "fits": chosen["overflow_bytes"] == 0,
        "gb": (chosen["transfer_bytes"] + chosen["synchronization_bytes"]) / 1e9,
    }


def measure(options, model, machine):
    row = {"model": model, "machine": machine, "published": PUBLISHED[model]}
    for name, search, sync in [
        ("data", "data", "owner"), ("expert", "expert", "owner"), ("optcnn", "optcnn", "owner"),
        ("found", "mcmc", "owner"), ("data_best", "data", ""), ("found_best", "mcmc", ""),
    ]:
        row[name] = plan(options, model, machine, search, sync, options.budget)
    row["gain"] = row["data"]["ms"] / row["found"]["ms"]
    return row


def published(options, machine, model):
    row = measure(options, model, machine)
    best = row["data_best"]["ms"] / row["found_best"]["ms"]
    print(f"| {model} | {machine} | {row['data']['ms']:.1f} | {row['expert']['ms']:.1f} "
          f"| {row['optcnn']['ms']:.1f} | {row['found']['ms']:.1f} | {row['gain']:.2f} "
          f"| {row['published']} | {100 * row['gain'] / row['published']:.0f} "
          f"| {row['data']['gb']:.1f}, {row['found']['gb']:.1f} GB | {row['data_best']['ms']:.1f} "
          f"| {row['found_best']['ms']:.1f} {row['found_best']['sync']} | {best:.2f} |", flush=True)
    return row


def longer(options, machine, model):
    row = {"model": model, "machine": machine}
    for name, budget in [("found", options.budget), ("longer", options.budget * options.longer)]:
        row[name] = plan(options, model, machine, "mcmc", options.sync, budget)
    row["more"] = row["found"]["ms"] / row["longer"]["ms"] - 1
    print(f"| {model} | {machine} | {row['found']['ms']:.2f} {row['found']['sync']} "
          f"| {row['longer']['ms']:.2f} {row['longer']['sync']} | {100 * row['more']:.2f}% |", flush=True)
    return row


def certified(options, machine, model):
    row = {"model": model, "machine": machine}
    cells = []
    for devices in options.devices.split(","):
        found = row[devices] = plan(options, model, machine, "mcmc", options.sync, options.budget, devices)
        cells.append(f"{found['ms']:.2f} {found['sync']}{'' if found['certified'] else ', not certified'}")
    print(f"| {model} | {machine} | {' | '.join(cells)} |", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--budget", type=float, default=20, help="seconds of each search")
    parser.add_argument("--longer", type=float, default=0, help="search again for so many times as long")
    parser.add_argument("--devices", default="", help="numbers of devices, on which to certify what is found")
    parser.add_argument("--sync", default="", help="of --longer and --devices: owner, ring or servers [any]")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--machines", default="p100_4x4,k80_16x4")
    parser.add_argument("--out", help="write all numbers to this file")
    options = parser.parse_args()
    columns = ["data ms", "expert", "OptCNN", "found", "gain", "published", "% of it",
               "data, found: bytes", "best sync: data", "found", "gain"]
    table = published
    if options.longer > 0:
        columns = [f"found in {options.budget:g} s, ms", f"{options.longer:g} times as long", "better by"]
        table = longer
    elif options.devices:
        columns = [f"{devices} devices, ms" for devices in options.devices.split(",")]
        table = certified
    print("| " + " | ".join(["network", "machine", *columns]) + " |")
    print("|---" * (2 + len(columns)) + "|", flush=True)
    rows = [table(options, machine, model)
            for machine in options.machines.split(",") for model in options.models.split(",")]
    if options.out:
        with open(options.out, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
