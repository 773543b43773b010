"""A small experiment, and the real command that runs it."""
import os
import shutil
import subprocess
import tempfile
import unittest

BIN = os.environ["SOAPSTONE_BIN"]
SOURCE = os.environ["SOAPSTONE_SOURCE"]

SPEC = """title: "Tiny"
base {
  model: "softmax"
  data { format: "digits" path: "%s/data/digits/digits.csv.gz" }
  training { epochs: 3 batch: 64 micro_batches: 8 optimizer: "momentum:lr=0.05,mu=0.9" }
  cluster { servers: 1 shards_per_server: 2 }
}
policies { spec: "bsp" }
policies { spec: "ssp:s=2" }
policies { spec: "async" }
policies { spec: "easgd:tau=4" }
stragglers { name: "none" model: "none" }
stragglers { name: "transient" model: "stall:p=0.05,factor=6" }
stragglers { name: "persistent" model: "slow:workers=1,factor=2" }
workers: [2, 4]
scaling: strong
seed_count: 6
tuning { learning_rates: [0.1, 1, 10] seed_count: 3 }
one_worker: true
target_accuracy: 0.8
iteration_ms: 10
latency_us: 200
bandwidth_mbps: 1000
claims { faster: "ssp:s=2" than: "bsp" under: "transient" workers: 4 }
""" % SOURCE
POLICIES = 4
CONDITIONS = 3
WORKERS = 2
SEEDS = 6
RUNS = (POLICIES * CONDITIONS * WORKERS + 1) * (SEEDS + 3 * 3)


class ExperimentTestCase(unittest.TestCase):
    """Offers a scratch folder with the spec in it."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="soapstone-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.out = os.path.join(self.dir, "out")
        self.spec = self.write("spec.textproto", SPEC)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def read(self, name):
        with open(os.path.join(self.out, name)) as file:
            return file.read()

    def start(self, *flags, spec=None, folder=SOURCE):
        command = [os.path.join(BIN, "soapstone"), "experiment", spec or self.spec,
                   f"--out={self.out}", *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, cwd=folder)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def run_experiment(self, *flags, spec=None, folder=SOURCE, code=0):
        """What it prints, in that working folder."""
        process = self.start(*flags, spec=spec, folder=folder)
        output, _ = process.communicate(timeout=150)
        self.assertEqual(process.returncode, code, output)
        return output
