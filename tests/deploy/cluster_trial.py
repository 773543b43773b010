#!/usr/bin/env python3
"""Runs jobs on the cluster of deploy/sandbox/kubernetes with overlay `plain`, and looks at what becomes of them.

--faults: also with keys, without a worker, without a server, and with a wrong field. --runs: instead, N times, a job
that loses a server. BIN has the programs whose hash the cluster's must equal. Ends with 0 or 70; each line of what it
says is a check."""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from manifests_test import BASE_EDGES
from pod_connections import edges_of, tables

ROOT = pathlib.Path(__file__).resolve().parents[2]
SANDBOX = ROOT / "deploy/sandbox/kubernetes"
ROLES = ("scheduler", "server", "worker")
NEVER_AGAIN = 78
ALWAYS = {("server", "scheduler", 7070), ("worker", "scheduler", 7070), ("worker", "server", 7071),
          ("worker", "server", 7072)}
failures = []


def kubectl(*arguments, stdin=None, check=True):
    run = subprocess.run([SANDBOX, "kubectl", *arguments], input=stdin, capture_output=True, text=True, timeout=120)
    if check and run.returncode != 0:
        raise RuntimeError(f"kubectl {' '.join(arguments)}: {run.stderr}")
    return run.stdout


def say(right, what):
    print(("ok      " if right else "WRONG   ") + what, flush=True)
    if not right:
        failures.append(what)


def rendered(overlay):
    """The objects of overlay `plain`, or of another one over it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "kubernetes"
        shutil.copytree(ROOT / "deploy/kubernetes", copy)
        if overlay != "plain":
            file = copy / "overlays" / overlay / "kustomization.yaml"
            file.write_text(file.read_text().replace("../../base", "../plain"))
        text = subprocess.run(["kubectl", "kustomize", copy / "overlays" / overlay], capture_output=True, text=True,
                              timeout=60, check=True).stdout
    import yaml
    return [o for o in yaml.safe_load_all(text) if o]


def manifests(overlay, change):
    """What `kubectl apply -k` would send, with a changed job file."""
    objects = rendered(overlay)
    for o in objects:
        if o["kind"] == "ConfigMap":
            o["data"]["job.textproto"] = change(o["data"]["job.textproto"])
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def items(kind):
    return json.loads(kubectl("get", kind, "-o", "json"))["items"]


def pods(role=None):
    selector = "app.kubernetes.io/name=soapstone" + (f",app.kubernetes.io/component={role}" if role else "")
    return json.loads(kubectl("get", "pods", "-l", selector, "-o", "json"))["items"]


def ended(pod):
    """The exit code of a pod's program, or None while it runs."""
    for status in pod["status"].get("containerStatuses", []):
        if "terminated" in status["state"]:
            return status["state"]["terminated"]["exitCode"]
    return None


def condition(job):
    return {c["type"] for c in job["status"].get("conditions", []) if c["status"] == "True"}


def await_(what, seconds, done):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = done()
        if result:
            return result
        time.sleep(0.5)
    say(False, f"{what} within {seconds} s")
    print(kubectl("get", "pods,endpoints", "-o", "wide", check=False))
    for name in [n for role in ROLES for n in running(role)]:
        print(f"{name}: {kubectl('logs', '--tail=4', name, check=False)}")
    return None


def all_jobs(kind):
    jobs = items("jobs")
    return len(jobs) == len(ROLES) and all(kind in condition(j) for j in jobs)


def running(role):
    return [p["metadata"]["name"] for p in pods(role) if p["status"]["phase"] == "Running"]


def logs():
    return "".join(kubectl("logs", p["metadata"]["name"], check=False) for p in pods("scheduler"))


def hash_of(text):
    found = re.findall(r"parameters, sha256\s+([0-9a-f]{64})", text)
    return found[-1] if found else None


def remove():
    kubectl("delete", "jobs,services,configmaps,secrets,poddisruptionbudgets,networkpolicies", "-l",
            "app.kubernetes.io/part-of=soapstone", "--wait=true")
    kubectl("delete", "configmap", "soapstone-job", "--ignore-not-found")
    await_("all pods gone", 120, lambda: not pods())


def apply(change=lambda job: job, overlay="plain"):
    kubectl("apply", "-f", "-", stdin=manifests(overlay, change))


def trained_here(bin_folder, change=lambda job: job):
    text = change((ROOT / "deploy/kubernetes/base/job.textproto").read_text())
    with tempfile.TemporaryDirectory() as folder:
        text = text.replace("/usr/share/soapstone", f"{ROOT}/data/digits").replace("/out/", folder + "/")
        job = pathlib.Path(folder) / "job.textproto"
        job.write_text(text)
        run = subprocess.run([f"{bin_folder}/soapstone", "train", f"--config={job}", f"--log_dir={folder}/logs"],
                             capture_output=True, text=True, timeout=300)
    return hash_of(run.stdout + run.stderr)


