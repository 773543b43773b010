#!/usr/bin/env python3
"""Runs the scripts of deploy/slurm on the nodes of deploy/sandbox/slurm.

  slurm_trial.py BIN
Ends with 0 or 70; each line of what it says is a check."""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SANDBOX = ROOT / "deploy/sandbox/slurm"
PROCESSES = 7
failures = []


def say(right, what):
    print(("ok      " if right else "WRONG   ") + what, flush=True)
    if not right:
        failures.append(what)


def slurm(*command, check=True):
    run = subprocess.run([SANDBOX, "run", *command], capture_output=True, text=True, timeout=60)
    if check and run.returncode != 0:
        raise RuntimeError(f"{command}: {run.stderr}")
    return run.stdout


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def submit(script, job, log, bin_folder, keys=""):
    # Virtual nodes have names that no resolver knows; they are all this machine.
    scheduler = f"tcp://127.0.0.1:{free_port()}"
    environment = f"ALL,JOB={job},SOAPSTONE={bin_folder}/soapstone,SOAPSTONE_SCHEDULER={scheduler},KEYS={keys}"
    return slurm("sbatch", "--parsable", f"--export={environment}", f"--output={log}",
                 str(ROOT / "deploy/slurm" / script)).strip().split(";")[0]


def shown(job):
    text = slurm("scontrol", "show", "job", job, check=False)
    return {key: (re.search(rf"\b{key}=(\S+)", text) or [None, None])[1]
            for key in ("JobState", "ExitCode", "Restarts")}


def await_state(job, wanted, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        state = shown(job)
        if state["JobState"] in wanted:
            return state
        time.sleep(0.3)
    return shown(job)


def await_text(log, text, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if log.exists() and text in log.read_text():
            return True
        time.sleep(0.3)
    return False


def node_pids(job):
    """The processes of a job that are `soapstone node`, by their command lines."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if line[1:2] == [b"node"] and f"--config={job}".encode() in line:
            found.append(int(folder.name))
    return found


def victim(job, process):
    for pid in node_pids(job):
        if f"SLURM_PROCID={process}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return pid
    raise RuntimeError(f"process {process} of {job} does not run")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 78
    bin_folder = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        text = (ROOT / "deploy/kubernetes/base/job.textproto").read_text()
        text = text.replace("/usr/share/soapstone", f"{ROOT}/data/digits").replace("/out/", folder + "/")
        (work / "job").write_text(text)
        (work / "long").write_text(text.replace("epochs: 30", "epochs: 3000"))
        subprocess.run([f"{bin_folder}/soapstone", "keygen", f"--out={work}/keys"], check=True, capture_output=True,
                       timeout=60)
        for script, keys in (("soapstone.sbatch", ""), ("heterogeneous.sbatch", ""), ("soapstone.sbatch", work / "keys")):
            log = work / f"{script}{'.keys' if keys else ''}.log"
            state = await_state(submit(script, work / "job", log, bin_folder, keys),
                                ("COMPLETED", "FAILED", "CANCELLED"), 60)
            said = log.read_text() if log.exists() else ""
            say(state["JobState"] == "COMPLETED" and "test accuracy" in said and
                ("secured by key" in said) == bool(keys), f"{script}{', with keys' if keys else ''}: {state}")
            if state["JobState"] != "COMPLETED":
                print(said[-2000:])
        cancelled(work, bin_folder)
        requeued(work, bin_folder)
        survived(work, bin_folder)
        wrong(work, bin_folder)
    return 70 if failures else 0


def cancelled(work, bin_folder):
    log = work / "cancelled.log"
    job = submit("soapstone.sbatch", work / "long", log, bin_folder)
    await_text(log, "started", 60)
    time.sleep(1)
    began = time.monotonic()
    slurm("scancel", job)
    while node_pids(work / "long") and time.monotonic() < began + 60:
        time.sleep(0.2)
    took = time.monotonic() - began
    await_state(job, ("CANCELLED", "FAILED"), 30)
    deadline = time.monotonic() + 10  # srun writes what it was given when the step is over
    ended = set()
    while len(ended) < PROCESSES and time.monotonic() < deadline:
        time.sleep(0.3)
        ended = set(re.findall(r"(?m)^(\d): .*ended", log.read_text()))
    say(took < 25 and len(ended) == PROCESSES and "Killed" not in log.read_text(),
        f"scancel: nothing runs {took:.1f} s later; {len(ended)} of {PROCESSES} ended by themselves")


def requeued(work, bin_folder):
    log = work / "requeued.log"
    job = submit("soapstone.sbatch", work / "long", log, bin_folder)
    await_text(log, "started", 60)
    time.sleep(1)
    os.kill(victim(work / "long", 1), 9)
    deadline = time.monotonic() + 90
    while shown(job)["Restarts"] != "1" and time.monotonic() < deadline:
        time.sleep(0.3)
    say(shown(job)["Restarts"] == "1" and "a peer was lost" in log.read_text(), f"a server killed: requeued: {shown(job)}")
    slurm("scancel", job)
    await_state(job, ("CANCELLED", "FAILED"), 60)


def survived(work, bin_folder):
    (work / "middling").write_text((work / "job").read_text().replace("epochs: 30", "epochs: 300"))
    log = work / "survived.log"
    job = submit("soapstone.sbatch", work / "middling", log, bin_folder)
    await_text(log, "started", 60)
    os.kill(victim(work / "middling", PROCESSES - 1), 9)
    state = await_state(job, ("COMPLETED", "FAILED"), 300)
    said = log.read_text()
    say(state["JobState"] == "COMPLETED" and state["Restarts"] == "0" and "test accuracy" in said and "lost" in said,
        f"a worker killed: the others end it: {state}")


def wrong(work, bin_folder):
    (work / "wrong").write_text((work / "job").read_text().replace("epochs:", "epoch:"))
    log = work / "wrong.log"
    state = await_state(submit("soapstone.sbatch", work / "wrong", log, bin_folder), ("COMPLETED", "FAILED"), 60)
    say(state["JobState"] == "FAILED" and state["ExitCode"] == "78:0" and state["Restarts"] == "0",
        f"a wrong field: {state}, not tried again")


if __name__ == "__main__":
    sys.exit(main())
