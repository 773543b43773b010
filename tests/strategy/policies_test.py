"""Every policy between two teams of two workers, with a pipeline, with linear operators split by what they put out
(each piece of a parameter has one holder), and with samples split besides (several hold it). Where a policy takes the
strategy the teams learn and break no guarantee; else the job is refused in one line, before anything starts."""
import os
import re
import sys
import unittest

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
sys.path.append(CLUSTER)
from teams_test import TeamsTestCase  # noqa: E402

OF_SERVERS = ("bsp", "ssp:s=2", "essp:s=2", "dssp:lower=1,upper=4", "psp:sample=1,s=1", "pssp:s=1,p=0.5", "async",
              "softsync:n=1", "dcasgd")
AVERAGING = ("easgd:tau=4,mode=sync", "easgd:tau=4,mode=async", "eamsgd:tau=4,delta=0.9", "localsgd:h=4", "bmuf:h=4")
OF_PEERS = ("allreduce", "gossip:mode=dpsgd", "gossip:mode=gossipgrad", "gossip:mode=adpsgd", "gossip:mode=pushsum")


class PoliciesTestCase(TeamsTestCase):

    def strategy(self, kind, sync="servers"):
        """The path of a strategy of two seats."""
        if kind == "pipeline":
            return self.pipeline(2, sync=sync)
        hybrid = self.of_teams("expert", sync=sync)
        if kind == "hybrid":
            return hybrid
        # What is not split by parameters is whole, on the first seat.
        with open(hybrid) as file:
            text = file.read()
        path = f"{self.dir}/parameters.strategy.textproto"
        with open(path, "w") as file:
            file.write(text[:text.index("ops {")])
            for op in re.findall(r"^ops \{\n.*?^\}\n", text, re.MULTILINE | re.DOTALL):
                name = re.search('name: "([^"]+)"', op).group(1)
                file.write(op if 'dim: "o"' in op else 'ops { name: "%s" devices: 0 }\n' % name)
        return path

    def learn_by(self, kind, policy, epochs=25, sync="servers"):
        running = self.start(self.strategy(kind, sync), f"--policy={policy}", "--strict", epochs=epochs)
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertIn("broken 0 times", running.output())
        self.assertGreaterEqual(self.accuracy(running.output()), 0.97, running.output())
        return running.output()

    def learn_by_each(self, kind, policies, **run):
        for policy in policies:
            with self.subTest(policy=policy):
                self.learn_by(kind, policy, **run)

    def check_bits(self, policies, sync="servers"):
        """Each seat does with its pieces what a worker does with the whole model."""
        pipeline = self.pipeline(1, sync=sync)
        for policy in policies:
            with self.subTest(policy=policy):
                self.write_job()
                whole = self.hash_of("--workers=2", "--batch=96", "--micro_batches=2", f"--policy={policy}")
                self.assertEqual(self.hash_of_teams(pipeline, f"--policy={policy}", "--strict"), whole)

    def refuse_policy(self, strategy, policy, *expected, flags=()):
        running = self.start(strategy, f"--policy={policy}", *flags)
        self.assertEqual(running.wait(60), 78, running.output())
        lines = [line for line in running.output().splitlines() if "strategy" in line]
        self.assertEqual(len(lines), 1, running.output())
        for text in expected:
            self.assertIn(text, lines[0], policy)


class PoliciesTest(PoliciesTestCase):

    def test_fresh_values_of_pieces_that_several_hold(self):
        self.learn_by("hybrid", "essp:s=2")

    def test_local_steps_on_split_linears(self):
        self.learn_by("parameters", "easgd:tau=4,mode=sync")

    def test_rings_of_seats(self):
        self.learn_by("parameters", "allreduce")

    def test_pipelines_have_the_bits_of_workers_that_have_all(self):
        self.check_bits(("easgd:tau=4,mode=sync", "allreduce"))

    def test_a_lost_team_ends_what_seats_exchange_among_themselves(self):
        running = self.start(self.pipeline(1), "--policy=allreduce")
        self.lose(running, 3)
        self.assertEqual(running.wait(60), 138, running.output())
        self.assertIn("worker 3 is gone, and with it team 1: seats of the others", running.output())

    def test_what_is_refused(self):
        hybrid = self.strategy("hybrid")
        for policy in AVERAGING + OF_PEERS:
            self.refuse_policy(hybrid, policy, "several have conv1.weight (workers 0, 1), conv1.bias (workers 0, 1), "
                               "conv2.weight (workers 0, 1) and 1 more", hybrid)
        pipeline = self.strategy("pipeline")
        for policy in ("backup:b=1", "value:v0=1", "tree:group=2,s=1", "eager:mode=solo"):
            self.refuse_policy(pipeline, policy, "does not take a model that is split over workers")
        self.refuse_policy(pipeline, "ssp:s=1", "has none but fifo", flags=["--communication=priority"])


class PoliciesCiTest(PoliciesTestCase):
    """The rest of the table."""

    def test_of_servers_with_a_pipeline(self):
        self.learn_by_each("pipeline", OF_SERVERS)

    def test_of_servers_with_split_parameters(self):
        self.learn_by_each("parameters", OF_SERVERS)

    def test_of_servers_with_split_samples_too(self):
        self.learn_by_each("hybrid", OF_SERVERS)

    def test_averaging_with_a_pipeline(self):
        self.learn_by_each("pipeline", AVERAGING)

    def test_averaging_with_split_parameters(self):
        self.learn_by_each("parameters", AVERAGING)

    def test_of_peers_with_a_pipeline(self):
        self.learn_by_each("pipeline", OF_PEERS)

    def test_of_peers_with_split_parameters(self):
        self.learn_by_each("parameters", OF_PEERS)

    def test_bits_of_the_others_that_have_one_hash(self):
        self.check_bits(("localsgd:h=4", "bmuf:h=4", "eamsgd:tau=4,delta=0.9,mode=sync", "gossip:mode=dpsgd",
                         "gossip:mode=gossipgrad"))
        self.check_bits(("localsgd:h=4", "allreduce"), sync="owner")

    def test_other_teams_go_on_without_a_lost_one(self):
        for policy in ("essp:s=2", "softsync:n=1", "easgd:tau=4,mode=sync", "localsgd:h=4"):
            with self.subTest(policy=policy):
                running = self.start(self.pipeline(1), f"--policy={policy}", "--strict", epochs=60)
                self.lose(running, 3)
                running.wait_for("team 1 is out, for worker 3 is gone", 20)
                self.assertEqual(running.wait(170), 0, running.output())
                self.assertIn("broken 0 times", running.output())
                self.assertGreaterEqual(self.accuracy(running.output()), 0.95, running.output())

    def test_a_lost_team_may_come_again(self):
        self.come_again(self.pipeline(1), policy="localsgd:h=4")

    def test_with_owners(self):
        self.learn_by_each("hybrid", ("essp:s=2", "softsync:n=1", "dcasgd"), sync="owner")
        self.learn_by_each("pipeline", ("easgd:tau=4,mode=async", "localsgd:h=4", "allreduce"), sync="owner")


if __name__ == "__main__":
    unittest.main()
