#!/usr/bin/env python3
"""deploy/monitoring/rules.yml: each alert is shown to fire and not to fire, and a rule that is changed is noticed; each
series, label and value that an expression names is one of docs/metrics.md; the operator's object is made of that file.

  rules_test.py BIN
Ends with 77, loudly, where promtool cannot be had or python3-yaml is missing."""
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    print("SKIPPED: python3-yaml is not installed", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/monitoring"
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), str(FOLDER)]
from prometheus_rule import prometheus_rule  # noqa: E402
from promtool import promtool  # noqa: E402

RULES = (FOLDER / "rules.yml").read_text()
TOOL = None
# A way to spoil each alert: it fires too easily, or too rarely. (alert, what, what instead), in its part of the file.
MUTANTS = [
    ("GuaranteeBroken", "soapstone_shard_violations_total > 0", "soapstone_shard_violations_total >= 0"),
    ("GuaranteeBroken", "soapstone_shard_violations_total > 0", "soapstone_shard_violations_total > 1"),
    ("GuaranteeBroken", " or soapstone_violations_total > 0", ""),
    ("LossNotFinite", "== 79", "> 79"),
    ("LossNotFinite", "== 79", "< 79"),
    ("LossNotFinite", "max_over_time(soapstone_job_end_code[5m])", "soapstone_job_end_code"),
    ("LossNotFinite", "[5m]", "[10m]"),
    ("UpdatesLeftOut", "[5m]", "[30m]"),
    ("UpdatesLeftOut", "> 0", "> 100"),
    ("NoProgress", "offset 2m", "offset 1m"),
    ("NoProgress", "offset 2m", "offset 4m"),
    ("NoProgress", "\n      and on (job, instance) min_over_time(soapstone_job_phase{phase=\"running\"}[2m]) == 1", ""),
    ("NoProgress", "min_over_time(soapstone_job_phase{phase=\"running\"}[2m])", "soapstone_job_phase{phase=\"running\"}"),
    ("WorkerSlow", "> 1.5", "> 1.3"),
    ("WorkerSlow", "> 1.5", "> 2"),
    ("WorkerSlow", "for: 30s", "for: 0s"),
    ("WorkerLost", "role=\"worker\"", "role=\"server\""),
    ("WorkerLost", "\n      and on (job, instance) soapstone_job_phase{phase=\"running\"} == 1", ""),
    ("WorkerLost", "[5m]", "[15m]"),
    ("CheckpointOld", "3 *", "2 *"),
    ("CheckpointOld", "3 *", "6 *"),
    ("CheckpointOld", "for: 1m", "for: 0s"),
    ("CheckpointOld", "\n      and on (job, instance) soapstone_job_phase{phase=\"running\"} == 1", ""),
    ("CheckpointOld", "soapstone_job_clocks - soapstone_checkpoint_clock", "soapstone_job_clocks"),
    ("ReplicaMissing", "> 0", "> 2"),
    ("ReplicaMissing", "> 0", ">= 0"),
    ("MostlyWaiting", "> 0.5", "> 0.3"),
    ("MostlyWaiting", "> 0.5", "> 0.7"),
    ("MostlyWaiting", "for: 5m", "for: 0s"),
    ("MostlyWaiting", "cause=\"policy\"", "cause=\"compute\""),
    ("QueueFull", "268435456", "134217728"),
    ("QueueFull", "268435456", "536870912"),
    ("QueueFull", "for: 1m", "for: 0s"),
    ("Strangers", "[5m]", "[30m]"),
    ("Strangers", "> 0", "> 100"),
    ("Strangers", "increase(soapstone_strangers_total[5m])", "soapstone_strangers_total"),
    ("HandshakesFail", "[5m]", "[30m]"),
    ("HandshakesFail", "> 0", "> 100"),
    ("HandshakesFail", "{cause!=\"cut\"}", ""),
    ("HandshakesFail", "increase(soapstone_handshake_failures_total{cause!=\"cut\"}[5m])",
     "soapstone_handshake_failures_total{cause!=\"cut\"}"),
    ("SecurityOff", "{encryption=\"none\"}", ""),
    ("SecurityOff", "for: 10m", "for: 0s"),
    ("ProofFaults", "[5m]", "[30m]"),
    ("ProofFaults", "> 0", "> 100"),
    ("ProofFaults", "increase(soapstone_proof_faults_total[5m])", "soapstone_proof_faults_total"),
    ("ServerMemory", "1.1 *", "0.9 *"),
    ("ServerMemory", "1.1 *", "3 *"),
    ("ServerMemory", "for: 15m", "for: 5m"),
    ("ServerMemory", "\n      and on (job, instance) soapstone_job_info{role=\"server\"}", ""),
    ("HeartbeatsLate", "[5m]", "[30m]"),
    ("HeartbeatsLate", "> 0", "> 100"),
    ("HeartbeatsLate", "increase(soapstone_heartbeats_late_total[5m])", "soapstone_heartbeats_late_total"),
]


def alerts(text):
    return {rule["alert"]: rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]}


