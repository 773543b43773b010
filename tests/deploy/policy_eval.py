"""Evaluates NetworkPolicies: which connections between pods they let through. A pod that a policy selects in a
direction takes there what some policy lets through, and nothing else; a pod that none selects takes all."""


def selects(selector, labels):
    return all(labels.get(key) == value for key, value in (selector or {}).get("matchLabels", {}).items())


def _peer_matches(peers, labels, namespace_labels):
    if peers is None:
        return True
    for peer in peers:
        if "namespaceSelector" in peer:
            here = selects(peer["namespaceSelector"], namespace_labels)
        else:
            here = namespace_labels.get("own") == "yes"
        if here and selects(peer.get("podSelector"), labels):
            return True
    return False


def _way_open(policies, direction, labels, other, other_namespace, protocol, port):
    chosen = [p["spec"] for p in policies
              if selects(p["spec"]["podSelector"], labels) and direction.capitalize() in p["spec"]["policyTypes"]]
    if not chosen:
        return True
    side = "from" if direction == "ingress" else "to"
    for spec in chosen:
        for rule in spec.get(direction) or []:
            ports = rule.get("ports")
            fits = ports is None or any(p["port"] == port and p.get("protocol", "TCP") == protocol for p in ports)
            if fits and _peer_matches(rule.get(side), other, other_namespace):
                return True
    return False


OWN = {"own": "yes"}  # the labels of the namespace that the policies are in


def may_leave(policies, source, target, port, protocol="TCP", target_namespace=None):
    """Whether what a pod with labels `source` sends to one with labels `target`, in a namespace with those labels or
    in its own, gets out."""
    return _way_open(policies, "egress", source, target, target_namespace or OWN, protocol, port)


def may_enter(policies, target, source, port, protocol="TCP", source_namespace=None):
    """Whether what comes from there gets in. A connection needs both, of those pods that policies select."""
    return _way_open(policies, "ingress", target, source, source_namespace or OWN, protocol, port)
