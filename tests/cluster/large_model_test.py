"""A job whose model is large: nobody is counted out because of it, on a machine that is busy.

SOAPSTONE_PARAMETERS in the environment: another number of parameters than 4 * 10^8.
"""
import json
import os
import re
import subprocess
import sys
import unittest

from cluster import ClusterTestCase

PARAMETERS = int(os.environ.get("SOAPSTONE_PARAMETERS", 400_000_000))

# As busy as a compiler: it computes, and goes through memory.
BUSY = """
data = bytearray(200 << 20)
while True:
    for at in range(0, len(data), 4096):
        data[at] = (data[at] + at) & 255
"""


class LargeModelTest(ClusterTestCase):

    def write_data(self):
        path = os.path.join(self.dir, "data.csv")
        with open(path, "w") as file:
            for i in range(16):
                file.write(f"{(i % 8) / 8 + i / 100},{i % 2}\n")
        return path

    def test_starts_steps_and_writes_beside_a_compiler(self):
        hidden = int((2 * PARAMETERS) ** 0.5) // 2 * 2  # mlp: hidden * hidden / 2 parameters
        model = os.path.join(self.dir, "model.safetensors")
        busy = subprocess.Popen([sys.executable, "-c", BUSY])
        self.addCleanup(busy.wait)
        self.addCleanup(busy.kill)
        workers = 2
        with open(self.config, "w") as file:
            file.write(f"""
model: "mlp:hidden={hidden}"
data {{ format: "csv" path: "{self.write_data()}" test_fraction: 0.25 }}
policy: "bsp"
training {{ epochs: 1 batch: 4 micro_batches: 2 seed: 1 optimizer: "sgd:lr=0.001" }}
cluster {{ servers: 1 workers: {workers} }}
output {{ model_path: "{model}" }}
""")
        running = self.train()
        self.assertEqual(running.wait(600), 0, running.output())
        with open(f"{self.dir}/logs/ledger.json") as file:
            ledger = json.load(file)
        nodes = {node["name"]: node for node in ledger["nodes"]}
        self.assertEqual({"server-0", "worker-0", "worker-1"}, set(nodes) - {"scheduler"},
                         "who frees a large model has said before how it went")
        size = hidden * hidden // 2 * 4
        server = nodes["server-0"]
        gap = max(node.get("heartbeat_gap_s", 0) for node in nodes.values())
        print(f"{size / 4e9:.3f} G parameters:", ", ".join(
            f"{name}: greatest gap {node['heartbeat_gap_s']:.2f} s, resident "
            f"{node['resident_peak_bytes'] / size:.2f} models"
            for name, node in nodes.items() if name != "scheduler"))
        self.assertEqual(ledger["result"]["samples"], 12, "three steps of four samples")
        self.assertGreater(os.path.getsize(model), size)
        self.assertRegex(running.output(), r"heartbeats +greatest gap")
        # 2 s are asked for on a machine that compiles beside; what workers have is printed.
        servers = max(node.get("heartbeat_gap_s", 0) for name, node in nodes.items()
                      if name.startswith("server"))
        self.assertLessEqual(servers, 2.0)
        self.assertLess(gap, 5.0)
        if PARAMETERS >= 100_000_000:  # else what every process has beside its model counts more
            self.assertLessEqual(server["resident_peak_bytes"], 1.15 * size * (2 + workers))
        self.assertRegex(self.sha256(running.output()), re.compile("[0-9a-f]{64}"))


if __name__ == "__main__":
    unittest.main()
