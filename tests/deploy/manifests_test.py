#!/usr/bin/env python3
"""The manifests of deploy/kubernetes, rendered by each kubectl there is: well-formed, of a piece, closed to whoever
needs no way in; and some forty faults, planted one at a time, are found.

  manifests_test.py BIN      BIN has the programs, whose --help knows every flag that a manifest uses
Ends with 77 where kubectl or python3-yaml is missing. SOAPSTONE_KUBECTL names further kubectls, by colons."""
import copy
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    print("SKIPPED: python3-yaml is not installed", file=sys.stderr)
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from manifest_rules import containers, environment, faults, of_kind, pods  # noqa: E402
from policy_eval import may_enter, may_leave  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/kubernetes"
BIN = None
KUBECTLS = [k for k in [shutil.which("kubectl"), *os.environ.get("SOAPSTONE_KUBECTL", "").split(":")] if k]
AGAIN = {"Interrupted", "PeerLost", "Stopped", "Terminated", "Ok"}  # exit codes that are not the end of a job for good


def render(folder, kubectl=None):
    run = subprocess.run([kubectl or KUBECTLS[0], "kustomize", str(folder)], capture_output=True, text=True,
                         timeout=60)
    if run.returncode != 0:
        raise AssertionError(f"{folder}: {run.stderr}")
    return [o for o in yaml.safe_load_all(run.stdout) if o]


def overlays():
    return [FOLDER / "base"] + sorted(p for p in (FOLDER / "overlays").iterdir() if p.is_dir())


def exit_codes():
    text = (ROOT / "base/exit_codes.h").read_text()
    return {name: int(code) for name, code in re.findall(r"int kExit(\w+) =\s+(\d+);", text)}