def longer(job):
    """A job of some thirty seconds, so that there is time to delete something."""
    return job.replace("epochs: 30", "epochs: 60").replace(
        "  schedule:", "  base_ms: 16\n  schedule:")


def trains(bin_folder, what="plain", overlay="plain"):
    began = time.monotonic()
    apply(overlay=overlay)
    if await_(f"{what}: all jobs complete", 240, lambda: all_jobs("Complete")):
        say(True, f"{what}: all jobs complete, {time.monotonic() - began:.0f} s after apply")
    if await_(f"{what}: no pod is left running", 10, lambda: not any(running(r) for r in ROLES)):
        say(True, f"{what}: no pod is running")
    text = logs()
    wanted = trained_here(bin_folder)
    say(wanted is not None and hash_of(text) == wanted, f"{what}: the hash of soapstone train: {wanted}")
    for line in text.splitlines():
        if "test accuracy" in line:
            print("       " + line)


def with_keys(bin_folder):
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder) / "keys"
        subprocess.run([f"{bin_folder}/soapstone", "keygen", f"--out={keys}"], check=True, capture_output=True, timeout=60)
        for role in ROLES:
            secret = f"soapstone-{role}-key"
            kubectl("create", "secret", "generic", secret, f"--from-file={role}.key={keys}/{role}.key")
            kubectl("label", "secret", secret, "app.kubernetes.io/part-of=soapstone")
    trains(bin_folder, "with keys", "keys")
    say("soapstone keygen" not in logs(), "with keys: the scheduler does not warn that there are none")
    remove()


def ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


def probed():
    """The pods of a job that runs, once every one says that it is ready, which takes all three of its probes."""
    def all_ready():
        there = pods()
        return there if len(there) >= 6 and all(map(ready, there)) else None
    there = await_("every pod is ready", 60, all_ready)
    if there:
        say(True, f"all {len(there)} pods are ready")
    return there or []


def fenced(there):
    """Of a job that runs: who is connected to whom is what the fence lets through, and all of it that always is."""
    role_of = {p["status"]["podIP"]: p["metadata"]["labels"]["app.kubernetes.io/component"] for p in there}
    seen = edges_of(tables(), role_of)
    say(seen <= BASE_EDGES and ALWAYS <= seen, f"connections that the fence lets through: {sorted(seen)}")


def killed_by_probes():
    told = [e["message"] for e in items("events")]
    return [m for m in told if re.search("failed (liveness|startup) probe", m)]


def codes():
    return sorted(c for c in map(ended, pods()) if c is not None)


def loses(role, wanted):
    apply(longer)
    await_(f"the {role}s run", 240, lambda: len(running(role)) >= 2)
    await_("the job runs", 120, lambda: "started" in logs())
    there = probed()
    if there:
        fenced(there)
    victims = [p["metadata"]["name"] for p in there
               if p["metadata"]["labels"]["app.kubernetes.io/component"] == role]
    if not victims:
        remove()
        return
    victim = victims[0]
    began = time.monotonic()
    kubectl("delete", "pod", victim, "--grace-period=0", "--force")
    if await_(f"complete without {victim}", 180, lambda: all_jobs("Complete")):
        took = time.monotonic() - began
        say(took <= 90, f"{role} deleted: complete {took:.0f} s later; exit codes {codes()}")
    say(NEVER_AGAIN not in codes(), f"{role} deleted: no {NEVER_AGAIN}")
    say(hash_of(logs()) == wanted, f"{role} deleted: the hash of soapstone train: {wanted}")
    remove()


def wrong_field():
    apply(lambda job: job.replace("epochs:", "epoch:"))
    await_("the scheduler's job fails", 480, lambda: any(
        "Failed" in condition(j) for j in items("jobs") if j["metadata"]["name"] == "soapstone-scheduler"))
    text = logs()
    say("epoch" in text and 'no field named "epoch"' in text, "a wrong field: the line is in kubectl logs")
    seen = {c for c in map(ended, pods()) if c is not None}
    tries = len(pods("scheduler"))
    say(seen == {NEVER_AGAIN}, f"a wrong field: every pod ended with 78: {sorted(seen)}; the scheduler's after {tries} tries")
    remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--runs", type=int, default=0)
    asked = parser.parse_args()
    wanted = trained_here(asked.bin, longer) if asked.faults or asked.runs else None
    for i in range(asked.runs):
        print(f"run {i + 1}", flush=True)
        loses("server", wanted)
    if not asked.runs:
        trains(asked.bin)
        remove()
    if asked.faults:
        with_keys(asked.bin)
        loses("worker", wanted)
        loses("server", wanted)
        wrong_field()
    killed = killed_by_probes()
    say(killed == [], f"no pod was killed by a probe {killed or ''}")
    return 70 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