def spoilt(rules, alert, old, new):
    """`rules` with all `old` of one alert replaced."""
    begin = rules.index(f"- alert: Soapstone{alert}\n")
    end = rules.find("- alert:", begin + 1)
    part = rules[begin:end if end > 0 else None]
    if old not in part:
        raise AssertionError(f"{alert} has no {old!r}")
    return rules[:begin] + part.replace(old, new) + (rules[end:] if end > 0 else "")


def rounds():
    """The mutants, no two of one alert together: alerts do not hear of one another, so that a run serves for many."""
    found = []
    for mutant in MUTANTS:
        free = next((r for r in found if mutant[0] not in {m[0] for m in r}), None)
        if free is None:
            found.append(free := [])
        free.append(mutant)
    return found


def tested(rules):
    """What `promtool test rules` says of rules under rules_test.yml."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "rules.yml").write_text(rules)
        pathlib.Path(folder, "rules_test.yml").write_text((FOLDER / "rules_test.yml").read_text())
        return subprocess.run([TOOL, "test", "rules", "rules_test.yml"], cwd=folder, capture_output=True, text=True,
                              timeout=60)


def catalogue():
    """{series: labels} of docs/metrics.md."""
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]*) \| \w+ \|", (ROOT / "docs/metrics.md").read_text(), re.M)
    return {name: {"job", "instance", *filter(None, labels.split(", "))} for name, labels in rows}


def strangers(expression, known, values):
    """What an expression names that there is not: series, labels, values of labels."""
    expression = re.sub(r"\[\w+\]", "", expression)
    found = []
    for name, matchers in re.findall(r"\b((?:soapstone|process)_\w+)(?:\{(.*?)\})?", expression):
        if name not in known:
            found.append(name)
            continue
        for label, value in re.findall(r"(\w+)\s*=~?\s*\"(.*?)\"", matchers):
            if label not in known[name] or f'"{value}"' not in values:
                found.append(f'{name}{{{label}="{value}"}}')
    labels = set().union(*known.values())
    for group in re.findall(r"\b(?:on|by|without)\s*\(([^)]*)\)", expression):
        found += [label for label in re.split(r"[,\s]+", group) if label not in labels]
    return found


class RulesTest(unittest.TestCase):
    def test_they_are_valid(self):
        for kind, file in (("rules", "rules.yml"), ("config", "prometheus.yml")):
            run = subprocess.run([TOOL, "check", kind, FOLDER / file], capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_each_fires_and_does_not(self):
        run = tested(RULES)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        shown = [(t["alertname"], bool(t["exp_alerts"]))
                 for test in yaml.safe_load((FOLDER / "rules_test.yml").read_text())["tests"]
                 for t in test["alert_rule_test"]]
        self.assertEqual(set(shown), {(name, fires) for name in alerts(RULES) for fires in (True, False)})

    def test_a_rule_that_is_spoilt_is_found(self):
        self.assertEqual({"Soapstone" + m[0] for m in MUTANTS}, set(alerts(RULES)))
        missed = []
        for mutants in rounds():
            rules = functools.reduce(lambda text, m: spoilt(text, *m), mutants, RULES)
            run = tested(rules)
            failed = set(re.findall(r"alertname: ?Soapstone(\w+)", run.stdout + run.stderr))
            missed += [m for m in mutants if m[0] not in failed]
        self.assertEqual(missed, [])


class NamesTest(unittest.TestCase):
    def setUp(self):
        # Values of labels are literals where the series are made of a node's status.
        self.values = (ROOT / "apps/node/node_status.cc").read_text() + \
            (ROOT / "apps/daemon/node_main.cc").read_text()
        self.known = catalogue()

    def test_every_name_is_in_the_catalogue(self):
        self.assertGreater(len(self.known), 30)
        for name, rule in alerts(RULES).items():
            self.assertEqual(strangers(rule["expr"], self.known, self.values), [], name)

    def test_a_name_that_is_not_is_found(self):
        for odd in ("soapstone_job_clock == 0", 'soapstone_job_phase{phase="training"} == 1',
                    'soapstone_job_members{worker="worker"} > 0', "sum by (host) (soapstone_queued_bytes)",
                    "rate(soapstone_pushes_total[5m]) > 0"):
            self.assertNotEqual(strangers(odd, self.known, self.values), [], odd)

    def test_texts_name_labels_that_there_are(self):
        known = set().union(*self.known.values())
        for name, rule in alerts(RULES).items():
            text = " ".join(rule["annotations"].values())
            self.assertLessEqual(set(re.findall(r"\$labels\.(\w+)", text)), known, name)

    def test_the_operators_object_is_made_of_them(self):
        made = (ROOT / "deploy/kubernetes/overlays/monitoring/prometheus_rule.yaml").read_text()
        self.assertEqual(made, prometheus_rule(RULES),
                         "deploy/monitoring/prometheus_rule.py >deploy/kubernetes/overlays/monitoring/prometheus_rule.yaml")
        self.assertEqual(yaml.safe_load(made)["spec"], yaml.safe_load(RULES))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        sys.exit(78)
    TOOL = promtool(os.path.abspath(sys.argv.pop(1)))
    if TOOL is None:
        del RulesTest
        print("SKIPPED: promtool cannot be had, so no alert is shown to fire", file=sys.stderr)
    good = unittest.main(exit=False).result.wasSuccessful()
    sys.exit(1 if not good else 77 if TOOL is None else 0)
