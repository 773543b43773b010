#!/usr/bin/env python3
"""Step times of data parallelism: the planner's prediction beside real processes, on this machine.

    bench/scripts/predicted_against_real.py [--bin=build/release/bin] [--data=../shared/data] [--models=..] --out=DIR

Of each model, for 1, 2, .. WORKERS workers and one server under bsp with plain SGD, a batch a worker,
and ROUNDS times over:

    costs      soapstone profile --costs: the operators at the workers' batch, alone on the machine
    real       soapstone train: the median time from the end of a worker's iteration to its next one's,
               without the first WARM_UP
    machine    soapstone plan --measure_machine --devices=WORKERS --model --batch --costs: how much slower
               so many processes are together, and what servers take for parameters (of another model)
    predicted  soapstone plan --search=data --sync=servers with costs and machine

The medians of what is predicted and of what is real are compared. One is measured right behind the
other, as a virtual machine's speed may change by half within minutes. Nothing is fitted to the runs
that are predicted. Prints a table, the mean absolute error, and how many
pairs of step times are in the same order (all pairs of one model, and Kendall's tau over all runs);
writes them, with all rounds, to DIR/results.json. What is there already is added to: models and rounds
can be measured a few at a time. Exit code 1: the error is over --within, or a pair of one model
is in another order.

Processes that do other work take part in what is measured: run it with nothing else running.
"""
import argparse
import csv
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROUNDS = 3
WARM_UP = 10
IMAGES = ["--data_format=idx", "--data_path={data}/mnist/train-images-idx3-ubyte.gz",
          "--labels_path={data}/mnist/train-labels-idx1-ubyte.gz",
          "--test_path={data}/mnist/t10k-images-idx3-ubyte.gz",
          "--test_labels_path={data}/mnist/t10k-labels-idx1-ubyte.gz"]


def text(length):
    # Vocabulary and length are those that the model has without data, as the planner takes it.
    return ["--data_format=words", "--data_path={data}/tinyshakespeare/input.txt",
            f"--length={length}", "--vocabulary=64"]


# Model: batch of a worker, epochs, data.
MODELS = {
    "lenet5": (256, 1, IMAGES),
    "mlp:hidden=1024": (256, 1, IMAGES),
    "rnnlm:tiny,hidden=256": (64, 1, text(16)),
    "transformer_lm:tiny": (64, 1, text(32)),
}


def run(args, *command):
    done = subprocess.run([os.path.join(args.bin, "soapstone"), *command], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"soapstone {' '.join(command)}: exit code {done.returncode}\n"
                 f"{done.stdout}{done.stderr}")
    return done.stdout


def real_step_ms(args, model, workers):
    """(median, number of steps) of one run."""
    batch, epochs, data = MODELS[model]
    trace = os.path.join(args.out, "trace.csv")
    run(args, "train", f"--model={model}", *[flag.format(data=args.data) for flag in data],
        "--policy=bsp", "--optimizer=sgd:lr=0.01", f"--workers={workers}", "--servers=1",
        f"--batch={batch * workers}", f"--epochs={epochs * args.epochs}", f"--record_trace={trace}",
        f"--log_dir={os.path.join(args.out, 'log')}")
    ends = {}
    with open(trace) as file:
        for row in csv.DictReader(file):
            ends.setdefault(row["worker"], []).append(float(row["end_us"]))
    steps = [(after - before) / 1000 for of_worker in ends.values()
             for before, after in itertools.pairwise(of_worker[WARM_UP:])]
    return statistics.median(steps), len(steps) // workers


def predict(args, model, workers, costs, machine):
    batch = MODELS[model][0]
    plan = json.loads(run(args, "plan", f"--model={model}", f"--machine={machine}",
                          f"--costs={costs}", f"--batch={batch * workers}", "--search=data",
                          "--sync=servers", "--json"))
    step = plan["strategies"][0]
    return {"step_ms": step["step_ns"] / 1e6, "compute_ms": step["compute_ns"] / 1e6,
            "synchronization_ms": step["synchronization_ns"] / 1e6}


