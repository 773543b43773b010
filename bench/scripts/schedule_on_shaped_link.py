#!/usr/bin/env python3
"""What the order of communication gains on a slow link: one server, some workers, a VGG-like profile.

    bench/scripts/schedule_on_shaped_link.py [--bin=build/release/bin] [--rate_mbps=1000] [--ratios=0.5,1,2]

Needs root: the server and the workers are put into two network namespaces, joined by a pair of veth
devices that tc (tbf) limits to the rate in each direction, as a server's port would be. Each worker runs
the real engine, transport and shards under bsp; its device takes as long for each layer as VGG-16's
multiplications say, and sends gradients of the sizes of VGG-16's layers, both scaled
(bench/profile_device.h). With B the bytes of the parameters, W the workers and r the rate, a direction is
busy for D = W B / r a step, and a step computes for C = ratio x D. What there is to gain:

    fifo       C/3 + max(2C/3, D) + D    gradients leave while the backward pass (2C/3) runs, from the last
                                         layer on; then all parameters are awaited, then forward (C/3)
    at best    max(C, D)                 both directions and the device always busy

Four ways, in turn, repeated:

    fifo         one shard, all of it awaited before the forward pass: what --communication=fifo does
    fifo, sliced the same with as many shards as the others
    stages       shards by layers, asked ahead, loaded one by one; messages in the order they were made
    priority     the same, and earlier layers first: what --communication=priority does

Prints the median and the range of steps a second, the gain over fifo, the time a step in which the device
had nothing to do (exposed communication), and whether the parameters' hashes are the same. Exit code 1: a
hash differs, or priority gains less than --at_least over fifo at every ratio.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

SERVER, WORKERS = "soapstone-server-end", "soapstone-worker-end"
ADDRESS, PORT = "10.213.77.1", 7917
VGG16_WEIGHTS = 138_344_128
PATIENCE_S = 300
WAYS = [("fifo", ["--shards=1"]),
        ("fifo, sliced", []),
        ("stages", ["--stages"]),
        ("priority", ["--stages", "--priority"])]


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def take_down():
    for name in (SERVER, WORKERS):
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def set_up(rate_mbps):
    """Two namespaces, and a link between them that carries so much in each direction."""
    take_down()
    for name in (SERVER, WORKERS):
        ip("netns", "add", name)
    ip("link", "add", "soap0", "netns", SERVER, "type", "veth", "peer", "name", "soap1", "netns",
       WORKERS)
    for name, device, address in ((SERVER, "soap0", ADDRESS), (WORKERS, "soap1", "10.213.77.2")):
        ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
        ip("-n", name, "link", "set", device, "up")
        subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                        f"{rate_mbps}mbit", "burst", "256kb", "latency", "20ms"], check=True)


def start(args, namespace, role, *flags):
    command = ["ip", "netns", "exec", namespace, os.path.join(args.bin, "soapstone-schedule-bench"),
               role, f"--endpoint=tcp://{ADDRESS}:{PORT}", f"--workers={args.workers}",
               f"--steps={args.steps}", f"--scale={args.scale}", f"--shards={args.shards}", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run(args, flags, compute_s):
    """What the workers say."""
    if "--shards=1" in flags:
        args = argparse.Namespace(**{**vars(args), "shards": 1})
        flags = [flag for flag in flags if flag != "--shards=1"]
    server = start(args, SERVER, "server", *flags)
    workers = []
    try:
        server.stdout.readline()
        workers = [start(args, WORKERS, "worker", f"--rank={rank}", f"--compute_s={compute_s:.6f}",
                         f"--warm_up={args.warm_up}", *flags) for rank in range(args.workers)]
        return [json.loads(worker.communicate(timeout=PATIENCE_S)[0]) for worker in workers]
    finally:
        for process in [server, *workers]:
            if process.poll() is None:
                process.kill()
            process.wait()


def measure(args, ratio, direction_s):
    compute_s = ratio * direction_s
    expected = compute_s / 3 + max(2 * compute_s / 3, direction_s) + direction_s
    best = max(compute_s, direction_s)
    print(f"\ncompute {compute_s:.3f} s a step, {ratio:g} of the time that a direction of the link needs; "
          f"by arithmetic fifo {1 / expected:.3f} steps/s, at best {1 / best:.3f} "
          f"({expected / best:.2f}x)", flush=True)
    found = {name: [] for name, _ in WAYS}
    for _ in range(args.repeats):
        for name, flags in WAYS:
            found[name].append(run(args, flags, compute_s))
            time.sleep(0.2)
    hashes = {worker["sha256"] for runs in found.values() for workers in runs for worker in workers}
    rates = {name: [min(w["steps_per_s"] for w in workers) for workers in runs]
             for name, runs in found.items()}
    fifo = statistics.median(rates["fifo"])
    for name, _ in WAYS:
        exposed = statistics.median(max(w["exposed_s"] for w in workers) for workers in found[name])
        middle = statistics.median(rates[name])
        print(f"  {name:14} {middle:7.3f} steps/s ({min(rates[name]):.3f} to {max(rates[name]):.3f})"
              f"  {middle / fifo:5.2f}x   exposed {exposed:.3f} s a step", flush=True)
    print(f"  parameters, sha256: {'all the same, ' + min(hashes)[:16] if len(hashes) == 1 else 'DIFFERENT'}",
          flush=True)
    return statistics.median(rates["priority"]) / fifo, len(hashes) == 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--rate_mbps", type=int, default=1000)
    parser.add_argument("--ratios", default="0.5,1,2", help="of compute to D")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--scale", type=int, default=32)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--warm_up", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--at_least", type=float, default=1.25)
    args = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        sys.exit("needs root, ip and tc (iproute2): the link is shaped between network namespaces")
    if not os.access(os.path.join(args.bin, "soapstone-schedule-bench"), os.X_OK):
        sys.exit(f"{args.bin} has no soapstone-schedule-bench: build the target bench_tools, or say --bin=FOLDER")
    parameter_bytes = 4 * VGG16_WEIGHTS / args.scale
    direction_s = args.workers * parameter_bytes * 8 / (args.rate_mbps * 1e6)
    print(f"VGG-16 / {args.scale}: {parameter_bytes / 1e6:.1f} MB of parameters, {args.workers} workers, "
          f"{args.rate_mbps} Mb/s each way: a direction is busy for {direction_s:.3f} s a step")
    try:
        set_up(args.rate_mbps)
        results = [measure(args, float(ratio), direction_s) for ratio in args.ratios.split(",")]
    finally:
        take_down()
    same = all(same for _, same in results)
    sys.exit(0 if same and max(gain for gain, _ in results) >= args.at_least else 1)


if __name__ == "__main__":
    main()
