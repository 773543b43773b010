#!/usr/bin/env python3
"""How long a small urgent message waits behind large ones on a slow link, and what of the link they get.

    bench/scripts/urgent_on_shaped_link.py [--bin=build/release/bin] [--rates=100,1000] [--control=cubic,bbr]

Needs root: as bench/scripts/schedule_on_shaped_link.py does, it puts the two ends into network namespaces, joined
by a pair of veth devices that tc (tbf) limits. The sender keeps messages of 1 MB queued, and sends an
urgent one of 16 bytes every 10 ms (soapstone-urgent-bench). Two ways, in turn, repeated:

    fixed       the kernel takes what it likes, up to 512 KiB of it not sent yet
    adapts      a window of about 1 ms at the rate of the link (transport/tcp/send_window.h)

Prints medians of the runs. Exit code 1: a median delay does not fall, or the throughput falls by more
than a twentieth.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

import schedule_on_shaped_link as link

WAYS = [("fixed", ["--fixed"]), ("adapts", [])]
PATIENCE_S = 120


def start(args, namespace, role, flags):
    command = ["ip", "netns", "exec", namespace, os.path.join(args.bin, "soapstone-urgent-bench"), role,
               f"--host={link.ADDRESS}", f"--seconds={args.seconds}", f"--warm_up={args.warm_up}", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run(args, flags):
    """What the receiver and the sender say."""
    receiver = start(args, link.SERVER, "receive", flags)
    sender = None
    try:
        receiver.stdout.readline()
        sender = start(args, link.WORKERS, "send", flags)
        sent = json.loads(sender.communicate(timeout=PATIENCE_S)[0])
        return {**json.loads(receiver.communicate(timeout=PATIENCE_S)[0]), **sent}
    finally:
        for process in (receiver, sender):
            if process is not None:
                if process.poll() is None:
                    process.kill()
                process.wait()


def measure(args, rate_mbps, control):
    link.set_up(rate_mbps)
    found = {name: [] for name, _ in WAYS}
    for _ in range(args.repeats):
        for name, flags in WAYS:
            found[name].append(run(args, [f"--control={control}", *flags]))
    print(f"\n{rate_mbps} Mb/s ({rate_mbps / 8:.1f} MB/s), {control}")
    for name, _ in WAYS:
        middle = {key: statistics.median(r[key] for r in found[name]) for key in found[name][0]}
        print(f"  {name:8} urgent after {middle['p50_ms']:7.2f} ms at the median, {middle['p99_ms']:7.2f} at 99 %"
              f" ({min(r['p50_ms'] for r in found[name]):.2f} to {max(r['p50_ms'] for r in found[name]):.2f})"
              f"   {middle['mb_per_s']:7.2f} MB/s   window {middle['window_bytes'] / 1024:.0f} KiB,"
              f" rate {middle['rate_mb_per_s']:.1f} MB/s", flush=True)
    middle = {name: (statistics.median(r["p50_ms"] for r in found[name]),
                     statistics.median(r["mb_per_s"] for r in found[name])) for name, _ in WAYS}
    return (middle["adapts"][0] < middle["fixed"][0] and
            middle["adapts"][1] > 0.95 * middle["fixed"][1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--rates", default="100,1000", help="Mb/s")
    parser.add_argument("--control", default="cubic,bbr", help="of congestion, as the kernel names them")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warm_up", type=float, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        sys.exit("needs root, ip and tc (iproute2): the link is shaped between network namespaces")
    if not os.access(os.path.join(args.bin, "soapstone-urgent-bench"), os.X_OK):
        sys.exit(f"{args.bin} has no soapstone-urgent-bench: build the target bench_tools, or say --bin=FOLDER")
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as known:
        available = known.read().split()
    controls = [control for control in args.control.split(",") if control in available]
    try:
        falls = [measure(args, int(rate), control)
                 for rate in args.rates.split(",") for control in controls]
    finally:
        link.take_down()
    sys.exit(0 if falls and all(falls) else 1)


if __name__ == "__main__":
    main()
