"""The fields of Kubernetes objects that the manifests may use, each with its type: one that is not here is an
error, as it is to a server that validates strictly. Field names and types are those of Kubernetes 1.32, JobSet
v1alpha2, Kubeflow Trainer v1alpha1 and the Prometheus operator's v1."""

TEXTS = {"*": str}  # any keys, values that are texts


def labels(**fields):
    return {"name": str, "labels": TEXTS, **fields}


SELECTOR = {"matchLabels": TEXTS}
PORTS = [{"protocol": {"TCP", "UDP"}, "port": int}]
PEERS = [{"podSelector": SELECTOR, "namespaceSelector": SELECTOR}]
SCHEDULING = {"maxSkew": int, "topologyKey": str, "whenUnsatisfiable": {"ScheduleAnyway", "DoNotSchedule"},
              "labelSelector": SELECTOR}
RESOURCES = {"cpu": (str, int), "memory": str, "nvidia.com/gpu": int}
PROBE = {"httpGet": {"path": str, "port": (int, str)}, "periodSeconds": int, "failureThreshold": int,
         "timeoutSeconds": int}
CONTAINER = {
    "name": str, "image": str, "imagePullPolicy": {"IfNotPresent", "Always", "Never"}, "command": [str],
    "args": [str], "env": [{"name": str, "value": str}], "ports": [{"name": str, "containerPort": int}],
    "securityContext": {"allowPrivilegeEscalation": bool, "readOnlyRootFilesystem": bool,
                        "capabilities": {"drop": [str]}},
    "resources": {"requests": RESOURCES, "limits": RESOURCES},
    "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool}],
    "startupProbe": PROBE, "livenessProbe": PROBE, "readinessProbe": PROBE,
}
POD = {
    "restartPolicy": {"Never"}, "subdomain": str, "terminationGracePeriodSeconds": int,
    "automountServiceAccountToken": bool, "enableServiceLinks": bool, "priorityClassName": str,
    "securityContext": {"runAsNonRoot": bool, "runAsUser": int, "runAsGroup": int, "fsGroup": int,
                        "seccompProfile": {"type": {"RuntimeDefault"}}},
    "topologySpreadConstraints": [SCHEDULING], "containers": [CONTAINER],
    "volumes": [{"name": str, "configMap": {"name": str}, "emptyDir": {},
                 "secret": {"secretName": str, "defaultMode": int}, "persistentVolumeClaim": {"claimName": str}}],
}
JOB_SPEC = {
    "completionMode": {"Indexed"}, "completions": int, "parallelism": int, "backoffLimit": int, "suspend": bool,
    "podReplacementPolicy": {"Failed"}, "ttlSecondsAfterFinished": int,
    "podFailurePolicy": {"rules": [{
        "action": {"Ignore", "FailJob", "Count"},
        "onPodConditions": [{"type": {"DisruptionTarget"}, "status": {"True"}}],
        "onExitCodes": {"containerName": str, "operator": {"In", "NotIn"}, "values": [int]}}]},
    "template": {"metadata": {"labels": TEXTS}, "spec": POD},
}
REPLICATED = [{"name": str, "replicas": int, "template": {"metadata": {"labels": TEXTS}, "spec": JOB_SPEC}}]
JOB_SET_SPEC = {
    "ttlSecondsAfterFinished": int, "coordinator": {"replicatedJob": str},
    "successPolicy": {"operator": {"All", "Any"}, "targetReplicatedJobs": [str]},
    "failurePolicy": {"maxRestarts": int, "rules": [{
        "name": str, "action": {"FailJobSet", "RestartJobSet"}, "onJobFailureReasons": [{"PodFailurePolicy"}]}]},
    "network": {"enableDNSHostnames": bool, "publishNotReadyAddresses": bool}, "replicatedJobs": REPLICATED,
}
BUDGET = {"metadata": labels(), "spec": {"minAvailable": int, "selector": SELECTOR}}
RULES = [{"from": PEERS, "ports": PORTS}]
OBJECTS = {
    ("batch/v1", "Job"): {"metadata": labels(), "spec": JOB_SPEC},
    ("v1", "ConfigMap"): {"metadata": labels(), "data": TEXTS},
    ("v1", "PersistentVolumeClaim"): {"metadata": labels(), "spec": {
        "accessModes": [{"ReadWriteMany"}], "resources": {"requests": {"storage": str}}}},
    ("v1", "Service"): {"metadata": labels(), "spec": {
        "clusterIP": {"None"}, "publishNotReadyAddresses": bool, "selector": TEXTS,
        "ports": [{"name": str, "port": int}]}},
    ("policy/v1", "PodDisruptionBudget"): BUDGET,
    ("policy/v1beta1", "PodDisruptionBudget"): BUDGET,
    ("networking.k8s.io/v1", "NetworkPolicy"): {"metadata": labels(), "spec": {
        "podSelector": SELECTOR, "policyTypes": [{"Ingress", "Egress"}], "ingress": RULES,
        "egress": [{"to": PEERS, "ports": PORTS}]}},
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): {"metadata": labels(), "spec": JOB_SET_SPEC},
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"): {"metadata": labels(), "spec": {
        "mlPolicy": {"numNodes": int}, "template": {"spec": JOB_SET_SPEC}}},
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): {"metadata": labels(), "spec": {
        "runtimeRef": {"name": str}, "trainer": {"numNodes": int}}},
    ("monitoring.coreos.com/v1", "PodMonitor"): {"metadata": labels(), "spec": {
        "selector": SELECTOR, "podMetricsEndpoints": [{"port": str, "path": str, "interval": str}]}},
    ("monitoring.coreos.com/v1", "PrometheusRule"): {"metadata": labels(), "spec": {"groups": [{
        "name": str, "rules": [{"alert": str, "expr": str, "for": str, "labels": TEXTS, "annotations": TEXTS}]}]}},
}


def errors(value, allowed, where):
    """What of `value` is not allowed, as lines."""
    if isinstance(allowed, list):
        if not isinstance(value, list):
            return [f"{where}: a list is wanted"]
        return [line for i, item in enumerate(value) for line in errors(item, allowed[0], f"{where}[{i}]")]
    if isinstance(allowed, dict):
        if not isinstance(value, dict):
            return [f"{where}: an object is wanted"]
        found = []
        for key, item in value.items():
            inside = allowed.get(key, allowed.get("*"))
            found += [f"{where}.{key}: no such field"] if inside is None else errors(item, inside, f"{where}.{key}")
        return found
    if isinstance(allowed, set):
        return [] if value in allowed else [f"{where}: {value!r} is none of {sorted(allowed)}"]
    kinds = allowed if isinstance(allowed, tuple) else (allowed,)
    return [] if type(value) in kinds else [f"{where}: {value!r} is no {kinds[0].__name__}"]


def strict(document):
    """The lines that a strict server would refuse an object with."""
    kind = (document.get("apiVersion"), document.get("kind"))
    name = f"{kind[1]}/{document.get('metadata', {}).get('name')}"
    if kind not in OBJECTS:
        return [f"{name}: no kind of ours: {kind}"]
    rest = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    return errors(rest, OBJECTS[kind], name)
