#!/usr/bin/env python3
"""deploy/monitoring/dashboards: each prints a dashboard whose expressions Prometheus parses and whose series, labels and
values are of docs/metrics.md; each series of it is on one of them; panels have a place of their own.

  dashboards_test.py BIN
Ends with 77, loudly, where jsonnet, promtool or python3-yaml cannot be had."""
import copy
import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from promtool import promtool  # noqa: E402
from rules_test import ROOT, catalogue, strangers  # noqa: E402

FOLDER = ROOT / "deploy/monitoring/dashboards"
TOOL = None
LIBRARY_LINES_MAX = 80
CHOSEN = re.compile(r'job=~"\$job"(?:, )?')


@functools.lru_cache(maxsize=None)
def boards():
    """{name: dashboard} of all."""
    return {file.stem: json.loads(subprocess.run(["jsonnet", file], capture_output=True, text=True, timeout=60,
                                                 check=True).stdout) for file in sorted(FOLDER.glob("*.jsonnet"))}


def expressions(board):
    """What its panels ask for, as Prometheus is asked for it: of all jobs, over a minute."""
    return [CHOSEN.sub("", target["expr"]).replace("$__rate_interval", "1m")
            for panel in board["panels"] for target in panel["targets"]]


def known_series():
    """{series: labels}, those of histograms by each of their names."""
    found = catalogue()
    histograms = re.findall(r'"(\w+)",\s*kHistogram', (ROOT / "observe/metrics/catalogue.cc").read_text())
    for name in histograms:
        labels = found.pop(name)
        found.update({f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels})
    return found


def unparsed(several):
    """What promtool says of expressions that it does not parse."""
    rules = [{"record": f"expression:{i}", "expr": expression} for i, expression in enumerate(several)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "rules.yml")
        path.write_text(json.dumps({"groups": [{"name": "expressions", "rules": rules}]}))  # which is YAML too
        run = subprocess.run([TOOL, "check", "rules", path], capture_output=True, text=True, timeout=60)
    return "" if run.returncode == 0 else run.stdout + run.stderr


def misplaced(board):
    """Panels that reach out of the board, or into another; two of one number or title."""
    found = []
    cells = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        if place["x"] + place["w"] > 24 or min(place.values()) < 0 or not panel["targets"]:
            found.append(panel["title"])
        for cell in itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])):
            if cells.setdefault(cell, panel["title"]) != panel["title"]:
                found.append(f"{panel['title']} over {cells[cell]}")
    for key in ("id", "title"):
        values = [panel[key] for panel in board["panels"]]
        found += [f"two of {key} {value}" for value in set(values) if values.count(value) > 1]
    return found


def odd_legends(board, labels):
    return [label for panel in board["panels"] for target in panel["targets"]
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]) if label not in labels]


class DashboardsTest(unittest.TestCase):
    def setUp(self):
        self.values = (ROOT / "apps/node/node_status.cc").read_text() + \
            (ROOT / "apps/daemon/node_main.cc").read_text()
        self.known = known_series()
        self.labels = set().union(*self.known.values())

    def test_names_are_of_the_catalogue(self):
        self.assertEqual(set(boards()), {"job", "worker", "shard", "wire"})
        for name, board in boards().items():
            for expression in expressions(board):
                self.assertEqual(strangers(expression, self.known, self.values), [], f"{name}: {expression}")
            self.assertEqual(odd_legends(board, self.labels), [], name)

    def test_each_series_is_on_one(self):
        shown = " ".join(itertools.chain(*map(expressions, boards().values())))
        missing = [name for name in catalogue() if not re.search(rf"\b{name}(_bucket)?\b", shown)]
        self.assertEqual(missing, [])

    def test_each_is_of_the_jobs_that_are_chosen(self):
        for board in boards().values():
            for panel in board["panels"]:
                for target in panel["targets"]:
                    self.assertEqual(len(re.findall(r"\b(?:soapstone|process)_\w+", target["expr"])),
                                     len(CHOSEN.findall(target["expr"])), target["expr"])

    def test_panels_have_a_place(self):
        for name, board in boards().items():
            self.assertEqual(misplaced(board), [], name)
        self.assertEqual(len({board["uid"] for board in boards().values()}), len(boards()))

    def test_they_parse(self):
        for name, board in boards().items():
            self.assertEqual(unparsed(expressions(board)), "", name)

    def test_the_library_is_small(self):
        library = (FOLDER / "board.libsonnet").read_text()
        self.assertLessEqual(library.count("\n"), LIBRARY_LINES_MAX)

    def test_planted_faults_are_found(self):
        board = boards()["shard"]

        def planted(change):
            spoilt = copy.deepcopy(board)
            change(spoilt["panels"])
            return spoilt

        def names(spoilt):
            return [odd for expression in expressions(spoilt) for odd in strangers(expression, self.known, self.values)]

        def asks(expression):
            return planted(lambda panels: panels[0]["targets"][0].update(expr=expression))

        for expression in ('soapstone_shard_update_total{job=~"$job"}', 'soapstone_shard_updates_total{worker="0"}',
                           'sum by (host) (soapstone_shard_held_bytes{job=~"$job"})',
                           'rate(soapstone_shard_read_lag_clocks{job=~"$job"}[$__rate_interval])',
                           'soapstone_shard_updates_total{outcome="lost"}'):
            self.assertNotEqual(names(asks(expression)), [], expression)
        for expression in ("rate(soapstone_shard_updates_total{)", "sum by soapstone_shard_held_bytes",
                           'rate(soapstone_shard_held_bytes{job=~"$job"})'):
            self.assertNotEqual(unparsed(expressions(asks(expression))), "", expression)
        for change in (lambda panels: panels[1]["gridPos"].update(x=6), lambda panels: panels[1]["gridPos"].update(w=13),
                       lambda panels: panels[1].update(id=panels[0]["id"]), lambda panels: panels[1].update(targets=[]),
                       lambda panels: panels[1].update(title=panels[0]["title"])):
            self.assertNotEqual(misplaced(planted(change)), [])
        odd = planted(lambda panels: panels[0]["targets"][0].update(legendFormat="{{host}}"))
        self.assertEqual(odd_legends(odd, self.labels), ["host"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        sys.exit(78)
    TOOL = promtool(os.path.abspath(sys.argv.pop(1)))
    if TOOL is None or shutil.which("jsonnet") is None:
        print("SKIPPED: jsonnet or promtool cannot be had, so no dashboard is looked at", file=sys.stderr)
        sys.exit(77)
    unittest.main()
