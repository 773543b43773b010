#!/usr/bin/env python3
"""Runs jobs on the cluster of deploy/sandbox/kubernetes with overlay `plain`, and looks at what becomes of them.

  cluster_trial.py BIN [--faults]
BIN has the programs whose hash the cluster's must equal. Ends with 0 or 70; each line of what it says is a check."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SANDBOX = ROOT / "deploy/sandbox/kubernetes"
ROLES = ("scheduler", "server", "worker")
NEVER_AGAIN = 78
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


def manifests(change=lambda job: job):
    """What `kubectl apply -k` would send, with a changed job file."""
    rendered = subprocess.run(["kubectl", "kustomize", ROOT / "deploy/kubernetes/overlays/plain"], capture_output=True,
                              text=True, timeout=60, check=True).stdout
    import yaml
    objects = [o for o in yaml.safe_load_all(rendered) if o]
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
    print(kubectl("get", "pods", "-o", "wide", check=False))
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
    kubectl("delete", "jobs,services,configmaps,poddisruptionbudgets,networkpolicies", "-l",
            "app.kubernetes.io/part-of=soapstone", "--wait=true")
    kubectl("delete", "configmap", "soapstone-job", "--ignore-not-found")
    await_("all pods gone", 120, lambda: not pods())


def apply(change=lambda job: job):
    kubectl("apply", "-f", "-", stdin=manifests(change))


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
    """A job of some twenty seconds, so that there is time to delete something."""
    return job.replace("epochs: 30", "epochs: 60").replace(
        "  schedule:", "  base_ms: 12\n  schedule:")


def trains(bin_folder):
    began = time.monotonic()
    apply()
    if await_("all jobs complete", 240, lambda: all_jobs("Complete")):
        say(True, f"all jobs complete, {time.monotonic() - began:.0f} s after apply")
    await_("no pod is left running", 10, lambda: not any(running(r) for r in ROLES)) and say(True, "no pod is running")
    text = logs()
    wanted = trained_here(bin_folder)
    say(wanted is not None and hash_of(text) == wanted, f"the hash of soapstone train: {wanted}")
    for line in text.splitlines():
        if "test accuracy" in line:
            print("       " + line)
    remove()


def codes():
    return sorted(c for c in map(ended, pods()) if c is not None)


def loses(bin_folder, role, wanted):
    apply(longer)
    await_(f"the {role}s run", 240, lambda: len(running(role)) >= 2)
    await_("the job runs", 120, lambda: "started" in logs())
    time.sleep(3)
    victim = running(role)[0]
    began = time.monotonic()
    kubectl("delete", "pod", victim, "--grace-period=0", "--force")
    if await_(f"complete without {victim}", 180, lambda: all_jobs("Complete")):
        say(True, f"{role} deleted: complete {time.monotonic() - began:.0f} s later; exit codes {codes()}")
    say(NEVER_AGAIN not in codes(), f"{role} deleted: no {NEVER_AGAIN}")
    say(hash_of(logs()) == wanted, f"{role} deleted: the hash of soapstone train: {wanted}")
    remove()


def wrong_field():
    apply(lambda job: job.replace("epochs:", "epoch:"))
    await_("the scheduler's job fails", 300, lambda: any(
        "Failed" in condition(j) for j in items("jobs") if j["metadata"]["name"] == "soapstone-scheduler"))
    text = logs()
    say("epoch" in text and 'no field named "epoch"' in text, "a wrong field: the line is in kubectl logs")
    seen = {c for c in map(ended, pods()) if c is not None}
    say(seen == {NEVER_AGAIN}, f"a wrong field: every pod ended with 78: {sorted(seen)}")
    remove()


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 78
    bin_folder = sys.argv[1]
    trains(bin_folder)
    if "--faults" in sys.argv[2:]:
        wanted = trained_here(bin_folder, longer)
        loses(bin_folder, "worker", wanted)
        loses(bin_folder, "server", wanted)
        wrong_field()
    return 70 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
