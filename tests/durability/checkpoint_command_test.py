"""`soapstone checkpoint`: what it says of a folder that a real job wrote, and the file that it exports."""
import json
import os
import shutil
import signal
import subprocess
import unittest

from resume_test import DurabilityTestCase
from strategy_resume_test import tensors_of, whole_tensors


class CheckpointCommandTest(DurabilityTestCase):

    def setUp(self):
        super().setUp()
        self.model = f"{self.dir}/whole.safetensors"
        running = self.run_job("--optimizer=adam:lr=0.002", "--epochs=2", f"--model_path={self.model}")
        self.end(running)
        self.newest = self.clocks()[-1]

    def call(self, *words):
        """(exit code, what it says, what it complains of)"""
        done = subprocess.run([f"{self.bin}/soapstone", "checkpoint", *words], capture_output=True, text=True,
                              timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    def read(self, *words):
        code, said, complained = self.call(*words, "--json")
        self.assertEqual((code, complained), (0, ""), said)
        return json.loads(said)

    def refused(self, line, *words):
        code, said, complained = self.call(*words)
        self.assertEqual(code, 78, said + complained)
        self.assertEqual(len(complained.splitlines()), 1, complained)
        self.assertRegex(complained, line)

    def test_what_is_listed_and_shown(self):
        listed = self.read("ls", self.folder)["checkpoints"]
        self.assertEqual([row["clock"] for row in listed], self.clocks())
        shown = self.read("show", self.folder)
        self.assertEqual(shown["clock"], self.newest)
        self.assertEqual(self.read("show", f"{self.folder}/{self.newest}"), shown)
        self.assertEqual(self.read("show", f"{self.folder}/{self.newest:09}"), shown)
        self.assertIn('model: "lenet5"', shown["job"])
        self.assertEqual(sum(part["bytes"] for part in shown["parts"]), listed[-1]["bytes"])
        sizes = {tensor["name"]: tensor["shape"] for tensor in shown["tensors"]}
        self.assertEqual(sizes, {name: shape for name, (shape, _) in tensors_of(self.model)[0].items()})
        self.assertTrue(all(tensor["moments"] == 2 and tensor["steps"] == self.newest for tensor in shown["tensors"]))
        for action in ("ls", "show", "verify"):
            code, said, _ = self.call(action, self.folder)
            self.assertEqual(code, 0)
            self.assertIn(str(self.newest), said)
        self.assertEqual(self.call("ls", os.path.dirname(self.folder) + "/checkpoints/")[0], 0)

    def test_what_is_exported_is_what_the_parts_have_and_a_job_begins_with_it(self):
        out = f"{self.dir}/exported.safetensors"
        self.assertEqual(self.call("export", f"{self.folder}/{self.newest}", out)[0], 0)
        exported = {name: list(values) for name, (_, values) in tensors_of(out)[0].items()}
        self.assertEqual(exported, whole_tensors(f"{self.folder}/{self.newest:09}"))
        # At a rate of 0 the job ends with what it began with.
        model = f"{self.dir}/model.safetensors"
        running = self.train(f"--initial_weights={out}", f"--model_path={model}", "--optimizer=sgd:lr=0", "--epochs=1")
        self.assertEqual(running.wait(60), 0, running.output())
        self.assertEqual({name: list(values) for name, (_, values) in tensors_of(model)[0].items()}, exported)

    def test_damage_is_named(self):
        part = f"{self.folder}/{self.newest:09}/shard-1.safetensors"
        with open(part, "r+b") as file:
            file.seek(os.path.getsize(part) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 8]))
        code, said, complained = self.call("verify", self.folder)
        self.assertEqual(code, 78)
        self.assertRegex(said, rf"checkpoint {self.newest}: .*shard-1.safetensors: MiB 0.*checksum")
        self.assertRegex(said, rf"checkpoint {self.clocks()[0]}: whole, \d+ bytes in 2 parts")
        self.assertIn("1 of 2 checkpoints is not whole", complained)
        self.assertEqual(self.call("verify", f"{self.folder}/{self.clocks()[0]}")[0], 0)
        self.refused("checksum", "export", self.folder, f"{self.dir}/out")
        self.assertFalse(os.path.exists(f"{self.dir}/out"))

    def test_what_changed_is_said(self):
        first, last = (f"{self.folder}/{clock}" for clock in self.clocks())
        same = self.read("diff", last, last)
        self.assertTrue(same["same_job"])
        self.assertEqual([tensor["changed"] for tensor in same["tensors"]], [0] * len(same["tensors"]))
        before, after = (whole_tensors(f"{self.folder}/{clock:09}") for clock in self.clocks())
        said = self.read("diff", first, last)
        self.assertEqual(said["clocks"], self.clocks())
        self.assertEqual({tensor["name"] for tensor in said["tensors"]}, set(after))
        for tensor in said["tensors"]:
            pairs = list(zip(before[tensor["name"]], after[tensor["name"]], strict=True))
            self.assertEqual(tensor["elements"], len(pairs))
            self.assertEqual(tensor["changed"], sum(a != b for a, b in pairs))
            self.assertAlmostEqual(tensor["largest"], max(abs(b - a) for a, b in pairs), delta=1e-6)
            norm = sum(a * a for a, _ in pairs) ** 0.5 or 1
            self.assertAlmostEqual(tensor["relative"], sum((b - a) ** 2 for a, b in pairs) ** 0.5 / norm, delta=1e-5)
        self.assertIn("changed, by", self.call("diff", first, last)[1])

    def test_old_ones_are_pruned_but_nothing_newer_than_what_is_kept(self):
        clocks = self.clocks()
        self.assertEqual(self.read("prune", self.folder)["removed"], [])
        shutil.copytree(f"{self.folder}/{clocks[0]:09}", f"{self.folder}/000000001")
        with open(f"{self.folder}/{clocks[1]:09}/shard-0.safetensors", "r+b") as file:
            file.truncate(1000)
        said = self.read("prune", self.folder, "--keep=1")
        self.assertEqual((said["kept"], said["removed"], len(said["left"])), ([clocks[0]], [1], 1))
        self.assertRegex(said["left"][0], rf"checkpoint {clocks[1]}: .*shard-0.safetensors")
        self.assertEqual(self.clocks(), clocks)
        with open(f"{self.folder}/{clocks[0]:09}/shard-0.safetensors", "r+b") as file:
            file.truncate(1000)
        self.refused("no checkpoint that is whole: nothing is removed", "prune", self.folder)
        self.assertEqual(self.clocks(), clocks)

    def test_what_a_job_writes_to_is_not_pruned(self):
        self.folder = f"{self.dir}/of-another"
        running = self.run_job("--epochs=1000")
        self.wait_for_checkpoint(running)
        self.refused("a job that is running writes its checkpoints there", "prune", self.folder)
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(60), 143, running.output())

    def test_what_is_asked_for_wrongly(self):
        self.refused("nothing-here: No such file", "ls", f"{self.dir}/nothing-here")
        self.refused("is no folder of checkpoints", "ls", self.dir)
        self.refused("No such file", "show", f"{self.folder}/777")
        os.mkfifo(f"{self.dir}/pipe")  # a device would be replaced by a file likewise
        self.refused("is no regular file", "export", self.folder, f"{self.dir}/pipe")
        self.refused("export needs OTHER", "export", self.folder)
        self.refused("OTHER is of export and diff", "show", self.folder, "out")
        self.refused("diff needs OTHER", "diff", self.folder)
        self.refused("nothing-here: No such file", "diff", self.folder, f"{self.dir}/nothing-here")
        self.refused("--keep", "prune", self.folder, "--keep=0")
        self.refused("prune is of a folder", "prune", f"{self.folder}/{self.newest}")
        self.refused("is in the folder of checkpoints", "export", self.folder, f"{self.folder}/m.safetensors")
        self.refused("ls is of a folder", "ls", f"{self.folder}/{self.newest}")
        self.refused("cannot", "export", self.folder, "/proc/nobody/m.safetensors")
        self.refused("ACTION", "remove", self.folder)


if __name__ == "__main__":
    unittest.main()
