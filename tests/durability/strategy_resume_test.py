"""Checkpoints of jobs whose workers run a strategy: what all processes killed at random moments go on from, under the
same strategy, another, or none."""
import json
import os
import random
import re
import signal
import struct
import sys
import time
import unittest

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
sys.path.append(CLUSTER)
from cluster import descendants  # noqa: E402
from resume_test import DurabilityTestCase  # noqa: E402
from strategy_test import StrategyTestCase  # noqa: E402

BATCH, MICRO_BATCHES, EPOCHS = 96, 4, 6  # of the job: 15 clocks an epoch


SLOW_LINKS = """
name: "slow"
kinds { name: "core" tflops: 0.02 memory_gbytes_per_s: 10 memory_gib: 4 launch_us: 5 }
nodes { name: "w" count: 2 devices: 1 kind: "core" %s }
nodes { name: "s" count: 1 servers: 1 server_apply_gbytes_per_s: 4 %s }
""" % (2 * ("nics { count: 1 connection { gbytes_per_s: 0.0125 latency_us: 100 } direct: true }",))


def tensors_of(path):
    """{name: (shape, values)} and the metadata of a safetensors file of f32."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        found[name] = entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return found, metadata


def whole_tensors(folder):
    """{name: values} of a checkpoint, as docs/durability.md says that its tensors are named."""
    whole, put = {}, {}
    for part in sorted(os.listdir(folder)):
        if not part.endswith(".safetensors"):
            continue
        tensors, metadata = tensors_of(f"{folder}/{part}")
        for name, (_, values) in tensors.items():
            match = re.fullmatch(r"(.+?)(?:\[([\d:,]+)\])?\[(\d+),(\d+)\)", name)
            if match is None:
                continue  # what the optimizer remembers
            param, box, begin, end = match.groups()
            shape = json.loads(metadata[f"{param}.shape"])
            ranges = [tuple(map(int, r.split(":"))) for r in box.split(",")] if box else [(0, n) for n in shape]
            size = 1
            for n in shape:
                size *= n
            tensor, count = whole.setdefault(param, [None] * size), 0
            for value, element in zip(values, range(int(begin), int(end))):
                at, stride = 0, 1
                for (first, last), n in zip(reversed(ranges), reversed(shape)):
                    element, index = divmod(element, last - first)
                    at += (first + index) * stride
                    stride *= n
                assert tensor[at] is None, (name, at)
                tensor[at] = value
                count += 1
            put[param] = put.get(param, 0) + count
    assert all(put[param] == len(tensor) for param, tensor in whole.items()), put
    return whole


class StrategyResumeTestCase(DurabilityTestCase, StrategyTestCase):

    def setUp(self):
        super().setUp()
        self.write_of(BATCH, MICRO_BATCHES)

    def write_of(self, batch, micro_batches=0):
        """The job, or what a strategy for so many samples is planned for."""
        self.write_job(epochs=EPOCHS, micro_batches=micro_batches or 1)
        self.rewrite(self.config, self.config,
                     lambda text: text.replace("batch: 48", f"batch: {batch}").replace("workers: 1 ", ""))

    def rewrite(self, path, to, change):
        with open(path) as file:
            text = file.read()
        with open(to, "w") as file:
            file.write(change(text))

    def of_team(self, make, teams):
        """A strategy's flags, for teams that share the job's batch and micro-batches."""
        self.write_of(BATCH // teams)
        path = make(MICRO_BATCHES // teams)
        self.write_of(BATCH, MICRO_BATCHES)
        kept = f"{path}.{teams}.{len(os.listdir(self.dir))}"
        os.rename(path, kept)
        return (f"--strategy={kept}", f"--teams={teams}")

    def pipeline(self, sync="servers", teams=1, seats=2):
        return self.of_team(lambda m: self.place(seats, m, lambda i, n: seats * i // n, sync=sync), teams)

    def split(self, sync="servers", teams=1, search="expert", seats=2):
        return self.of_team(lambda m: self.plan(search, seats, m, sync=sync), teams)

    def whole(self):
        return self.hash_of("--workers=1")

    def kill_after(self, clock, *flags, every=5, before=lambda running: None):
        """Starts the job, and kills all of it when there is a checkpoint of that clock or a later one."""
        running = self.run_job("--resume=auto", *flags, every=every, step_ms=10)
        before(running)
        self.wait_for_checkpoint(running, clock)
        self.kill_all(running)

    def go_on(self, *flags):
        """The hash at the end, of a job that goes on from a checkpoint."""
        running = self.run_job("--resume=auto", *flags)
        sha256 = self.end(running)
        self.assertGreater(self.resumed_from(running), 0, running.output())
        return sha256

    def damage_newest(self):
        folder = f"{self.folder}/{self.clocks()[-1]:09}"
        part = next(name for name in sorted(os.listdir(folder)) if name.endswith(".safetensors"))
        with open(f"{folder}/{part}", "r+b") as file:
            file.seek(os.path.getsize(file.name) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 8]))


class StrategyResumeTest(StrategyResumeTestCase):

    def test_pipelines_of_servers_and_of_owners_killed_at_random_moments(self):
        self.kill_at_random((("servers", 1), ("owner", 2)), kills=1)

    def kill_at_random(self, jobs, kills):
        expected = self.whole()
        for sync, teams in jobs:
            with self.subTest(sync=sync, teams=teams):
                draw = random.Random(f"{sync}{teams}")
                self.folder = f"{self.dir}/checkpoints-{sync}-{teams}"
                flags = self.pipeline(sync, teams)
                for _ in range(kills):
                    running = self.run_job("--resume=auto", *flags, every=draw.choice([1, 3, 5]), step_ms=20)
                    self.wait_for_checkpoint(running, 1 + max([0, *self.clocks()]))
                    time.sleep(draw.random() * 0.3)
                    self.kill_all(running)
                if len(self.clocks()) == 2:
                    self.damage_newest()  # the one before it is gone on from
                self.assertEqual(self.go_on(*flags), expected)

    def test_under_another_strategy_or_none(self):
        expected = self.whole()
        pipeline = self.pipeline()
        self.kill_after(15, *pipeline)
        os.rename(self.folder, f"{self.dir}/kept")
        three = self.pipeline("owner", seats=3)
        for flags in (("--servers=3", "--workers=2"), three, self.pipeline(teams=2)):
            with self.subTest(flags=flags):
                self.copy_back()
                self.assertEqual(self.go_on(*flags), expected)

        self.folder = f"{self.dir}/of-none"
        self.kill_after(15, "--servers=2", "--workers=2")
        self.assertEqual(self.go_on(*three), expected)

    def copy_back(self):
        self.folder = f"{self.dir}/checkpoints-{len(os.listdir(self.dir))}"
        self.assertEqual(os.system(f"cp -r {self.dir}/kept {self.folder}"), 0)

    def test_a_split_goes_on_with_the_values_that_it_had(self):
        """From clock 10 on the rate is 0: what is restored is what is saved."""
        flags = ("--schedule=step:every=10,factor=0", "--optimizer=adam:lr=0.002")
        self.kill_after(15, *flags, *self.split(search="expert"))
        saved = whole_tensors(f"{self.folder}/{self.clocks()[-1]:09}")
        os.rename(self.folder, f"{self.dir}/kept")
        losses = []
        for strategy in (("--servers=2", "--workers=2"), self.split("owner", search="data", seats=3),
                         self.split("ring", search="data", seats=3), self.split(teams=2)):
            with self.subTest(strategy=strategy):
                self.copy_back()
                model = f"{self.dir}/model.safetensors"
                running = self.run_job("--resume=auto", *flags, *strategy, f"--model_path={model}")
                self.end(running)
                now = {name: values for name, (_, values) in tensors_of(model)[0].items()}
                self.assertEqual({name: tuple(values) for name, values in saved.items()}, now)
                with open(f"{self.dir}/logs/ledger.json") as file:
                    losses.append(json.load(file)["result"]["test_loss"])
        self.assertEqual(len(losses), 4)
        self.assertLessEqual(max(losses), min(losses) * (1 + 1e-5), losses)

    def test_a_team_that_is_lost_and_taken_over_changes_nothing(self):
        self.lose_and_kill("servers")

    def lose_and_kill(self, sync):
        expected = self.whole()

        def lose(running):
            self.wait_for_checkpoint(running, 1)
            os.kill(descendants(running.pid)["worker-3"], signal.SIGKILL)
            running.wait_for("team 1 is out", 20)
            self.lost_at = max(self.clocks())

        flags = self.pipeline(sync, teams=2)
        running = self.run_job("--resume=auto", *flags, every=1, step_ms=10)
        lose(running)
        self.wait_for_checkpoint(running, self.lost_at + 5)
        self.kill_all(running)
        self.assertEqual(self.go_on(*flags), expected)

    def test_what_is_another_job_or_cannot_be_yet_is_refused(self):
        self.kill_after(5, *self.pipeline())
        self.write_of(BATCH)
        two = self.place(2, 2, lambda i, n: 2 * i // n)
        ahead = f"{self.dir}/ahead.strategy.textproto"
        self.rewrite(two, ahead, lambda text: text.replace("ops {", "staleness: 1\nops {", 1))
        self.rewrite(self.config, self.config,
                     lambda text: text.replace("micro_batches: 1 ", "").replace('policy: "bsp"\n', ""))
        for line, flags in ((r"another job's: training.micro_batches is 4 there, and 2 here", (f"--strategy={two}",)),
                            (r"goes with bsp, not yet with ssp:s=1", (f"--strategy={ahead}",)),
                            (r"goes with bsp, not yet with async", (f"--strategy={two}", "--policy=async"))):
            running = self.run_job("--resume=auto", *flags)
            self.assertEqual(running.wait(60), 78, running.output())
            self.assertEqual(len(running.output().splitlines()), 1, running.output())
            self.assertRegex(running.output(), line)


class AutoResumeTest(StrategyResumeTestCase):
    """--strategy=auto: the search is made once."""

    def test_what_was_found_is_run_again_though_its_file_is_gone(self):
        machine = f"{self.dir}/slow.machine.textproto"
        with open(machine, "w") as file:
            file.write(SLOW_LINKS)
        found = f"{self.dir}/m.strategy.textproto"
        flags = ("--model=mlp:hidden=1024", "--strategy=auto", "--workers=2", "--plan_budget=1s",
                 f"--machine={machine}", f"--model_path={self.dir}/m.safetensors")
        self.rewrite(self.config, self.config, lambda text: text.replace(f"micro_batches: {MICRO_BATCHES} ", ""))
        self.kill_after(5, *flags)
        kept = f"{self.dir}/kept.strategy.textproto"
        os.rename(found, kept)
        running = self.run_job("--resume=auto", *flags)
        sha256 = self.end(running)
        self.assertRegex(running.output(), rf"--strategy=auto: by that of checkpoint \d+: {found}")
        self.assertNotIn("planning", running.output())
        self.assertGreater(self.resumed_from(running), 0)
        self.assertEqual(sha256, self.hash_of("--model=mlp:hidden=1024", f"--strategy={kept}"))

    def test_a_job_that_ran_without_one_does_so_again(self):
        workers = ("--workers=2", "--micro_batches=4")
        expected = self.hash_of(*workers)
        self.kill_after(5, *workers)
        running = self.run_job("--resume=auto", "--workers=2", "--strategy=auto")
        self.assertEqual(self.end(running), expected)
        self.assertRegex(running.output(), r"--strategy=auto: without a strategy, as until checkpoint \d+")


class StrategyResumeCiTest(StrategyResumeTest):

    def test_pipelines_of_servers_and_of_owners_killed_at_random_moments(self):
        jobs = [(sync, teams) for sync in ("servers", "owner") for teams in (1, 2)]
        self.kill_at_random(jobs, kills=2)

    def test_another_way_to_run_at_each_start(self):
        """With adam, whose two moments move with the values."""
        adam = "--optimizer=adam:lr=0.002"
        expected = self.hash_of("--workers=1", adam)
        draw = random.Random(5)
        for _ in range(4):
            running = self.run_job("--resume=auto", adam, *self.drawn(draw), every=draw.choice([1, 2, 7]), step_ms=20)
            self.wait_for_checkpoint(running, 1 + max([0, *self.clocks()]))
            time.sleep(draw.random() * 0.2)
            self.kill_all(running)
        self.assertEqual(self.go_on(adam, *self.drawn(draw)), expected)

    def drawn(self, draw):
        """Flags of a strategy of whole operators, or of none."""
        teams = draw.choice([1, 1, 2])
        seats = 2 if teams == 2 else draw.choice([2, 3])
        sync = draw.choice(["servers", "owner"])
        scattered = self.of_team(lambda m: self.place(seats, m, lambda i, n: i % seats, sync=sync), teams)
        return draw.choice([(f"--servers={draw.choice([1, 3])}", f"--workers={draw.choice([1, 4])}"),
                            self.pipeline(sync, teams, seats), scattered])

    def test_a_team_that_is_lost_and_taken_over_changes_nothing(self):
        self.lose_and_kill("owner")


if __name__ == "__main__":
    unittest.main()
