"""Parameters that workers keep in a ring, each an equal range of what several hold, over real processes: the values of
one worker, the bits that servers and owners give, whatever carries the messages."""
import os
import signal
import sys
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [f"{TESTS}/cluster", f"{TESTS}/durability"]
from cluster import descendants  # noqa: E402
from strategy_resume_test import tensors_of  # noqa: E402
from strategy_test import StrategyTestCase  # noqa: E402


def apart(a, b):
    """The largest of the tensors' relative differences."""
    norm = lambda values: sum(x * x for x in values) ** 0.5
    return max(norm([x - y for x, y in zip(a[name], b[name], strict=True)]) / norm(b[name]) for name in b)


class RingTest(StrategyTestCase):

    def trained(self, *flags):
        """Tensors, and the hash."""
        model = f"{self.dir}/model.safetensors"
        running = self.train("--steps=20", "--seed=3", f"--model_path={model}", *flags)
        self.assertEqual(running.wait(170), 0, running.output())
        return {name: values for name, (_, values) in tensors_of(model)[0].items()}, self.sha256(running.output())

    def check(self, search, seats):
        self.write_job()
        ring = self.plan(search, seats, sync="ring")
        with open(ring) as file:
            self.assertIn('synchronization: "ring"', file.read())
        whole, _ = self.trained("--workers=1")
        split, sha256 = self.trained(f"--strategy={ring}", f"--workers={seats}")
        self.assertLess(apart(split, whole), 1e-5)
        for transport in ("sockets", "zeromq"):
            again = self.trained(f"--strategy={ring}", f"--workers={seats}", f"--transport={transport}")
            self.assertEqual(again[1], sha256, transport)
        for sync in ("owner", "servers"):
            kept = self.plan(search, seats, sync=sync)
            self.assertEqual(self.trained(f"--strategy={kept}", f"--workers={seats}")[1], sha256, sync)

    def test_samples_over_two_workers(self):
        self.check("data", 2)

    def test_samples_over_three_workers(self):
        self.check("data", 3)

    def test_pieces_of_one_holder_among_those_of_three(self):
        self.check("expert", 3)

    def test_two_teams_have_the_bits_that_they_have_with_servers(self):
        self.write_job()
        teams = ("--workers=4", "--teams=2", "--batch=96", "--micro_batches=2")
        hashes = {self.trained(f"--strategy={self.plan('data', 2, sync=sync)}", *teams)[1] for sync in ("ring", "servers")}
        self.assertEqual(len(hashes), 1)

    def test_it_goes_on_from_a_checkpoint_of_ranges(self):
        self.write_job()
        strategy = f"--strategy={self.plan('data', 3, sync='ring')}"
        _, straight = self.trained(strategy, "--workers=3")
        checkpoint = (strategy, "--workers=3", f"--checkpoint={self.dir}/checkpoints")
        first = self.train("--steps=12", "--seed=3", *checkpoint)
        self.assertEqual(first.wait(170), 0, first.output())
        self.assertEqual(self.trained(*checkpoint, "--resume=auto")[1], straight)

    def test_processes_are_workers_and_a_scheduler(self):
        self.write_job(epochs=1000)
        running = self.train(f"--strategy={self.plan('data', 2, sync='ring')}", "--workers=2")
        running.wait_for(r"clock|epoch")
        self.assertEqual(set(descendants(running.pid)), {"scheduler", "worker-0", "worker-1"})
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(60), 143, running.output())
        self.assertIn("the servers are within the workers' processes", running.output())


if __name__ == "__main__":
    unittest.main()
