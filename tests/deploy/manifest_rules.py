"""What must hold between the objects of a rendered overlay, beyond that each is well-formed: names, ports, labels,
counts, security and exit codes fit each other, the programs and the job file. Each rule yields lines."""
import re

from fields import strict
from policy_eval import selects

JOBS_IN = {  # the Job specs in an object, by name
    "Job": lambda o: {o["metadata"]["name"]: o["spec"]},
    "JobSet": lambda o: {j["name"]: j["template"]["spec"] for j in o["spec"]["replicatedJobs"]},
    "ClusterTrainingRuntime": lambda o: {j["name"]: j["template"]["spec"]
                                         for j in o["spec"]["template"]["spec"]["replicatedJobs"]},
}
UID = 65532
GRACE_MARGIN_S = 15
FLAG_OF_PORT = {"tcp://*:7070": 7070, "tcp://*:7071": 7071, "7072": 7072, "0.0.0.0:9400": 9400}
PAGES = 9400
STANDS_STILL_S = 60  # for so long /healthz says that a loop that does not turn is well
PROBES = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
PATIENCE_S = {"startupProbe": (240, 240), "livenessProbe": (STANDS_STILL_S, STANDS_STILL_S), "readinessProbe": (1, 10)}
GROUP_MAY_READ = 0o440  # with fsGroup, what a mounted key is


def of_kind(objects, kind):
    return [o for o in objects if o.get("kind") == kind]


def jobs(objects):
    return {name: spec for o in objects for name, spec in JOBS_IN.get(o.get("kind"), lambda _: {})(o).items()}


def pods(objects):
    return {name: spec["template"] for name, spec in jobs(objects).items()}


def containers(objects):
    return [(name, pod["spec"], c) for name, pod in pods(objects).items() for c in pod["spec"]["containers"]]


def environment(container):
    return {e["name"]: e["value"] for e in container.get("env", [])}


def role_of(container):
    command = container["command"]
    return "node" if command[1:] == ["node"] else command[0].rpartition("soapstone-")[2]


def job_number(text, field):
    found = re.search(rf"^\s*{field}: ([0-9.]+)", text, re.M)
    return float(found.group(1)) if found else None


def well_formed(objects, _):
    for o in objects:
        yield from strict(o)


def flags_exist(objects, facts):
    for name, _, c in containers(objects):
        role = role_of(c)
        if role not in facts["flags"]:
            yield f"{name}: no such program: {c['command']}"
            continue
        known = facts["flags"][role]
        for variable in environment(c):
            if variable not in {"SOAPSTONE_" + flag.upper() for flag in known}:
                yield f"{name}: {variable} is no flag of {role}"
        for argument in c["args"]:
            if argument[2:].split("=")[0] not in known:
                yield f"{name}: {argument} is no flag of {role}"


def codes_fit(objects, facts):
    for name, spec in jobs(objects).items():
        policy = spec.get("podFailurePolicy")
        if policy is None:
            if spec.get("completionMode") == "Indexed":
                yield f"{name}: no podFailurePolicy"
            continue
        names = {c["name"] for c in spec["template"]["spec"]["containers"]}
        first, second = policy["rules"]
        if first["action"] != "Ignore" or not first.get("onPodConditions"):
            yield f"{name}: the first rule is to ignore disruptions"
        codes = second.get("onExitCodes", {})
        if second["action"] != "FailJob" or codes.get("operator") != "In":
            yield f"{name}: the second rule is to fail"
        if set(codes.get("values", [])) != facts["for_good"]:
            yield f"{name}: fails at {codes.get('values')}, not at {sorted(facts['for_good'])}"
        if codes.get("containerName") not in names:
            yield f"{name}: podFailurePolicy is of a container that is not there"


def pods_are_restricted(objects, _):
    for name, pod, c in containers(objects):
        security, own = pod.get("securityContext", {}), c.get("securityContext", {})
        if not security.get("runAsNonRoot") or not security.get("runAsUser") == security.get("fsGroup") == UID:
            yield f"{name}: not the user {UID}"
        if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{name}: no seccomp profile"
        if own.get("allowPrivilegeEscalation") is not False or own.get("capabilities", {}).get("drop") != ["ALL"]:
            yield f"{name}: capabilities"
        if own.get("readOnlyRootFilesystem") is not True:
            yield f"{name}: the root file system can be written"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{name}: has a token"
        requests, limits = c["resources"].get("requests", {}), c["resources"].get("limits", {})
        if not limits.get("memory") or requests.get("memory") != limits["memory"] or "cpu" in limits:
            yield f"{name}: memory is requested as limited, and processors are not limited"
        if pod.get("restartPolicy") != "Never":
            yield f"{name}: restartPolicy"


