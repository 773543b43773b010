#!/usr/bin/env python3
"""Makes the pictures of the pages anew: docs/pictures.

    bench/scripts/pictures.py [--bin=build/release/bin] [NAME ...]

NAME: of PICTURES; none: all. Each is made by a command of the repository: timelines by `soapstone plan --svg`, curves
of accuracy from what `soapstone simulate --curve` writes, the report by `soapstone experiment`, as a browser shows it
(Debian: chromium); the dashboard, in such a browser, and the screen of `soapstone top` are of a job that runs here for
half a minute. All but these three come out the same byte for byte.
"""
import argparse
import base64
import contextlib
import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from xml.sax.saxutils import escape

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = "docs/pictures"
BYTES_MAX = 200_000

STALLS = ["--job=examples/digits-lenet5.textproto", "--workers=32", "--batch=128", "--micro_batches=32", "--epochs=20",
          "--schedule=constant", "--stragglers=jitter:sigma=0.2+stall:p=0.02,factor=6", "--seed=1", "--curve_every=256"]
LIVE = ["--config=examples/digits-lenet5.textproto", "--servers=2", "--workers=4", "--policy=ssp:s=2", "--epochs=30",
        "--base_ms=60", "--stragglers=slow:workers=1,factor=2"]
LIVE_S = 20
POLICIES = {"bsp": "momentum:lr=0.08,mu=0.9,decay=1e-4", "ssp:s=4": "sgd:lr=0.3,decay=1e-4"}


def soapstone(options, *words):
    done = subprocess.run([os.path.join(ROOT, options.bin, "soapstone"), *words], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"soapstone {' '.join(words)}: {done.stderr.strip()}")


def plan(*words):
    """A maker of the timeline of that plan."""
    return lambda options, path: soapstone(options, "plan", *words, f"--svg={path}")


def ticks(most):
    """From 0 on, at most seven round numbers."""
    power = 10.0 ** -6
    while True:
        for step in (power, 2 * power, 5 * power):
            if most / step <= 6:
                return [i * step for i in range(int(most / step) + 1)]
        power *= 10


def curves(lines, title, across):
    """An SVG of {name: [(x, share)]}: held-out accuracy from 0 to 1 against x. Lines are told apart by their dashes
    too."""
    width, height, left, top, right, bottom = 700, 320, 50, 40, 20, 45
    most = max(x for points in lines.values() for x, _ in points)

    def place(x, y):
        return left + x / most * (width - left - right), top + (1 - y) * (height - top - bottom)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="12">', f'<rect width="{width}" height="{height}" fill="#fff"/>',
           f'<text x="{left}" y="16" font-size="13">{escape(title)}</text>']
    for x in ticks(most):
        px, py = place(x, 0)
        svg += [f'<path d="M{px:.1f} {py:.1f}V{top}" stroke="#ddd"/>',
                f'<text x="{px:.1f}" y="{py + 16:.1f}" text-anchor="middle">{x:g}</text>']
    for i in range(6):
        px, py = place(0, i / 5)
        svg += [f'<path d="M{px:.1f} {py:.1f}H{width - right}" stroke="#ddd"/>',
                f'<text x="{px - 6:.1f}" y="{py + 4:.1f}" text-anchor="end">{i / 5:g}</text>']
    middle = (left + width - right) / 2
    svg.append(f'<text x="{middle:.1f}" y="{height - 8}" text-anchor="middle">{escape(across)}</text>')
    looks = [("#0072b2", ""), ("#d55e00", ' stroke-dasharray="6 3"')]
    for i, ((name, points), (colour, dashes)) in enumerate(zip(lines.items(), looks)):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        look = f'fill="none" stroke="{colour}" stroke-width="2"{dashes}'
        x = left + 130 * i
        svg += [f'<polyline points="{path}" {look}/>', f'<path d="M{x} 30h30" {look}/>',
                f'<text x="{x + 36}" y="34">{escape(name)}</text>']
    return "\n".join(svg + ["</svg>", ""])


