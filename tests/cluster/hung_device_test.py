"""A device that does not come back from a command: its worker says in which, and ends."""
import os
import signal
import time
import unittest

from cluster import ClusterTestCase, descendants
from stopped_thread import reap, stop_thread, thread_named

class HungDeviceTest(ClusterTestCase):

    def test_a_hung_device_is_named_and_its_worker_ends(self):
        # Layers of 2,048: the device is nearly always in an operator.
        flags = ("--policy=bsp", "--model=mlp:hidden=2048", "--servers=1", "--workers=2",
                 "--batch=256", "--micro_batches=2", "--epochs=12", "--heartbeat_timeout_s=2")
        undisturbed = self.train(*flags)
        self.assertEqual(undisturbed.wait(150), 0, undisturbed.output())
        for _ in range(3):
            running = self.train(*flags)
            running.wait_for(r"^epoch [2-9]/")
            worker = descendants(running.pid)["worker-1"]
            device = thread_named(worker, "device")
            stop_thread(self, device)
            stopped = time.monotonic()
            # Now and then it holds a lock that others need, and the whole process stands still.
            if running.wait_for("worker-1: .*the device is slow|worker 1 lost", 10).group(0)[-4:] != "lost":
                break
            os.kill(worker, signal.SIGKILL)
            reap(device, 10)
            self.assertEqual(running.wait(150), 0, running.output())
        line = running.wait_for("worker-1: .*the device is stuck: it has (.*) for", 30).group(1)
        self.assertRegex(line, r"been in (forward|backward) of |been in|taken no command")
        # At four times the timeout, looked at once a second.
        self.assertLess(time.monotonic() - stopped, 12)
        reap(device, 10)
        self.assertEqual(running.wait(150), 0, running.output())
        self.assertIn("worker 1 lost", running.output())
        self.assertEqual(self.sha256(running.output()), self.sha256(undisturbed.output()))


if __name__ == "__main__":
    unittest.main()
