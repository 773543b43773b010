"""Stores that do not keep their word, in real processes: a strict run ends with 76 within two clocks,
and one that is not strict tells who has found what, and when, in ledger.json."""
import json
import os
import re
import shutil
import unittest
from unittest import mock

from cluster import BIN, ClusterTestCase

SERVERS = ("bsp", "ssp:s=0", "async")
PEERS = ("allreduce", "eager:mode=majority,seed=1", "gossip:mode=dpsgd", "gossip:mode=gossipgrad,seed=1",
         "gossip:mode=pushsum", "gossip:mode=adpsgd,graph=complete,seed=1")
FAULTS = ("drops", "reorders", "older", "older_content")
LINE = re.compile(r"^soapstone: ended with exit code 76: \S+ broke its guarantee: "
                  r"(shard|worker|peer|a read|an update)", re.M)


class LedgerTest(ClusterTestCase):

    def setUp(self):
        super().setUp()
        # The launcher starts what lies beside it.
        self.bin = os.path.join(self.dir, "bin")
        os.mkdir(self.bin)
        for name in ("soapstone", "soapstone-scheduler"):
            shutil.copy2(os.path.join(BIN, name), self.bin)
        for role in ("server", "worker"):
            os.symlink(os.path.join(BIN, "soapstone-faulty-node"),
                       os.path.join(self.bin, f"soapstone-{role}"))

    def run_with(self, fault, *flags):
        with mock.patch.dict(os.environ, SOAPSTONE_TEST_FAULT=fault):
            return self.train("--model=softmax", *flags)

    def rows(self):
        with open(os.path.join(self.dir, "logs", "ledger.json")) as file:
            nodes = json.load(file)["nodes"]
        return [row for node in nodes for row in node["violations"]]

    def dies(self, policy, fault):
        with self.subTest(policy=policy, fault=fault):
            running = self.run_with(fault, f"--policy={policy}", "--strict", "--epochs=1000")
            self.assertEqual(running.wait(30), 76, running.output())
            self.assertEqual(len(LINE.findall(running.output())), 1, running.output())
            rows = self.rows()
            self.assertTrue(rows, "nobody has put it into ledger.json")
            print(f"{policy} {fault}: {rows[0]['by']} {rows[0]['kind']} clock {rows[0]['clock']}",
                  flush=True)
            self.assertLessEqual(min(row["clock"] for row in rows), 2)

    def test_a_store_of_servers_that_breaks_its_word_ends_the_run(self):
        for policy in SERVERS:
            for fault in FAULTS:
                self.dies(policy, fault)

    def test_peers_that_break_their_word_end_the_run(self):
        for policy in PEERS:
            for fault in FAULTS:
                self.dies(policy, fault)

    def test_a_final_read_of_what_was_ends_the_run(self):
        for policy in ("bsp", "async", "allreduce"):
            for fault in ("final_older", "final_content"):
                with self.subTest(policy=policy, fault=fault):
                    running = self.run_with(fault, f"--policy={policy}", "--strict", "--epochs=1")
                    self.assertEqual(running.wait(30), 76, running.output())
                    self.assertEqual(len(LINE.findall(running.output())), 1, running.output())

    def test_a_run_that_goes_on_tells_who_has_found_what(self):
        running = self.run_with("drops", "--policy=gossip:mode=dpsgd", "--epochs=1")
        self.assertEqual(running.wait(60), 0, running.output())
        self.assertRegex(running.output(), r"guarantee .*; broken [1-9][\d,]* times in 0 reads")
        self.assertRegex(running.output(), r"broken +[1-9][\d,]* times, found by peer 0 \(older\): peer 0: "
                                           r"a read at clock 1 holds the values of 0 steps; 1 are made")
        self.assertRegex(running.output(), r"worker 0: the guarantee of \S+ was broken \d+ times so far")
        found = {(row["by"], row["kind"]): row for row in self.rows()}
        for rank in range(3):
            self.assertEqual(found[(f"peer {rank}", "older")]["clock"], 1)
            self.assertEqual(found[(f"worker {rank}", "own_writes")]["worker"], rank)
        with open(os.path.join(self.dir, "logs", "ledger.json")) as file:
            told = json.load(file)["result"]["violations"]
        # What the final read shows comes after the last word of most.
        self.assertGreater(told, 0)
        self.assertLessEqual(told, sum(row["times"] for row in found.values()
                                       if row["by"].startswith(("peer", "worker"))))

    def test_a_server_of_many_shards_is_heard(self):
        """Its report, a row for each worker and shard, is a line of more than 64 KB."""
        running = self.run_with("doubles", "--policy=ssp:s=2", "--workers=8", "--servers=1", "--shards_per_server=64",
                                "--micro_batches=8", "--epochs=1")
        self.assertEqual(running.wait(60), 0, running.output())
        self.assertRegex(running.output(), r"broken [1-9][\d,]* times in [1-9][\d,]* reads")
        with open(os.path.join(self.dir, "logs", "ledger.json")) as file:
            self.assertIn("server-0", {node["name"] for node in json.load(file)["nodes"]})

    def test_a_run_without_a_fault_is_whole(self):
        for policy in ("ssp:s=2",) + PEERS:
            with self.subTest(policy):
                running = self.run_with("none", f"--policy={policy}", "--strict", "--epochs=2")
                self.assertEqual(running.wait(60), 0, running.output())
                self.assertRegex(running.output(), r"broken 0 times in [\d,]+ reads, [1-9]")
                self.assertEqual(self.rows(), [])


if __name__ == "__main__":
    unittest.main()
