"""Jobs of models with tables, under bsp and others, whose processes are all killed, and which go on from their newest
checkpoint."""
import array
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import time
import unittest

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
sys.path.append(CLUSTER)
from dlrm_test import CATEGORIES, NUMBERS, draw_samples  # noqa: E402
from resume_test import DurabilityTestCase  # noqa: E402
from table_test import digits, tensors_of  # noqa: E402


class TableDurabilityTestCase(DurabilityTestCase):

    def setUp(self):
        super().setUp()
        self.samples = f"{self.dir}/samples.tsv"
        with open(self.samples, "w") as file:
            for label, numbers, categories in draw_samples(1200, 3):
                print(int(label), *numbers, *(f"{0xabc0 + c:x}" for c in categories), sep="\t", file=file)
        self.job = self.dlrm()

    def dlrm(self):
        """Tensors and tables: 16 clocks an epoch."""
        return (f"--model=dlrm:tiny,dense={NUMBERS},categorical={CATEGORIES}", "--data_format=criteo",
                f"--data_path={self.samples}", "--batch=60", "--optimizer=adam:lr=0.01", "--epochs=6")

    def logistic(self):
        """A table alone: 24 clocks an epoch, of which each shard keeps 20 rows, so that rows come and go."""
        path = f"{self.dir}/digits.libsvm"
        with open(path, "w") as file:
            for pixels, label in digits():
                features = " ".join(f"{k + 1}:{p / 16}" for k, p in enumerate(pixels) if p)
                print(1 if label % 2 else -1, features, file=file)
        return ("--model=logistic", "--data_format=libsvm", f"--data_path={path}", "--batch=60",
                "--optimizer=ftrl:lr=0.2,l1=1e-4", "--epochs=5", "--table_rows_max=20")

    def skip_gram(self):
        """Random numbers of its own beside the samples."""
        path = f"{self.dir}/text"
        draw = random.Random(5)
        with open(path, "w") as file:
            file.write(" ".join("w" + "abcdefghij"[draw.randrange(10)] * draw.randrange(1, 4) for _ in range(3000)))
        return ("--model=skip_gram:dim=8,window=2,negatives=3,min_count=1", "--data_format=text",
                f"--data_path={path}", "--batch=120", "--optimizer=adagrad:lr=0.1", "--epochs=2")

    def train(self, *flags, **options):
        """A later flag of the same name takes the place of an earlier one."""
        flags = ("--policy=bsp", "--servers=2", "--workers=3", "--micro_batches=6", "--schedule=constant", *self.job,
                 *flags)
        last = {flag.split("=")[0]: flag for flag in flags}
        return super().train(*last.values(), **options)

    def kill_after_checkpoint(self, *flags, every=5, at_least=1, wait=0.0):
        running = self.run_job("--resume=auto", *flags, every=every, step_ms=5)
        try:
            self.wait_for_checkpoint(running, at_least)
            time.sleep(wait)
        except AssertionError:
            if running.process.poll() != 0:  # else it was faster
                raise
        self.kill_all(running)

    def kill_and_resume(self, seeds, *flags):
        expected = self.undisturbed(*flags)
        went_on = 0
        for seed in range(seeds):
            with self.subTest(seed=seed):
                draw = random.Random(seed)
                self.folder = f"{self.dir}/checkpoints-{seed}"
                for _ in range(2):
                    self.kill_after_checkpoint(*flags, every=draw.choice([1, 3, 8]),
                                               at_least=1 + max([0, *self.clocks()]), wait=draw.random() * 0.2)
                running = self.run_job("--resume=auto", *flags)
                self.assertEqual(self.end(running), expected, running.output())
                went_on += self.resumed_from(running) > 0
        self.assertGreater(went_on, 0)