def names_lead_somewhere(objects, _):
    maps = {o["metadata"]["name"]: o["data"] for o in of_kind(objects, "ConfigMap")}
    sets = [o["metadata"]["name"] for o in of_kind(objects, "JobSet") + of_kind(objects, "ClusterTrainingRuntime")]
    services = {o["metadata"]["name"]: o for o in of_kind(objects, "Service")}
    for name, pod, c in containers(objects):
        volumes = {v["name"]: v for v in pod.get("volumes", [])}
        for mount in c.get("volumeMounts", []):
            if mount["name"] not in volumes:
                yield f"{name}: mounts {mount['name']}, which is no volume"
        for v in volumes.values():
            if "configMap" in v and "job.textproto" not in maps.get(v["configMap"]["name"], {}):
                yield f"{name}: ConfigMap {v['configMap']['name']} has no job.textproto"
        scheduler = environment(c).get("SOAPSTONE_SCHEDULER", "")
        host = re.fullmatch(r"tcp://([^:]+):7070", scheduler)
        if not host:
            yield f"{name}: SOAPSTONE_SCHEDULER is {scheduler!r}"
        elif host.group(1) != "*":
            known = set(services) | {f"{s}-0.{s}" for s in services} | {f"{s}-scheduler-0-0.{s}" for s in sets}
            if host.group(1) not in known:
                yield f"{name}: no Service makes the name {host.group(1)}"
        if "subdomain" in pod and pod["subdomain"] not in services:
            yield f"{name}: no Service of the name of its subdomain"
        ports = {p["containerPort"] for p in c.get("ports", [])}
        listens = {FLAG_OF_PORT[v] for v in environment(c).values() if v in FLAG_OF_PORT}
        if role_of(c) == "node":
            listens.add(7070)
        if ports != listens:
            yield f"{name}: declares ports {sorted(ports)}, and listens at {sorted(listens)}"


def checkpoints_are_kept(objects, _):
    """Where a pod's environment names a folder of checkpoints: all pods see the same claim there, and go on from it."""
    claims = {o["metadata"]["name"] for o in of_kind(objects, "PersistentVolumeClaim")}
    kept = {}
    for name, pod, c in containers(objects):
        folder, volumes = environment(c).get("SOAPSTONE_CHECKPOINT"), {v["name"]: v for v in pod.get("volumes", [])}
        at = [volumes.get(m["name"], {}) for m in c.get("volumeMounts", [])
              if m["mountPath"] == folder and not m.get("readOnly")]
        kept[name] = (folder, at[0].get("persistentVolumeClaim", {}).get("claimName") if at else None,
                      environment(c).get("SOAPSTONE_RESUME"), environment(c).get("SOAPSTONE_CHECKPOINT_EVERY"))
        if folder and (kept[name][1] not in claims or kept[name][2] != "auto"):
            yield f"{name}: {folder} is no claim that it goes on from"
    if len(set(kept.values())) > 1:
        yield f"pods have different checkpoints: {kept}"


def probes_fit(objects, _):
    for name, _, c in containers(objects):
        if environment(c).get("SOAPSTONE_HTTP") != f"0.0.0.0:{PAGES}":
            yield f"{name}: no pages for its probes"
        if [p["name"] for p in c["ports"] if p["containerPort"] == PAGES] != ["http"]:
            yield f"{name}: port {PAGES} is not named http"
        for probe, path in PROBES.items():
            asks = c[probe]["httpGet"]
            if (asks["path"], asks["port"]) != (path, PAGES):
                yield f"{name}: {probe} asks {asks['path']} at {asks['port']}, not {path} at {PAGES}"
            least, most = PATIENCE_S[probe]
            if not least <= c[probe]["periodSeconds"] * c[probe]["failureThreshold"] <= most:
                yield f"{name}: {probe} gives up too early or too late"


