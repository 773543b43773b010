"""Ways between two processes that swallow bytes without a reset: packets of one pair of processes are dropped,
in one direction or in both, by nftables in a network namespace of the test's own. Connections that the two make
meanwhile are dropped too: each process has a group of its own, by which its packets are known."""
import ctypes
import os
import re
import shutil
import signal
import subprocess
import unittest

from cluster import BIN, ClusterTestCase, descendants

CLONE_NEWNET = 0x40000000
ESTABLISHED, LISTENING = "01", "0A"
# Of a process of the job; of whom the system knows none.
FIRST_GROUP = {"scheduler": 61000, "server": 61100, "worker": 61200}

# Takes the group that its role and rank say, and becomes the program.
AS_ITS_GROUP = """#!/bin/sh
rank=0
for word; do
  case $word in --rank=*) rank=${word#--rank=} ;; esac
done
exec setpriv --regid=$((%d + rank)) --clear-groups %s "$@"
"""


def group_of(name):
    role, _, rank = name.partition("-")
    return FIRST_GROUP[role] + int(rank or 0)


def own_network():
    """Moves this process, and those that it starts, into a network of their own. Why not; None: it did."""
    for tool in ["nft", "ip", "setpriv"]:
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        return f"unshare(CLONE_NEWNET): {os.strerror(ctypes.get_errno())}"
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return None


def sockets_of(pid):
    """[(state, local port, remote port)] of a process' TCP sockets."""
    inodes = set()
    rows = []
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            match = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
            if match:
                inodes.add(match.group(1))
        with open(f"/proc/{pid}/net/tcp") as file:
            rows = [line.split() for line in file.readlines()[1:]]
    except OSError:
        pass
    port = lambda end: int(end.split(":")[1], 16)
    return [(row[3], port(row[1]), port(row[2])) for row in rows if row[9] in inodes]


def connected_pairs(children):
    """{kind of pair: [(name, name)]} of processes between which there are connections."""
    owner = {}
    sockets = {name: sockets_of(pid) for name, pid in children.items()}
    for name, rows in sockets.items():
        for state, local, remote in rows:
            if state == ESTABLISHED:
                owner[(local, remote)] = name
    pairs = {}
    for (local, remote), name in owner.items():
        other = owner.get((remote, local))
        if other is not None and name < other:
            kind = "–".join(sorted([name.split("-")[0], other.split("-")[0]]))
            pairs.setdefault(kind, set()).add((name, other))
    return {kind: sorted(both) for kind, both in pairs.items()}


def nft(text):
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)


class Block:
    """While it is: what `a` sends to `b` is lost, and with `both` what `b` sends to `a`."""
    made = 0

    def __init__(self, children, a, b, both):
        Block.made += 1
        self.table = f"block{Block.made}"
        ways = {}  # client -> (its ports, the other's ports)
        learn, drop = [], []
        text = f"table inet {self.table} {{\n"
        for i, (client, other) in enumerate([(a, b), (b, a)]):
            listens = [str(local) for state, local, _ in sockets_of(children[other]) if state == LISTENING]
            ways[client] = (f"@client{i}", f"@listens{i}")
            text += f"set client{i} {{ type inet_service; flags dynamic; }}\n"
            elements = f"elements = {{ {', '.join(listens)} }};" if listens else ""
            text += f"set listens{i} {{ type inet_service; {elements} }}\n"
            learn.append(f"meta skgid {group_of(client)} tcp dport @listens{i} add @client{i} {{ tcp sport }}")
        text += "chain learn { type filter hook output priority 0;\n" + "\n".join(learn) + "\n}\n}\n"
        nft(text)
        # Connections that were there before.
        text = ""
        for i, (client, other) in enumerate([(a, b), (b, a)]):
            listens = {local for state, local, _ in sockets_of(children[other]) if state == LISTENING}
            ports = [str(local) for state, local, remote in sockets_of(children[client])
                     if state == ESTABLISHED and remote in listens]
            if ports:
                text += f"add element inet {self.table} client{i} {{ {', '.join(ports)} }}\n"
        for sender, receiver in [(a, b), (b, a)] if both else [(a, b)]:
            client, listens = ways[sender]
            drop.append(f"tcp sport {client} tcp dport {listens} counter drop")
            client, listens = ways[receiver]
            drop.append(f"tcp sport {listens} tcp dport {client} counter drop")
        text += (f"add chain inet {self.table} drops {{ type filter hook input priority 0; }}\n" +
                 "".join(f"add rule inet {self.table} drops {rule}\n" for rule in drop))
        nft(text)

    def lift(self):
        """The number of packets that were dropped."""
        listing = subprocess.run(["nft", "list", "table", "inet", self.table], stdout=subprocess.PIPE,
                                 text=True, check=True).stdout
        nft(f"delete table inet {self.table}\n")
        return sum(int(count) for count in re.findall(r"counter packets (\d+)", listing))


class BlockedLinkTestCase(ClusterTestCase):
    """Jobs whose processes can be kept from one another."""
    why_not = None

    @classmethod
    def setUpClass(cls):
        cls.why_not = own_network()

    def setUp(self):
        super().setUp()
        if self.why_not is not None:
            self.skipTest(f"NOT TESTED: ways that swallow bytes: {self.why_not}")
        self.bin = os.path.join(self.dir, "bin")
        os.mkdir(self.bin)
        shutil.copy2(os.path.join(BIN, "soapstone"), self.bin)
        for role, group in FIRST_GROUP.items():
            path = os.path.join(self.bin, f"soapstone-{role}")
            with open(path, "w") as file:
                file.write(AS_ITS_GROUP % (group, os.path.join(BIN, f"soapstone-{role}")))
            os.chmod(path, 0o755)

    def train(self, *flags):
        running = super().train(*flags)
        self.addCleanup(self.stop_children, running)
        return running

    def stop_children(self, running):
        """Who changes its group does not end with its parent."""
        for pid in descendants(running.pid).values():
            os.kill(pid, signal.SIGKILL)
