#!/usr/bin/env python3
"""Prints rules.yml as the object that the Prometheus operator reads:

  deploy/monitoring/prometheus_rule.py >deploy/kubernetes/overlays/monitoring/prometheus_rule.yaml
"""
import pathlib
import sys

HEAD = """\
# Made of deploy/monitoring/rules.yml by deploy/monitoring/prometheus_rule.py; edit that, and make this again.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: soapstone
  labels:
    app.kubernetes.io/name: soapstone
    app.kubernetes.io/part-of: soapstone
spec:
"""


def prometheus_rule(rules):
    """`rules`: the text of a file of rules; its comments before `groups` stay behind."""
    groups = rules[rules.index("groups:"):]
    return HEAD + "".join(f"  {line}\n" if line else "\n" for line in groups.splitlines())


if __name__ == "__main__":
    sys.stdout.write(prometheus_rule((pathlib.Path(__file__).parent / "rules.yml").read_text()))