def keys_fit(objects, _):
    """Every pod has the key of its role and no other, where one has any."""
    having = set()
    for name, pod, c in containers(objects):
        role = role_of(c)
        secrets = {v["name"]: v["secret"] for v in pod.get("volumes", []) if "secret" in v}
        for secret in secrets.values():
            if secret["secretName"] != f"soapstone-{role}-key":
                yield f"{name}: has {secret['secretName']}, which is not its role's"
            if secret.get("defaultMode") != GROUP_MAY_READ:
                yield f"{name}: its key's mode is not {GROUP_MAY_READ:o}"
        mounted = {m["mountPath"] for m in c["volumeMounts"] if m["name"] in secrets and m.get("readOnly")}
        keys = {a.partition("=")[2] for a in c["args"] if a.startswith("--key=")}
        if keys != {f"{path}/{role}.key" for path in mounted}:
            yield f"{name}: uses the keys {sorted(keys)}, and has {sorted(mounted)}"
        having.add(bool(keys))
    if len(having) > 1:
        yield "some pods have keys, and some have none"


def monitored(objects, _):
    names = {p["name"] for _, _, c in containers(objects) for p in c.get("ports", [])}
    labels = [pod["metadata"]["labels"] for pod in pods(objects).values()]
    for o in of_kind(objects, "PodMonitor"):
        for endpoint in o["spec"]["podMetricsEndpoints"]:
            if endpoint["port"] not in names or endpoint["port"] != "http" or endpoint["path"] != "/metrics":
                yield f"{o['metadata']['name']}: no metrics at {endpoint}"
        if not all(selects(o["spec"]["selector"], each) for each in labels):
            yield f"{o['metadata']['name']}: leaves pods out"


def selectors_find_pods(objects, _):
    labels = [pod["metadata"]["labels"] for pod in pods(objects).values()]
    for o in objects:
        spec = o.get("spec", {})
        if o.get("kind") == "Service":
            wanted = {"matchLabels": spec["selector"]}
            ports = {p["containerPort"] for _, pod, c in containers(objects) for p in c.get("ports", [])}
            for port in spec["ports"]:
                if port["port"] not in ports:
                    yield f"{o['metadata']['name']}: nobody listens at {port['port']}"
            if not spec.get("publishNotReadyAddresses"):
                yield f"{o['metadata']['name']}: its name waits for readiness, which waits for its name"
        elif o.get("kind") == "PodDisruptionBudget":
            wanted = spec["selector"]
        elif o.get("kind") == "NetworkPolicy":
            wanted = spec["podSelector"]
        else:
            continue
        if not any(selects(wanted, each) for each in labels):
            yield f"{o['kind']}/{o['metadata']['name']}: selects no pod"


def counts_agree(objects, _):
    text = next((o["data"].get("job.textproto", "") for o in of_kind(objects, "ConfigMap")), "")
    servers, workers = job_number(text, "servers"), job_number(text, "workers")
    grace = job_number(text, "grace_s")
    for name, spec in jobs(objects).items():
        c = spec["template"]["spec"]["containers"][0]
        wanted = {"scheduler": 1, "server": servers, "worker": workers, "node": 1 + servers + workers}[role_of(c)]
        if not spec["completions"] == spec["parallelism"] == wanted:
            yield f"{name}: {spec['completions']} pods, the job has {wanted:g}"
        if spec["template"]["spec"]["terminationGracePeriodSeconds"] != grace + GRACE_MARGIN_S:
            yield f"{name}: terminationGracePeriodSeconds is not grace_s + {GRACE_MARGIN_S}"
    for o in of_kind(objects, "PodDisruptionBudget"):
        role = o["spec"]["selector"]["matchLabels"].get("app.kubernetes.io/component")
        if o["spec"]["minAvailable"] != {"scheduler": 1, "server": servers}.get(role):
            yield f"{o['metadata']['name']}: all pods of {role} must stay"
    for o in of_kind(objects, "TrainJob"):
        if o["spec"]["trainer"]["numNodes"] != workers:
            yield f"{o['metadata']['name']}: numNodes is not the job's workers"


RULES = (well_formed, flags_exist, codes_fit, pods_are_restricted, names_lead_somewhere, checkpoints_are_kept,
         probes_fit, keys_fit, monitored, selectors_find_pods, counts_agree)


def faults(objects, facts):
    """All lines of all rules; a rule that cannot even look, because a field is missing, is a line too."""
    found = []
    for rule in RULES:
        try:
            found += list(rule(objects, facts))
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            found.append(f"{rule.__name__}: {type(error).__name__} {error}")
    return found