def measure_round(args, model, row):
    """Adds a prediction and a real run to the row."""
    costs = os.path.join(args.out, "costs.textproto")
    profile = json.loads(run(args, "profile", f"--model={model}", f"--batch={MODELS[model][0]}",
                             f"--seconds={args.seconds}", f"--costs={costs}", "--json"))
    workers = row["workers"]
    step, row["steps"] = real_step_ms(args, model, workers)
    row["real_ms"].append(step)
    machine = os.path.join(args.out, f"machine-{workers}.textproto")
    run(args, "plan", f"--measure_machine={machine}", f"--devices={workers}", f"--model={model}",
        f"--batch={MODELS[model][0]}", f"--costs={costs}")
    row["predictions"].append(predict(args, model, workers, costs, machine))
    row["predictions"][-1]["alone_ms"] = profile["step_ns"] / 1e6
    row["predicted"] = statistics.median(each["step_ms"] for each in row["predictions"])
    row["real"] = statistics.median(row["real_ms"])
    row["error"] = row["predicted"] / row["real"] - 1


def measure(args, model, before):
    """The model's rows, which may have rounds from before."""
    rows = [row for row in before if row["model"] == model] or [
        {"model": model, "batch": MODELS[model][0] * workers, "workers": workers,
         "predictions": [], "real_ms": []} for workers in range(1, args.workers + 1)]
    for _ in range(args.rounds):
        for row in rows:
            measure_round(args, model, row)
    return rows


def order(rows):
    """(pairs of rows in the same order by prediction and in reality, all pairs)"""
    pairs = list(itertools.combinations(rows, 2))
    same = sum((a["predicted"] - b["predicted"]) * (a["real"] - b["real"]) > 0
               for a, b in pairs)
    return same, len(pairs)


def summarize(rows):
    by_model = {}
    for row in rows:
        by_model.setdefault(row["model"], []).append(row)
    within = [order(of_model) for of_model in by_model.values()]
    same, pairs = order(rows)
    return {"mean_absolute_error": statistics.mean(abs(row["error"]) for row in rows),
            "same_order_within_models": sum(s for s, _ in within),
            "pairs_within_models": sum(n for _, n in within),
            "same_order": same, "pairs": pairs, "kendall_tau": (2 * same - pairs) / max(pairs, 1)}


def show(rows, summary):
    print("%-22s %7s %7s %12s %9s  %s" % ("model", "batch", "workers", "predicted ms", "real ms",
                                          "error"))
    for row in rows:
        print("%-22s %7d %7d %12.2f %9.2f %+5.1f %%" % (
            row["model"], row["batch"], row["workers"], row["predicted"], row["real"], 100 * row["error"]))
    print("mean absolute error %.1f %%; in the same order: %d of %d pairs of one model, %d of %d of "
          "all (Kendall's tau %.2f)" % (100 * summary["mean_absolute_error"],
                                        summary["same_order_within_models"],
                                        summary["pairs_within_models"], summary["same_order"],
                                        summary["pairs"], summary["kendall_tau"]))


def main():
    source = str(pathlib.Path(__file__).resolve().parent.parent.parent)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default=os.path.join(source, "build/release/bin"))
    parser.add_argument("--data", default=os.path.join(source, "../shared/data"),
                        help="folder with mnist/ and tinyshakespeare/")
    parser.add_argument("--models", default=";".join(MODELS), help="with ; between")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--epochs", type=int, default=1, help="times as many as usual")
    parser.add_argument("--seconds", type=float, default=0.4, help="of a profile at each batch size")
    parser.add_argument("--within", type=float, default=0.15)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    args.out = os.path.abspath(args.out)
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, "results.json")
    rows = []
    if os.path.exists(path):
        with open(path) as file:
            rows = json.load(file)["rows"]
    for model in filter(None, args.models.split(";")):
        if model not in MODELS:
            sys.exit(f"--models: {model} is none of {', '.join(MODELS)}")
        rows = [row for row in rows if row["model"] != model] + measure(args, model, rows)
        with open(path, "w") as file:
            json.dump({"rows": rows, "summary": summarize(rows)}, file, indent=1)
    summary = summarize(rows)
    show(rows, summary)
    ordered = summary["same_order_within_models"] == summary["pairs_within_models"]
    return 0 if ordered and summary["mean_absolute_error"] <= args.within else 1


if __name__ == "__main__":
    sys.exit(main())
