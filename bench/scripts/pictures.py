#!/usr/bin/env python3
"""Makes the pictures of the pages anew: docs/pictures.

    bench/scripts/pictures.py [--bin=build/release/bin] [NAME ...]

NAME: of PICTURES; none: all. Each is made by a command of the repository: timelines by `soapstone plan --svg`, curves
of accuracy from what `soapstone simulate --curve` writes, the report by `soapstone experiment`, as a browser shows it
(Debian: chromium); the dashboard, in such a browser, and the screen of `soapstone top` are of a job that runs here for
half a minute; timelines of examples with a strategy are what `soapstone timeline` makes of a run here. All but these
five come out the same byte for byte.
"""
import argparse
import base64
import collections
import contextlib
import csv
import json
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


SEAT_COLOURS = {"forward": "#56b4e9", "backward": "#e69f00", "rest": "#bbbbbb"}


def runs_of(slices, least_us):
    """[(begin, end, kind, clock)] of slices, those that follow each other within `least_us` and are alike as one."""
    merged = []
    for begin, end, kind, clock in sorted(slices):
        if merged and merged[-1][2:] == [kind, clock] and begin - merged[-1][1] < least_us:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end, kind, clock])
    return merged


def seats(trace, clocks, title):
    """An SVG of these clocks of a job's timeline: two rows a worker, what was planned and what its device did, with the
    clock in each stretch that has room for it; and an arrow for each block between workers."""
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    rows = collections.defaultdict(list)
    for e in trace:
        track = names.get((e.get("pid"), e.get("tid")))
        kind = e["name"].split()[0]
        if e["ph"] != "X" or track not in ("device", "planned") or e["args"]["clock"] not in clocks:
            continue
        if kind in SEAT_COLOURS:
            rows[e["pid"], track == "device"].append((e["ts"], e["ts"] + e["dur"], kind, e["args"]["clock"]))
    ends = [time for row in rows.values() for slice_ in row for time in slice_[:2]]
    first, last = min(ends), max(ends)
    width, left, right, top, height = 1000, 110, 10, 44, 20
    places = {row: top + 26 * i + 8 * (i // 2) for i, row in enumerate(sorted(rows))}

    def x(time):
        return left + (time - first) / (last - first) * (width - left - right)
    bottom = max(places.values()) + height
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 36}" viewBox="0 0 {width} '
           f'{bottom + 36}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{bottom + 36}" fill="#fff"/>',
           f'<text x="{left}" y="16" font-size="13">{escape(title)}</text>']
    for i, (kind, colour) in enumerate(list(SEAT_COLOURS.items())[:2]):
        svg.append(f'<rect x="{left + 90 * i}" y="24" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{left + 90 * i + 18}" y="34">{kind}</text>')
    for ms in ticks((last - first) / 1000):
        at = x(first + 1000 * ms)
        svg.append(f'<path d="M{at:.1f} {top - 4}V{bottom + 4}" stroke="#ddd"/>'
                   f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{ms:g}</text>')
    svg.append(f'<text x="{width - right}" y="{bottom + 32}" text-anchor="end">ms</text>')
    for (worker, ran), y in places.items():
        what = f"worker {worker}" if ran else "planned"
        svg.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{what}</text>')
        opacity = 1 if ran else 0.5
        for begin, end, kind, clock in runs_of(rows[worker, ran], (last - first) / 1500):
            wide = x(end) - x(begin)
            svg.append(f'<rect x="{x(begin):.1f}" y="{y}" width="{max(wide, 0.5):.1f}" height="{height}" '
                       f'fill="{SEAT_COLOURS[kind]}" fill-opacity="{opacity}"/>')
            if wide > 8 + 6 * len(str(clock)):
                svg.append(f'<text x="{(x(begin) + x(end)) / 2:.1f}" y="{y + 14}" text-anchor="middle">{clock}</text>')
    svg += arrows(trace, lambda e: (x(e["ts"]), places.get((e["pid"], True), 0) + height / 2), (first, last), names)
    return "\n".join([*svg, "</svg>", ""])


def arrows(trace, place, between, names):
    begins = {e["id"]: e for e in trace if e["ph"] == "s"}
    drawn = []
    for e in trace:
        if e["ph"] != "f" or names.get((e["pid"], e["tid"])) != "device":
            continue
        begin = begins[e["id"]]
        if begin["ts"] < between[0] or e["ts"] > between[1]:
            continue
        (x1, y1), (x2, y2) = place(begin), place(e)
        drawn.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="#444" stroke-width="0.6"/>'
                     f'<circle cx="{x2:.1f}" cy="{y2:.1f}" r="1.5" fill="#444"/>')
    return drawn


def measured(example, clocks, title, *flags):
    """A maker of the timeline of some clocks of an example, as it runs here."""
    def make(options, path):
        wanted = f"{clocks.start}:{clocks.stop}"
        with tempfile.TemporaryDirectory() as scratch:
            soapstone(options, "train", f"--config=examples/{example}.textproto", f"--timeline={scratch}/events",
                      f"--timeline_clocks={wanted}", f"--log_dir={scratch}/logs", f"--model_path={scratch}/m.safetensors",
                      "--http=off", *flags)
            soapstone(options, "timeline", f"{scratch}/events", f"--clocks={wanted}")
            with open(f"{scratch}/events/timeline.json", encoding="utf-8") as file:
                trace = json.load(file)["traceEvents"]
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
            file.write(seats(trace, clocks, title))
    return make


PICTURES = {
    "plan.svg": plan("--model=alexnet", "--machine=examples/machines/p100_4x4.machine.textproto", "--devices=4",
                     "--proposals=1500"),
    "pipeline.svg": plan("--model=rnnlm", "--machine=examples/machines/k80_16x4.machine.textproto", "--devices=4",
                         "--batch=16", "--search=gpipe", "--micro_batches=4"),
    "stalls.svg": stalls,
    "report.png": report,
    "dashboard.png": dashboard,
    "top.svg": top,
    "hybrid.svg": measured("digits-alexnet", range(20, 23), "Three steps of a hybrid AlexNet on two workers: planned, and "
                           "as they ran", "--epochs=2"),
    "stages.svg": measured("text-transformer", range(40, 46), "Six steps of a transformer in four stages, four of them "
                           "under way: planned, and as they ran"),
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
