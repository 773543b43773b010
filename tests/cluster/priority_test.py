"""The order of sending changes when messages move, and nothing else: the model's bits are the same."""
import os
import signal
import unittest

from cluster import ClusterTestCase, descendants


class PriorityTest(ClusterTestCase):

    def hash_of(self, *flags):
        running = self.train("--policy=bsp", *flags)
        self.assertEqual(running.wait(120), 0, running.output())
        return self.sha256(running.output())

    def test_same_bits_on_and_off(self):
        expected = self.hash_of("--epochs=6")
        for shards in (2, 8):
            for transport in ("sockets", "auto"):
                self.assertEqual(self.hash_of("--epochs=6", "--communication=priority",
                                              f"--shards_per_server={shards}",
                                              f"--transport={transport}"), expected)

    def test_same_bits_after_the_loss_of_a_worker(self):
        expected = self.hash_of("--epochs=35")
        running = self.train("--policy=bsp", "--transport=sockets", "--epochs=35",
                             "--communication=priority", "--shards_per_server=4")
        running.wait_for(r"^epoch \d+/")
        children = descendants(running.pid)
        os.kill(children["worker-1"], signal.SIGKILL)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("worker 1 lost", running.output())
        self.assertEqual(self.sha256(running.output()), expected)
        self.assert_nothing_left(children)


if __name__ == "__main__":
    unittest.main()
