"""Two processes that both live and cannot reach one another any more: one line names both, one of them is counted
out, and the others go on, or the job ends with 138."""
import re
import socket
import struct
import time
import unittest

from blocked_links import Block, BlockedLinkTestCase
from broken_link_test import SEQPACKET, descriptors, table, take_descriptor
from cluster import descendants

LINK_TIMEOUT = 3  # of cluster.JOB: its heartbeat_timeout_s
WITHIN = LINK_TIMEOUT + 4  # a busy machine takes two
LISTENS = "00010000"  # flags of a Unix socket


class LostLinkCiTest(BlockedLinkTestCase):

    def start(self, policy, transport, *flags):
        running = self.train(f"--policy={policy}", f"--transport={transport}", *flags)
        running.wait_for(r"^epoch \d+/")
        children = descendants(running.pid)
        return running, children

    def check(self, policy, transport, pairs, line, out, both=True, flags=("--epochs=25", "--base_ms=5"), code=0):
        """Blocks the pairs [(a, b)]; `line` comes, `out` ends with 138, the job with `code`."""
        running, children = self.start(policy, transport, *flags)
        for a, b in pairs:
            Block(children, a, b, both)
        blocked = time.monotonic()
        running.wait_for(line, WITHIN + 20)
        took = time.monotonic() - blocked
        print(f"{policy} over {transport}, {pairs}{'' if both else ' one way'}: after {took:.1f} s "
              f"{running.wait_for(line).group(0)!r}", flush=True)
        self.assertLess(took, WITHIN)
        self.assertEqual(running.wait(90), code, running.output())
        # Others say it too, each behind its name.
        self.assertEqual(len(re.findall(f"^(soapstone: .*)?{line}", running.output(), re.M)), 1, running.output())
        counted_out = set(re.findall(r"(\w+ \d+) is counted out", running.output()))
        self.assertEqual(counted_out, {out.replace("-", " ")} if out else set(), running.output())
        if out:
            with open(f"{self.dir}/logs/{out}.log") as log:
                self.assertIn("is lost", log.read().splitlines()[-1])
        return running

    def test_a_link_through_shared_memory(self):
        running, children = self.start("bsp", "auto", "--epochs=25", "--base_ms=5")
        server, worker = children["server-0"], children["worker-1"]
        listeners, ends = [], []
        held = descriptors(server)
        for row in table(server, "unix"):
            if row[4] != SEQPACKET or row[6] not in held:
                continue
            taken = take_descriptor(server, held[row[6]])
            if row[3] == LISTENS:
                listeners.append(taken)
            elif struct.unpack("3i", taken.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0] == worker:
                ends.append(taken)
            else:
                taken.close()
        self.assertEqual((len(listeners), len(ends)), (1, 1))
        broken = time.monotonic()
        for taken in listeners + ends:  # in this order: no other connection is taken
            taken.shutdown(socket.SHUT_RDWR)
            taken.close()
        line = self.between("server 0", "worker 1") + ": worker 1 is counted out"
        said = running.wait_for(line, WITHIN + 20).group(0)
        took = time.monotonic() - broken
        print(f"bsp through shared memory: after {took:.1f} s {said!r}", flush=True)
        self.assertLess(took, WITHIN)
        self.assertEqual(running.wait(90), 0, running.output())

    def between(self, a, b):
        return rf"the link between {a} and {b} is lost \(.*\)"

    def test_a_worker_and_a_server(self):
        for transport in ["sockets", "zeromq"]:
            self.check("bsp", transport, [("worker-1", "server-0")],
                       self.between("server 0", "worker 1") + ": worker 1 is counted out", "worker-1")

    def test_only_what_the_worker_sends(self):
        for transport in ["sockets", "zeromq"]:
            self.check("bsp", transport, [("worker-1", "server-0")],
                       self.between("server 0", "worker 1") + ": worker 1 is counted out", "worker-1", both=False)

    def test_only_what_the_server_sends(self):
        for transport in ["sockets", "zeromq"]:
            self.check("async", transport, [("server-1", "worker-2")],
                       self.between("server 1", "worker 2") + ": worker 2 is counted out", "worker-2", both=False)

    # Every second worker asks others, which answer: 0 and 2 have nothing to say to one another.
    def test_two_workers(self):
        for other, transport in [(1, "sockets"), (1, "zeromq"), (2, "sockets")]:
            self.check("gossip:mode=adpsgd", transport, [("worker-0", f"worker-{other}")],
                       self.between("worker 0", f"worker {other}") + f": worker {other} is counted out",
                       f"worker-{other}")

    def test_of_two_workers_the_one_with_more_broken_links(self):
        for transport in ["sockets", "zeromq"]:
            self.check("gossip:mode=adpsgd", transport, [("worker-1", "worker-2"), ("worker-0", "worker-1")],
                       self.between(r"worker \d", r"worker \d") + ": worker 1 is counted out", "worker-1")
            self.check("allreduce", transport, [("worker-0", "worker-1"), ("worker-0", "worker-2")],
                       self.between("worker 0", r"worker \d") + ": worker 0 is counted out", "worker-0")

    # It was welcomed, and nobody has ever heard it on the link that is missing.
    def test_a_newcomer_that_does_not_reach_a_server(self):
        for transport in ["sockets", "zeromq"]:
            def block(name, nodes):
                if name == "worker-1":
                    for server in ["server-0", "server-1"]:
                        nodes[server].wait_for("registered|server \\d")
                    Block({**{n: node.pid for n, node in nodes.items()}, name: 0}, name, "server-0", True)

            nodes = self.start_by_hand("--policy=bsp", f"--transport={transport}", "--epochs=25", before=block)
            line = self.between("server 0", "worker 1") + ": worker 1 is counted out"
            nodes["scheduler"].wait_for(line, WITHIN + 20)
            self.assertEqual(nodes.pop("worker-1").wait(20), 138)
            for name, node in nodes.items():
                self.assertEqual(node.wait(60), 0, f"{name}: {node.output()}")

    def test_two_servers(self):
        for transport in ["sockets", "zeromq"]:
            self.check("tree:group=2,s=1", transport, [("server-0", "server-2")],
                       self.between("server 0", "server 2"), None, code=138)
        # They have nothing to say to one another before the model is gathered.
        self.check("ssp:s=2", "zeromq", [("server-0", "server-1")],
                   self.between("server 0", "server 1"), None, code=138)

    def test_a_worker_and_the_scheduler(self):
        for transport in ["sockets", "zeromq"]:
            self.check("bsp", transport, [("worker-1", "scheduler")],
                       "worker 1 lost: (its link to the scheduler|no heartbeat)", None)


if __name__ == "__main__":
    unittest.main()
