"""Real training by real processes over tcp: every policy, daemons started by hand."""
import json
import os
import struct
import unittest

from cluster import SOURCE, ClusterTestCase, descendants


class TrainTest(ClusterTestCase):

    def check(self, policy, *flags):
        running = self.train(f"--policy={policy}", *flags)
        running.wait_for("started")
        children = descendants(running.pid)
        code = running.wait(120)
        self.assertEqual(code, 0, running.output())
        self.assert_nothing_left(children)
        self.assertGreaterEqual(self.accuracy(running.output()), 0.95, running.output())
        self.assertIn("broken 0 times", running.output())
        return running

    def test_bsp(self):
        self.check("bsp")

    def test_ssp_0(self):
        self.check("ssp:s=0")

    def test_ssp_3(self):
        self.check("ssp:s=3")

    def test_async(self):
        self.check("async")

    def test_easgd_sync(self):
        self.check("easgd:tau=4,mode=sync", "--epochs=20")

    def test_easgd_async(self):
        self.check("easgd:tau=4,mode=async", "--epochs=20")

    def test_bsp_bits_do_not_depend_on_the_cluster(self):
        hashes = set()
        for servers, workers in ((1, 1), (3, 2), (1, 4)):
            running = self.train("--policy=bsp", f"--servers={servers}", f"--workers={workers}",
                                 "--epochs=2")
            self.assertEqual(running.wait(120), 0, running.output())
            hashes.add(self.sha256(running.output()))
        self.assertEqual(len(hashes), 1)

    def test_model_and_logs_are_written(self):
        path = os.path.join(self.dir, "model.safetensors")
        running = self.train("--epochs=1", f"--model_path={path}")
        self.assertEqual(running.wait(60), 0, running.output())
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        self.assertIn("conv1.weight", header)
        self.assertEqual(header["__metadata__"]["sha256"], self.sha256(running.output()))
        for name in ("scheduler", "server-0", "server-1", "worker-0", "worker-1", "worker-2"):
            self.assertGreater(os.path.getsize(f"{self.dir}/logs/{name}.log"), 0)

    def test_daemons_by_hand(self):
        scheduler = self.run_program("soapstone-scheduler", f"--config={self.config}",
                                     "--scheduler=tcp://127.0.0.1:0", "--progress=json",
                                     "--epochs=1", "--workers=2", "--servers=1")
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        rest = [self.run_program(program, f"--config={self.config}", f"--scheduler={endpoint}",
                                 "--epochs=1", "--workers=2", "--servers=1")
                for program in ("soapstone-server", "soapstone-worker", "soapstone-worker")]
        self.assertEqual(scheduler.wait(60), 0, scheduler.output())
        for node in rest:
            self.assertEqual(node.wait(20), 0, node.output())
            self.assertIn("from the scheduler", node.output())

    def test_another_configuration_is_refused(self):
        scheduler = self.run_program("soapstone-scheduler", f"--config={self.config}",
                                     "--scheduler=tcp://127.0.0.1:0", "--progress=json")
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        worker = self.run_program("soapstone-worker", f"--config={self.config}",
                                  f"--scheduler={endpoint}", "--policy=async")
        self.assertEqual(worker.wait(20), 78, worker.output())
        self.assertIn("configuration differs", worker.output())

    def test_the_missing_are_named_at_the_start_timeout(self):
        scheduler = self.run_program("soapstone-scheduler", f"--config={self.config}",
                                     "--scheduler=tcp://127.0.0.1:0", "--start_timeout_s=1")
        self.assertEqual(scheduler.wait(20), 138, scheduler.output())
        self.assertIn("missing server 0, server 1, worker 0, worker 1, worker 2",
                      scheduler.output())

    def test_the_shipped_example_is_valid(self):
        running = self.run_program("soapstone", "train", "--check",
                                   f"--config={SOURCE}/examples/digits-lenet5.textproto")
        self.assertEqual(running.wait(20), 0, running.output())


if __name__ == "__main__":
    unittest.main()