class TableResumeTest(TableDurabilityTestCase):

    def test_all_processes_killed_at_random_moments(self):
        self.kill_and_resume(1)

    def test_rows_that_come_and_go_and_no_tensors(self):
        self.job = self.logistic()
        self.kill_and_resume(1)

    def test_other_numbers_of_servers_and_workers(self):
        expected = self.undisturbed()
        self.kill_after_checkpoint(at_least=15)
        kept = f"{self.dir}/kept"
        os.rename(self.folder, kept)
        for flags in (("--servers=1", "--workers=1"), ("--servers=3", "--shards_per_server=2", "--workers=2")):
            with self.subTest(flags=flags):
                subprocess.run(["cp", "-r", kept, self.folder], check=True)
                running = self.run_job("--resume=auto", *flags)
                self.assertEqual(self.end(running), expected, running.output())
                self.assertGreaterEqual(self.resumed_from(running), 15)
                subprocess.run(["rm", "-r", self.folder], check=True)

    def test_what_the_command_says_and_exports(self):
        """The rows of a job of one epoch are those of another's checkpoint after its first."""
        model = f"{self.dir}/model.safetensors"
        running = self.train("--epochs=1", f"--model_path={model}")
        self.assertEqual(running.wait(60), 0, running.output())
        self.end(self.run_job("--epochs=2", every=16, step_ms=10))
        self.assertEqual(self.clocks(), [16])
        shown = self.call("show", self.folder, "--json")
        tables = {table["name"]: table for table in json.loads(shown)["tables"]}
        self.assertEqual(len(tables), CATEGORIES)
        self.assertTrue(all(t["dim"] == 8 and t["moments"] == 2 and t["steps"] for t in tables.values()), tables)
        self.assertIn("embedding.0: ", self.call("show", self.folder))
        self.assertIn("whole", self.call("verify", self.folder))
        out = f"{self.dir}/exported.safetensors"
        self.assertIn(f"{CATEGORIES} tables", self.call("export", f"{self.folder}/16", out))
        exported = tensors_of(out)[0]
        self.assertEqual(exported, tensors_of(model)[0])
        self.assertEqual(sum(t["rows"] for t in tables.values()),
                         sum(shape[0] for name, (_, shape, _) in exported.items() if name.endswith(".keys")))
        self.assertEqual(self.rows_of_parts(16), {name: values for name, values in self.rows_of(exported).items()})

    def test_what_changed_from_one_to_another(self):
        """Rows that the second made stand between those of the first."""
        running = self.run_job("--epochs=1", "--batch=6", "--steps=40", every=1, step_ms=50)
        self.wait_for_checkpoint(running)
        first = self.clocks()[0]
        early = f"{self.dir}/early"
        shutil.copytree(f"{self.folder}/{first:09}", f"{early}/{first:09}")  # before the job removes it
        self.end(running)
        last = self.clocks()[-1]
        after = self.rows_of_parts(last)
        said = json.loads(self.call("diff", f"{early}/{first}", f"{self.folder}/{last}", "--json"))
        self.folder = early
        before = self.rows_of_parts(first)
        self.assertEqual(len(said["tables"]), CATEGORIES)
        made = 0
        for table in said["tables"]:
            keys = [key for key in before if key[0] == table["name"]]
            both = [(a, b) for key in keys if key in after for a, b in zip(before[key], after[key], strict=True)]
            made += table["rows"]["made"]
            self.assertEqual(table["rows"]["both"], len([key for key in keys if key in after]))
            self.assertEqual(table["rows"]["made"], len([k for k in after if k[0] == table["name"]]) - len(keys))
            self.assertEqual((table["elements"], table["changed"]), (len(both), sum(a != b for a, b in both)))
            self.assertAlmostEqual(table["largest"], max(abs(b - a) for a, b in both), delta=1e-6)
            norm = sum(a * a for a, _ in both) ** 0.5
            self.assertAlmostEqual(table["relative"], sum((b - a) ** 2 for a, b in both) ** 0.5 / norm, delta=1e-5)
        self.assertGreater(made, 0)

    def call(self, *words):
        done = subprocess.run([f"{self.bin}/soapstone", "checkpoint", *words], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def rows_of(self, tensors):
        """{(table, key): row} of a model's file."""
        rows = {}
        for name, (_, shape, keys) in tensors.items():
            if name.endswith(".keys"):
                table = name[:-len(".keys")]
                self.add_rows(table, keys, tensors[f"{table}.rows"], rows)
        return rows

    def rows_of_parts(self, clock):
        """The same of a checkpoint, as docs/durability.md says that its tensors are named."""
        rows = {}
        for shard in range(2):
            tensors, _ = tensors_of(f"{self.folder}/{clock:09}/shard-{shard}.safetensors")
            for name, (_, _, keys) in tensors.items():
                match = re.fullmatch(r"(.+)(\[\d+,\d+\))\.keys", name)
                if match:
                    self.add_rows(match.group(1), keys, tensors[f"{match.group(1)}{match.group(2)}.rows"], rows)
        return rows

    def add_rows(self, table, keys, values, rows):
        _, (count, dim), floats = values
        for i, key in enumerate(struct.unpack(f"<{count}Q", keys)):
            self.assertNotIn((table, key), rows)
            rows[table, key] = array.array("f", floats[4 * dim * i:4 * dim * (i + 1)])


class TableResumeCiTest(TableDurabilityTestCase):

    def test_each_model_of_tables_killed_at_random_moments(self):
        for job in (self.dlrm(), self.logistic(), self.skip_gram()):
            self.job = job
            for flags in ((), ("--shards_per_server=3", "--optimizer=momentum:lr=0.02,mu=0.9")):
                with self.subTest(job=job[0], flags=flags):
                    self.kill_and_resume(2, *flags)
                    for seed in range(2):
                        subprocess.run(["rm", "-rf", f"{self.dir}/checkpoints-{seed}"], check=True)

    def test_counts_that_change_at_each_start(self):
        expected = self.undisturbed()
        for servers, workers in ((2, 3), (5, 1), (1, 6), (3, 2)):
            self.kill_after_checkpoint(f"--servers={servers}", f"--workers={workers}", every=4,
                                       at_least=1 + max([0, *self.clocks()]))
        running = self.run_job("--resume=auto")
        self.assertEqual(self.end(running), expected, running.output())
        self.assertGreater(self.resumed_from(running), 0)

    def test_other_policies_go_on(self):
        for policy in ("ssp:s=2", "async", "dssp:lower=1,upper=4", "psp:sample=1,s=1", "pssp:s=2,p=0.5",
                       "softsync:n=2"):
            with self.subTest(policy=policy):
                self.folder = f"{self.dir}/checkpoints-{policy.split(':')[0]}"
                self.kill_after_checkpoint(f"--policy={policy}", at_least=10)
                running = self.run_job("--resume=auto", f"--policy={policy}", "--servers=3", "--strict")
                self.end(running)
                self.assertGreaterEqual(self.resumed_from(running), 10)
                self.assertGreater(self.accuracy(running.output()), 0.8)

    def test_rows_that_one_shard_cannot_have_are_refused(self):
        self.job = self.logistic()
        self.kill_after_checkpoint(at_least=20)
        running = self.run_job("--resume=auto", "--servers=1")
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertRegex(running.output(), r"table weight: .*more than 20 rows for a shard")

    def test_a_damaged_one_is_passed_over_for_the_one_before(self):
        expected = self.undisturbed()
        self.kill_after_checkpoint(at_least=15)
        newest = self.clocks()[-1]
        part = f"{self.folder}/{newest:09}/shard-1.safetensors"
        with open(part, "r+b") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            file.seek(8 + size + 5)  # among the first table's keys
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        running = self.run_job("--resume=auto")
        self.assertEqual(self.end(running), expected, running.output())
        self.assertRegex(running.output(), rf"checkpoint {newest} passed over: .*shard-1.safetensors: MiB 0.*checksum")
        self.assertGreater(self.resumed_from(running), 0)


if __name__ == "__main__":
    unittest.main()
