#!/usr/bin/env python3
"""deploy/compose: its processes are the job's, each with the flags that its program has and the key of its role alone, as
closed as a pod; and what is spoilt in it is found.

  compose_test.py BIN
Ends with 77 where python3-yaml is missing."""
import copy
import os
import pathlib
import re
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    print("SKIPPED: python3-yaml is not installed", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = None
PORT = 7070


def read():
    return yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text())


def flags(program):
    text = subprocess.run([f"{BIN}/{program}", "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    return set(re.findall(r"--([a-z_]+)", text))


def gather_facts():
    job = (ROOT / "deploy/kubernetes/base/job.textproto").read_text()
    number = lambda field: int(re.search(rf"^\s*{field}: (\d+)", job, re.M).group(1))
    return {"flags": {role: flags(f"soapstone-{role}") for role in ("scheduler", "server", "worker")},
            "pods": {"scheduler": 1, "server": number("servers"), "worker": number("workers")},
            "grace": f"{number('grace_s') + 15}s"}


def faults(file, facts):
    services = file["services"]
    if set(services) != set(facts["pods"]):
        yield f"the services are {sorted(services)}"
    for role, service in services.items():
        if service["entrypoint"] != [f"/usr/bin/soapstone-{role}"]:
            yield f"{role}: runs {service['entrypoint']}"
        if service.get("deploy", {}).get("replicas", 1) != facts["pods"][role]:
            yield f"{role}: not {facts['pods'][role]} of them"
        if (service.get("user"), service.get("read_only"), service.get("cap_drop"), service.get("security_opt")) != (
                "65532:65532", True, ["ALL"], ["no-new-privileges"]):
            yield f"{role}: is not closed"
        if service.get("restart") != "no" or service.get("stop_grace_period") != facts["grace"]:
            yield f"{role}: is started again, or killed, too early"
        given = dict(f.lstrip("-").partition("=")[::2] for f in service["command"])
        for flag in set(given) - facts["flags"][role]:
            yield f"{role}: --{flag} is no flag"
        host = "*" if role == "scheduler" else "scheduler"
        if given.get("scheduler") != f"tcp://{host}:{PORT}":
            yield f"{role}: the scheduler is at {given.get('scheduler')}"
        names = [s["source"] for s in service["secrets"]]
        if names != [f"soapstone-{role}-key"] or given.get("key") != f"/run/secrets/{names[0]}":
            yield f"{role}: has {names}, uses {given.get('key')}"
        if any((s["uid"], s["mode"]) != ("65532", "0400") for s in service["secrets"]):
            yield f"{role}: its key is others' too, or not its own"
        if not set(names) <= set(file["secrets"]):
            yield f"{role}: a secret that is not declared"
        if not any(v.split(":")[1] == given.get("config") for v in service["volumes"]):
            yield f"{role}: its job is not mounted"
        if any(not p.startswith("127.0.0.1:") for p in service.get("ports", [])):
            yield f"{role}: can be reached from other machines"


def planted():
    one = lambda f, role="server": f["services"][role]
    return [
        ("too few workers", lambda f: one(f, "worker")["deploy"].update(replicas=2)),
        ("root", lambda f: one(f).update(user="0:0")),
        ("a root that can be written", lambda f: one(f).pop("read_only")),
        ("a capability", lambda f: one(f).update(cap_drop=[])),
        ("a restart for ever", lambda f: one(f).update(restart="always")),
        ("too short a grace", lambda f: one(f).update(stop_grace_period="10s")),
        ("another program", lambda f: one(f).update(entrypoint=["/usr/bin/soapstone-worker"])),
        ("a flag that is not", lambda f: one(f)["command"].append("--keys=x")),
        ("another scheduler", lambda f: one(f)["command"].__setitem__(1, "--scheduler=tcp://host0:7070")),
        ("another role's key", lambda f: one(f, "worker")["secrets"][0].update(source="soapstone-server-key")),
        ("two keys", lambda f: one(f)["secrets"].append(copy.deepcopy(one(f, "worker")["secrets"][0]))),
        ("no key", lambda f: one(f)["command"].pop()),
        ("a key that all may read", lambda f: one(f)["secrets"][0].update(mode="0444")),
        ("a key that is not declared", lambda f: f["secrets"].pop("soapstone-server-key")),
        ("no job", lambda f: one(f)["volumes"].pop(0)),
        ("a port for everybody", lambda f: one(f, "scheduler").update(ports=["9400:9400"])),
    ]


class ComposeTest(unittest.TestCase):
    def test_it_is_sound(self):
        self.assertEqual(list(faults(read(), gather_facts())), [])

    def test_what_is_spoilt_is_found(self):
        facts, missed = gather_facts(), []
        for what, plant in planted():
            broken = read()
            broken["services"] = copy.deepcopy(broken["services"])
            plant(broken)
            if not list(faults(broken, facts)):
                missed.append(what)
        self.assertEqual(missed, [])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        sys.exit(78)
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
