"""`soapstone train --curve`: the learning curve of real processes."""
import csv
import os
import re
import unittest

from cluster import ClusterTestCase

SAMPLES = 1438  # of the digits, held-out ones aside
COLUMNS = ["time_s", "samples", "train_loss", "test_loss", "test_accuracy", "bytes"]


class CurveTest(ClusterTestCase):

    def train_curve(self, *flags):
        """What it printed, and the curve's lines as numbers."""
        path = os.path.join(self.dir, "curve.csv")
        running = self.train(f"--curve={path}", *flags)
        self.assertEqual(running.wait(120), 0, running.output())
        return running.output(), self.read(path)

    def read(self, path):
        with open(path) as file:
            reader = csv.DictReader(file)
            rows = [{name: float(value) for name, value in row.items()} for row in reader]
            self.assertEqual(reader.fieldnames, COLUMNS)
        return rows

    def test_under_bsp_it_is_that_of_co_simulation(self):
        flags = ("--policy=bsp", "--epochs=4", "--curve_every=200")
        output, real = self.train_curve(*flags)
        path = os.path.join(self.dir, "simulated.csv")
        running = self.run_program("soapstone", "simulate", f"--job={self.config}", "--seed=1",
                                   f"--curve={path}", *flags)
        self.assertEqual(running.wait(60), 0, running.output())
        simulated = self.read(path)
        self.assertGreater(len(simulated), 20)
        self.assertEqual(len(real), len(simulated))
        for one, other in zip(real, simulated):
            for name in ("samples", "test_loss", "test_accuracy"):  # the same bits
                self.assertEqual(one[name], other[name], (one, other))
            # Sums over the workers, in another order.
            self.assertAlmostEqual(one["train_loss"], other["train_loss"], delta=1e-3)
        for before, after in zip(real, real[1:]):
            self.assertGreater(after["time_s"], before["time_s"])
            self.assertGreater(after["bytes"], before["bytes"])
        seconds = float(re.search(r"^  time +([0-9.]+) s", output, re.M).group(1))
        self.assertLess(abs(real[-1]["time_s"] - seconds), 1)
        self.assertEqual(os.listdir(self.dir).count("curve.csv"), 1)
        self.assertFalse([name for name in os.listdir(self.dir) if name.startswith("curve.csv.")])

    def test_averaging_policies_show_their_replicas(self):
        for policy in ("easgd:tau=4,mode=async", "localsgd:h=4"):
            output, curve = self.train_curve(f"--policy={policy}", "--epochs=8")
            self.assertGreater(len(curve), 20, policy)
            self.assertEqual(curve[-1]["samples"], 8 * SAMPLES)
            self.assertGreater(curve[-1]["test_accuracy"], 0.8)
            match = re.search(r"of the replicas +least ([0-9.]+), median ([0-9.]+), greatest "
                              r"([0-9.]+)", output)
            self.assertIsNotNone(match, output)
            least, median, greatest = (float(match.group(i)) for i in (1, 2, 3))
            self.assertLessEqual(least, median)
            self.assertLessEqual(median, greatest)
            self.assertGreater(least, 0.7)

    def test_too_many_points_are_a_configuration_error(self):
        for flags, wanted in ((("--curve_every=1",), "output.curve_every: 1 makes"),
                              (("--curve=/nowhere/c.csv",), "output.curve_path: cannot write")):
            running = self.train(*flags)
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertIn(wanted, running.output())
            self.assertEqual(len(running.lines), 1, running.output())


if __name__ == "__main__":
    unittest.main()