def flags(command):
    text = subprocess.run(command + ["--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    return set(re.findall(r"--([a-z_]+)", text))


def gather_facts():
    by_role = {role: flags([f"{BIN}/soapstone-{role}"]) for role in ("scheduler", "server", "worker")}
    by_role["node"] = flags([f"{BIN}/soapstone", "node"])
    return {"flags": by_role, "for_good": {code for name, code in exit_codes().items() if name not in AGAIN}}


def labels(role):
    return {"app.kubernetes.io/name": "soapstone", "app.kubernetes.io/component": role,
            "app.kubernetes.io/part-of": "soapstone"}


ROLES = ("scheduler", "server", "worker")
DNS = ({}, {"kubernetes.io/metadata.name": "kube-system"})  # labels of a pod that answers, and of its namespace
PLAIN_DNS = ({"k8s-app": "kube-dns"}, {"namespaces": "have no label of their name"})
MONITORING = {"kubernetes.io/metadata.name": "monitoring"}
PORTS = (53, 80, 443, 2379, 6443, 7069, 7070, 7071, 7072, 7073, 9400, 10250)
BASE_EDGES = {("server", "scheduler", 7070), ("worker", "scheduler", 7070),
              *((source, "server", port) for source in ("server", "worker") for port in (7071, 7072))}


def open_edges(policies, dns=DNS):
    """Every way out of a pod and every way into one that is open, by itself: a port that is open on one side alone
    is a hole that waits for the other."""
    found = set()
    for role in ROLES:
        for port in PORTS:
            for other, pod in [(r, labels(r)) for r in ROLES] + [("stranger", {})]:
                if may_leave(policies, labels(role), pod, port):
                    found.add(("out", role, other, port))
                if may_enter(policies, labels(role), pod, port):
                    found.add(("in", other, role, port))
            for protocol in ("TCP", "UDP"):
                if may_leave(policies, labels(role), dns[0], port, protocol, target_namespace=dns[1]):
                    found.add(("out", role, "dns/" + protocol, port))
            if may_enter(policies, labels(role), labels("worker"), port, source_namespace={"own": "no"}):
                found.add(("in", "another namespace", role, port))
            if may_enter(policies, labels(role), {}, port, source_namespace=MONITORING):
                found.add(("in", "monitoring", role, port))
    return found


def both(edges):
    return {(way, *edge) for edge in edges for way in ("in", "out")}


# To names, and from where metrics are gathered.
AROUND = {*(("out", role, "dns/" + protocol, 53) for role in ROLES for protocol in ("TCP", "UDP")),
          *(("in", "monitoring", role, 9400) for role in ROLES)}


class ManifestsTest(unittest.TestCase):
    def test_every_overlay_is_sound(self):
        facts = gather_facts()
        for folder in overlays():
            with self.subTest(folder.name):
                beside = render(FOLDER / "base") if folder.name == "monitoring" else []
                self.assertEqual(faults(beside + render(folder), facts), [])

    def test_every_kubectl_renders_the_same(self):
        if len(KUBECTLS) < 2:
            print("one kubectl only; SOAPSTONE_KUBECTL names more", file=sys.stderr)
        order = lambda o: (o["kind"], o["metadata"]["name"])
        for folder in overlays():
            with self.subTest(folder.name):
                first, *others = [sorted(render(folder, k), key=order) for k in KUBECTLS]
                for other in others:
                    self.assertEqual(first, other)

    def test_pods_are_the_bases(self):
        # JobSet and runtime repeat base's pods: but for names they must stay the same.
        base = pods(render(FOLDER / "base"))
        keys = pods(render(FOLDER / "overlays/keys"))
        for overlay in ("jobset", "trainer", "jobset_keys", "trainer_keys"):
            bases = keys if overlay.endswith("_keys") else base
            for name, pod in pods(render(FOLDER / "overlays" / overlay)).items():
                role = "worker" if name == "node" else name
                wanted, got = copy.deepcopy(bases["soapstone-" + role]), copy.deepcopy(pod)
                for each in (wanted, got):
                    container = each["spec"]["containers"][0]
                    container["name"] = role
                    container["env"] = [e for e in container["env"] if e["name"] != "SOAPSTONE_SCHEDULER"]
                with self.subTest(f"{overlay}: {name}"):
                    self.assertEqual(got, wanted)

    def test_jobs_are_the_same_everywhere(self):
        base = (FOLDER / "base/job.textproto").read_text()
        for other in sorted((FOLDER / "overlays").glob("*/job.textproto")):
            self.assertEqual(other.read_text(), base, other)

    def test_the_job_is_valid(self):
        text = (FOLDER / "base/job.textproto").read_text()
        text = text.replace("/usr/share/soapstone/", f"{ROOT}/data/digits/").replace("/out/", "/tmp/")
        job = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"manifests-{os.getpid()}.textproto"
        job.write_text(text)
        self.addCleanup(job.unlink)
        run = subprocess.run([f"{BIN}/soapstone-scheduler", f"--config={job}", "--scheduler=tcp://*:7070", "--check"],
                             capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)


# Fields that a process may have to itself.
OWN_FIELDS = re.compile(r"^  scheduler: .*\n", re.M)


@functools.cache
def understood(command, variables):
    """The job that a program makes of its file, its flags and its environment; or what it says against them."""
    run = subprocess.run([*command, "--print_config"], env={**os.environ, **dict(variables)}, capture_output=True,
                         text=True, timeout=60)
    return OWN_FIELDS.sub("", run.stdout) if run.returncode == 0 else run.stderr


def jobs_as_understood(objects):
    """By container."""
    [text] = {o["data"]["job.textproto"] for o in of_kind(objects, "ConfigMap")}
    file = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"manifests-{os.getpid()}-{hash(text)}.textproto"
    file.write_text(text.replace("/usr/share/soapstone/", f"{ROOT}/data/digits/"))
    try:
        found = {}
        for name, _, container in containers(objects):
            program, *words = container["command"]
            args = [a.replace("/etc/soapstone/job.textproto", str(file)) for a in container["args"]]
            variables = {**environment(container), "JOB_COMPLETION_INDEX": "0"}
            found[name] = understood((f"{BIN}/{program.rpartition('/')[2]}", *words, *args),
                                     tuple(sorted(variables.items())))
        return found
    finally:
        file.unlink()


class OneJobTest(unittest.TestCase):
    """A scheduler refuses who has another job than it has itself."""

    def test_in_every_overlay(self):
        for folder in overlays():
            if folder.name == "monitoring":
                continue
            with self.subTest(folder.name):
                jobs = jobs_as_understood(render(folder))
                self.assertGreater(len(jobs), 0)
                for name, job in jobs.items():
                    self.assertIn('model: "lenet5"', job, name)
                self.assertEqual(len(set(jobs.values())), 1, jobs)

    def test_an_environment_of_workers_alone_is_found(self):
        for variable, value in (("SOAPSTONE_THREADS", "4"), ("SOAPSTONE_DEVICE", "cuda")):
            objects = render(FOLDER / "base")
            for name, _, container in containers(objects):
                if "worker" in name:
                    container["env"].append({"name": variable, "value": value})
            self.assertEqual(len(set(jobs_as_understood(objects).values())), 2, variable)


class FenceTest(unittest.TestCase):
    def edges(self, folder, dns=DNS):
        return open_edges(of_kind(render(folder), "NetworkPolicy"), dns)

    def test_every_overlay_with_pods(self):
        among = {("worker", "worker", port) for port in PORTS}
        all_of_one_job = {(a, b, port) for a in ROLES for b in ROLES for port in (7070, 7071, 7072)}
        others = {"peers": BASE_EDGES | among, "single": all_of_one_job, "kueue": all_of_one_job}
        fenced = [folder for folder in overlays() if pods(render(folder))]
        self.assertGreaterEqual(len(fenced), 11)
        for folder in fenced:
            dns = PLAIN_DNS if folder.name == "plain" else DNS
            with self.subTest(folder.name):
                self.assertEqual(self.edges(folder, dns), both(others.get(folder.name, BASE_EDGES)) | AROUND)

    def test_plain_asks_the_dns_alone(self):
        elsewhere = ({}, PLAIN_DNS[1])
        names = {edge for edge in self.edges(FOLDER / "overlays/plain", elsewhere) if edge[2].startswith("dns")}
        self.assertEqual(names, set())

    def test_without_a_policy_all_is_open(self):
        # The evaluator's own check: what nobody fences is not shut.
        self.assertIn(("in", "stranger", "scheduler", 7070), open_edges([]))


def planted_in_jobs(find, job, pod, box, fence, put, env):
    """Ways to break base's jobs, services and fences: (what, function of its objects)."""
    return [
        ("a number as text", lambda o: put(job(o), completions="2")),
        ("a text as number", lambda o: env(o, 2, value=7072)),
        ("a field of another object", lambda o: put(job(o), serviceName="x")),
        ("a misspelt field", lambda o: put(pod(o), restartpolicy="Never")),
        ("a misspelt version", lambda o: find(o, "Job", "soapstone-server").update(apiVersion="batch/v2")),
        ("a restart for ever", lambda o: put(pod(o), restartPolicy="Always")),
        ("too few servers", lambda o: put(job(o), completions=1, parallelism=1)),
        ("too many workers", lambda o: put(job(o, "worker"), parallelism=4)),
        ("the scheduler's port", lambda o: box(o, "scheduler")["env"][0].update(value="tcp://*:7077")),
        ("the streams' port", lambda o: env(o, 2, value="7073")),
        ("a port that is not declared", lambda o: box(o)["ports"].pop()),
        ("the service's port", lambda o: find(o, "Service", "soapstone-scheduler")["spec"]["ports"][0].update(port=70)),
        ("the scheduler's name", lambda o: env(o, 0, value="tcp://scheduler:7070")),
        ("a name that waits", lambda o: find(o, "Service", "soapstone-scheduler")["spec"].pop(
            "publishNotReadyAddresses")),
        ("the service's selector", lambda o: find(o, "Service", "soapstone-scheduler")["spec"]["selector"].update(
            {"app.kubernetes.io/component": "schedule"})),
        ("a pod's label", lambda o: job(o)["template"]["metadata"]["labels"].update(
            {"app.kubernetes.io/component": "servers"})),
        ("a policy's label", lambda o: fence(o, "worker")["podSelector"]["matchLabels"].update(
            {"app.kubernetes.io/component": "workers"})),
        ("a policy's port", lambda o: fence(o, "server")["ingress"][0]["ports"][1].update(port=7073)),
        ("a policy's other port", lambda o: fence(o, "server")["ingress"][0]["ports"].append(
            {"protocol": "TCP", "port": 9400})),
        ("a policy without peers", lambda o: fence(o, "scheduler")["ingress"][0].pop("from")),
        ("a policy in one direction", lambda o: put(fence(o, "worker"), policyTypes=["Ingress"])),
        ("a budget of percents", lambda o: put(find(o, "PodDisruptionBudget", "soapstone-server")["spec"],
                                               minAvailable="100%")),
        ("a budget that is too small", lambda o: put(find(o, "PodDisruptionBudget", "soapstone-server")["spec"],
                                                     minAvailable=1)),
        ("a volume that is not", lambda o: box(o)["volumeMounts"][0].update(name="jobs")),
        ("a map that is not", lambda o: pod(o)["volumes"][0]["configMap"].update(name="job")),
    ]


def planted_in_pods(job, pod, box, fence, put, env):
    """Ways to break what base's pods may, their probes and pages."""
    return [
        ("root", lambda o: pod(o)["securityContext"].update(runAsUser=0)),
        ("a root that can be written", lambda o: box(o)["securityContext"].update(readOnlyRootFilesystem=False)),
        ("a token", lambda o: pod(o).pop("automountServiceAccountToken")),
        ("an exit code that is tried again", lambda o: job(o)["podFailurePolicy"]["rules"][1]["onExitCodes"][
            "values"].remove(78)),
        ("another container's code", lambda o: job(o)["podFailurePolicy"]["rules"][1]["onExitCodes"].update(
            containerName="main")),
        ("a flag that is not", lambda o: env(o, 1, name="SOAPSTONE_BINDS")),
        ("too short a grace", lambda o: put(pod(o), terminationGracePeriodSeconds=30)),
        ("a probe at a port where nobody is", lambda o: put(box(o)["startupProbe"]["httpGet"], port=9401)),
        ("a probe at the data's port", lambda o: put(box(o)["livenessProbe"]["httpGet"], port=7071)),
        ("a probe of no page", lambda o: put(box(o)["startupProbe"]["httpGet"], path="/health")),
        ("a life that hangs upon others", lambda o: put(box(o)["livenessProbe"]["httpGet"], path="/readyz")),
        ("a readiness that hangs upon nobody", lambda o: put(box(o)["readinessProbe"]["httpGet"], path="/healthz")),
        ("no liveness", lambda o: box(o, "worker").pop("livenessProbe")),
        ("an impatient liveness", lambda o: put(box(o)["livenessProbe"], failureThreshold=1)),
        ("too little time to start", lambda o: put(box(o)["startupProbe"], failureThreshold=3)),
        ("a probe of a misspelt kind", lambda o: put(box(o)["startupProbe"], httpget={})),
        ("pages for this pod alone", lambda o: env(o, 3, value="127.0.0.1:9400")),
        ("no pages", lambda o: box(o)["env"].pop(3)),
        ("pages that a worker does not declare", lambda o: box(o, "worker")["ports"].clear()),
        ("metrics for everybody", lambda o: fence(o, "monitoring")["ingress"][0].pop("from")),
        ("metrics for the whole namespace", lambda o: fence(o, "monitoring")["ingress"][0].update(
            {"from": [{"podSelector": {}}]})),
        ("all ports for monitoring", lambda o: fence(o, "monitoring")["ingress"][0].pop("ports")),
        ("metrics of one role", lambda o: fence(o, "monitoring")["podSelector"]["matchLabels"].update(
            {"app.kubernetes.io/component": "scheduler"})),
    ]


def planted():
    """Ways to break base."""
    find = lambda objects, kind, name: next(o for o in of_kind(objects, kind) if o["metadata"]["name"] == name)
    job = lambda o, role="server": find(o, "Job", f"soapstone-{role}")["spec"]
    pod = lambda o, role="server": job(o, role)["template"]["spec"]
    box = lambda o, role="server": pod(o, role)["containers"][0]
    fence = lambda o, role: find(o, "NetworkPolicy", f"soapstone-{role}")["spec"]
    put = lambda where, **fields: where.update(fields)
    env = lambda o, i, **fields: box(o)["env"][i].update(fields)
    return [*planted_in_jobs(find, job, pod, box, fence, put, env), *planted_in_pods(job, pod, box, fence, put, env)]


def planted_in_keys():
    """The same for overlay `keys`."""
    pod = lambda o, role="server": pods(o)[f"soapstone-{role}"]["spec"]
    secret = lambda o, role="server": next(v["secret"] for v in pod(o, role)["volumes"] if "secret" in v)
    box = lambda o, role="server": pod(o, role)["containers"][0]
    mount = lambda o, role="server": next(m for m in box(o, role)["volumeMounts"] if m["name"] == "keys")
    return [
        ("a key that all may read", lambda o: secret(o).update(defaultMode=0o444)),
        ("a key that its pod may not read", lambda o: secret(o).update(defaultMode=0o400)),
        ("another role's key", lambda o: secret(o, "worker").update(secretName="soapstone-server-key")),
        ("another role's file", lambda o: box(o).update(args=[a.replace("server.key", "worker.key")
                                                              for a in box(o)["args"]])),
        ("a key that is not mounted", lambda o: mount(o).update(mountPath="/run/keys")),
        ("a key that can be written", lambda o: mount(o).pop("readOnly")),
        ("a pod without a key", lambda o: (box(o)["args"].pop(), pod(o)["volumes"].pop(0),
                                           box(o)["volumeMounts"].remove(mount(o)))),
        ("a flag that is not", lambda o: box(o).update(args=[a.replace("--key=", "--keys=") for a in box(o)["args"]])),
        ("a misspelt secret", lambda o: secret(o).update(secretname="x")),
    ]


def planted_in_checkpoints():
    """The same for overlay `checkpoints`."""
    box = lambda o, role="server": pods(o)[f"soapstone-{role}"]["spec"]["containers"][0]
    volume = lambda o, role="server": next(v for v in pods(o)[f"soapstone-{role}"]["spec"]["volumes"]
                                           if "persistentVolumeClaim" in v)
    env = lambda o, name, role="server": next(e for e in box(o, role)["env"] if e["name"] == f"SOAPSTONE_{name}")
    mount = lambda o, role="server": next(m for m in box(o, role)["volumeMounts"] if m["mountPath"] == "/checkpoints")
    return [
        ("a claim that is not", lambda o: volume(o)["persistentVolumeClaim"].update(claimName="checkpoints")),
        ("a claim of one node", lambda o: of_kind(o, "PersistentVolumeClaim")[0]["spec"].update(
            accessModes=["ReadWriteOnce"])),
        ("checkpoints beside the claim", lambda o: env(o, "CHECKPOINT").update(value="/out")),
        ("a claim that a worker does not mount", lambda o: box(o, "worker")["volumeMounts"].remove(mount(o, "worker"))),
        ("a claim that cannot be written", lambda o: mount(o).update(readOnly=True)),
        ("a scheduler that begins anew", lambda o: env(o, "RESUME", "scheduler").update(value="never")),
        ("servers of another interval", lambda o: env(o, "CHECKPOINT_EVERY").update(value="10")),
    ]


def planted_in_monitoring():
    """The same for overlay `monitoring`."""
    spec = lambda o, kind: of_kind(o, kind)[0]["spec"]
    endpoint = lambda o: spec(o, "PodMonitor")["podMetricsEndpoints"][0]
    return [
        ("metrics at the data's port", lambda o: endpoint(o).update(port="data")),
        ("metrics of another page", lambda o: endpoint(o).update(path="/statusz")),
        ("metrics of servers alone", lambda o: spec(o, "PodMonitor")["selector"]["matchLabels"].update(
            {"app.kubernetes.io/component": "server"})),
        ("a misspelt rule", lambda o: spec(o, "PrometheusRule")["groups"][0]["rules"][0].update(expression="1")),
    ]


class PlantedTest(unittest.TestCase):
    def test_each_is_found(self):
        facts, missed = gather_facts(), []
        for folder, faulty in (("base", planted()), ("overlays/keys", planted_in_keys()),
                               ("overlays/checkpoints", planted_in_checkpoints()),
                               ("overlays/monitoring", planted_in_monitoring())):
            whole = render(FOLDER / folder)
            for what, plant in faulty:
                broken = copy.deepcopy(whole)
                plant(broken)
                wrong = faults(broken, facts)
                if not wrong and open_edges(of_kind(broken, "NetworkPolicy")) == both(BASE_EDGES) | AROUND:
                    missed.append(what)
        self.assertEqual(missed, [])
        self.assertGreaterEqual(len(planted()), 30)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        sys.exit(78)
    BIN = sys.argv.pop(1)
    if not KUBECTLS:
        print("SKIPPED: there is no kubectl", file=sys.stderr)
        sys.exit(77)
    unittest.main()