def stalls(options, path):
    lines = {}
    with tempfile.TemporaryDirectory() as scratch:
        for policy, optimizer in POLICIES.items():
            table = os.path.join(scratch, "curve.csv")
            soapstone(options, "simulate", *STALLS, f"--policy={policy}", f"--optimizer={optimizer}",
                      f"--curve={table}")
            with open(table, encoding="ascii", newline="") as file:
                lines[policy] = [(float(row["time_s"]), float(row["test_accuracy"])) for row in csv.DictReader(file)]
    with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
        file.write(curves(lines, "Held-out accuracy of LeNet-5 with 32 workers, 2% of iterations stalled 6x",
                          "virtual time, s"))


def report(options, path):
    """The page's first screens. It is not said where the file lies."""
    with tempfile.TemporaryDirectory() as scratch:
        soapstone(options, "experiment", "experiment/specs/first.textproto", f"--out={scratch}/run")
        done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                               "--window-size=1000,1350", "--virtual-time-budget=5000",
                               f"--screenshot={os.path.join(ROOT, path)}", f"file://{scratch}/run/report.html"],
                              capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"chromium: {done.stderr.strip()}")


@contextlib.contextmanager
def live_job(options):
    """The log folder of a job that runs, with a worker that is slow, and has done so for long enough to be seen."""
    with tempfile.TemporaryDirectory() as scratch:
        job = subprocess.Popen([os.path.join(ROOT, options.bin, "soapstone"), "train", *LIVE, f"--log_dir={scratch}/logs"],
                               cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            time.sleep(LIVE_S)
            if job.poll() is not None:
                sys.exit(f"soapstone train {' '.join(LIVE)} has ended with {job.returncode}")
            yield f"{scratch}/logs"
        finally:
            job.send_signal(signal.SIGTERM)
            job.wait()


def dashboard(options, path):
    sys.path.append(os.path.join(ROOT, "tests/dashboard"))
    from browser import Browser  # pylint: disable=import-outside-toplevel
    with live_job(options) as logs, open(f"{logs}/http", encoding="ascii") as file, \
            tempfile.TemporaryDirectory() as scratch:
        browser = Browser(f"{scratch}/profile")
        browser.open(file.read().strip() + "/", width=1000, height=1290)
        time.sleep(12)  # readings of ten seconds
        picture = browser.picture()
        browser.close()
    with open(os.path.join(ROOT, path), "wb") as file:
        file.write(base64.b64decode(picture))


def top(options, path):
    """A terminal's text as SVG."""
    with live_job(options) as logs:
        done = subprocess.run([os.path.join(ROOT, options.bin, "soapstone"), "top", logs, "--once"], capture_output=True,
                              text=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    lines = done.stdout.splitlines()
    width, height = 8 + round(7.25 * max(map(len, lines))), 12 + 17 * len(lines)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="monospace" font-size="12" fill="#e6edf3">', f'<rect width="{width}" height="{height}" fill="#0d1117"/>']
    svg += [f'<text x="8" y="{20 + 17 * i}" xml:space="preserve">{escape(line)}</text>' for i, line in enumerate(lines) if line]
    with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
        file.write("\n".join([*svg, "</svg>", ""]))


PICTURES = {
    "plan.svg": plan("--model=alexnet", "--machine=examples/machines/p100_4x4.machine.textproto", "--devices=4",
                     "--proposals=1500"),
    "pipeline.svg": plan("--model=rnnlm", "--machine=examples/machines/k80_16x4.machine.textproto", "--devices=4",
                         "--batch=16", "--search=gpipe", "--micro_batches=4"),
    "stalls.svg": stalls,
    "report.png": report,
    "dashboard.png": dashboard,
    "top.svg": top,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    for name in options.names or PICTURES:
        if name not in PICTURES:
            sys.exit(f"no picture {name}; there are {', '.join(PICTURES)}")
        path = f"{FOLDER}/{name}"
        os.makedirs(os.path.join(ROOT, FOLDER), exist_ok=True)
        PICTURES[name](options, path)
        size = os.path.getsize(os.path.join(ROOT, path))
        if size > BYTES_MAX:
            sys.exit(f"{path} has {size} bytes; a page's picture has {BYTES_MAX} at most")
        print(path, size, flush=True)


if __name__ == "__main__":
    main()
