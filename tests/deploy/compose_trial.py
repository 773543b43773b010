#!/usr/bin/env python3
"""Runs the job of deploy/compose with podman-compose and looks at what becomes of it.

BIN has `soapstone keygen`, and `soapstone train`, whose hash must come out. Ends with 0, with 70, or with 78 where
secrets of its names are there already; each line of what it says is a check."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from cluster_trial import ROLES, ROOT, failures, hash_of, say, trained_here

FILE = ROOT / "deploy/compose/compose.yaml"
PROJECT = "soapstone-try"
PROCESSES = 6
# What the kernel says of a process in such a container.
CLOSED = {"CapEff": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2", "Uid": "65532"}


def run(*command, check=True, timeout=120):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def compose(*arguments, check=True):
    return run("podman-compose", "-p", PROJECT, "-f", FILE, *arguments, check=check)


def containers():
    names = run("podman", "ps", "-a", "--format={{.Names}}", f"--filter=label=io.podman.compose.project={PROJECT}")
    return json.loads(run("podman", "inspect", *names.split())) if names.split() else []


def pages_say():
    """The first answer of /readyz at the port that the file opens on this machine."""
    try:
        with urllib.request.urlopen("http://127.0.0.1:9400/readyz", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def status_of(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines)
    return {name: fields[name].split()[0] for name in CLOSED}


def goes_to_its_end(bin_folder):
    compose("up", "-d")
    seen, page = None, None
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        there = containers()
        page = page or pages_say()
        running = [c["State"]["Pid"] for c in there if c["State"]["Running"]]
        seen = seen or (running and status_of(running[-1]))
        if len(there) == PROCESSES and not running:
            break
        time.sleep(0.2)
    states = [(c["State"]["Status"], c["State"]["ExitCode"]) for c in containers()]
    ended = states == [("exited", 0)] * PROCESSES
    say(ended, f"all containers ended with 0: {states}")
    if not ended:
        print(compose("logs", check=False))
    say(seen == CLOSED, f"the kernel's word for one of them: {seen}")
    say(page in (200, 503), f"the scheduler's pages are at 127.0.0.1:9400: {page}")
    text = "".join(run("podman", "logs", c["Name"]) for c in containers() if "scheduler" in c["Name"])
    wanted = trained_here(bin_folder)
    say(wanted is not None and hash_of(text) == wanted, f"the hash of soapstone train: {wanted}")
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        run("podman", "volume", "export", f"--output={archive.name}", f"{PROJECT}_out")
        say("model.safetensors" in run("tar", "-tf", archive.name), "the model is in the volume")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    asked = parser.parse_args()
    secrets = [f"soapstone-{role}-key" for role in ROLES]
    taken = set(run("podman", "secret", "ls", "--format={{.Name}}").split()) & set(secrets)
    if taken:
        print(f"compose_trial: somebody's secrets are there: {sorted(taken)}", file=sys.stderr)
        return 78
    with tempfile.TemporaryDirectory() as folder:
        run(f"{asked.bin}/soapstone", "keygen", f"--out={folder}/keys")
        try:
            for role, secret in zip(ROLES, secrets):
                run("podman", "secret", "create", secret, f"{folder}/keys/{role}.key")
            goes_to_its_end(asked.bin)
        finally:
            compose("down", "-v", check=False)
            run("podman", "network", "rm", "-f", f"{PROJECT}_default", check=False)
            run("podman", "secret", "rm", *secrets, check=False)
    return 70 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
