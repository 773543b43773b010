#!/usr/bin/env python3
"""How long a program takes to start in the image, beside the same program without it: medians of nine, by turns.

BIN has `soapstone`; IMAGE is there for podman. `--version` runs to its end: the loader, all libraries, and out. A container
that is made already is started as well: what Kubernetes or podman take to make one is no start of the image. Ends with 0;
what it prints is for docs/deploy.md."""
import argparse
import pathlib
import statistics
import subprocess
import time

CLOSED = ["--network=none", "--read-only", "--user=65532", "--cap-drop=all", "--security-opt=no-new-privileges"]
TURNS = 9


def seconds_of(*command):
    began = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=60)
    return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--image", default="localhost/soapstone:dev")
    options = parser.parse_args()
    made = subprocess.run(["podman", "create", *CLOSED, options.image, "--version"], stdout=subprocess.PIPE, text=True,
                          check=True, timeout=60).stdout.strip()
    ways = {"without": [options.bin / "soapstone", "--version"],
            "started": ["podman", "start", "--attach", made],
            "made, started, removed": ["podman", "run", "--rm", *CLOSED, options.image, "--version"]}
    times = {way: [] for way in ways}
    try:
        for turn in range(TURNS + 1):
            for way in list(ways)[::1 if turn % 2 else -1]:
                took = seconds_of(*ways[way])
                if turn > 0:  # the first fills caches
                    times[way].append(took)
    finally:
        subprocess.run(["podman", "rm", "--force", made], stdout=subprocess.DEVNULL, check=True, timeout=60)
    bare = statistics.median(times["without"])
    for way, took in times.items():
        low, middle, high = statistics.quantiles(took, n=4)
        print(f"try: {way}: {middle:.3f} s [{low:.3f} {high:.3f}], {middle - bare:.3f} s over the bare process")


if __name__ == "__main__":
    main()
