"""Jobs under bsp whose processes are all killed, at moments drawn at random, and which go on from their newest
checkpoint: they end with the parameters of a job that nothing happened to."""
import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
sys.path.append(CLUSTER)
from cluster import ClusterTestCase, alive, descendants  # noqa: E402

CLOCKS = 12 * 30  # of the job: 12 epochs of 1,438 samples in batches of 48


class DurabilityTestCase(ClusterTestCase):

    def setUp(self):
        super().setUp()
        self.folder = f"{self.dir}/checkpoints"
        with open(self.config) as file:
            job = file.read().replace('policy: "ssp:s=2"', 'policy: "bsp"')
        with open(self.config, "w") as file:
            file.write(job)

    def run_job(self, *flags, every=20, step_ms=0):
        """`step_ms`: a step takes so long at least, so that there is time to do something to the job."""
        return self.train(f"--checkpoint={self.folder}", f"--checkpoint_every={every}", f"--base_ms={step_ms}", *flags)

    def end(self, running, seconds=120):
        self.assertEqual(running.wait(seconds), 0, running.output())
        self.assert_tidy()
        return self.sha256(running.output())

    def undisturbed(self, *flags):
        running = self.train(*flags)
        self.assertEqual(running.wait(120), 0, running.output())
        return self.sha256(running.output())

    def kill_all(self, running):
        """At once: the launcher first, so that it does not tell the others."""
        children = descendants(running.pid)
        os.kill(running.pid, signal.SIGKILL)
        for pid in children.values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        running.process.wait(10)
        self.assert_nothing_left(children)

    def clocks(self):
        """Of what has a manifest."""
        if not os.path.isdir(self.folder):
            return []
        return sorted(int(name) for name in os.listdir(self.folder)
                      if name.isdigit() and os.path.exists(f"{self.folder}/{name}/manifest.textproto"))

    def wait_for_checkpoint(self, running, at_least=1, seconds=60):
        """Until there is one of that clock or a later."""
        deadline = time.monotonic() + seconds
        while not any(clock >= at_least for clock in self.clocks()):
            self.assertIsNone(running.process.poll(), running.output())
            self.assertLess(time.monotonic(), deadline, running.output())
            time.sleep(0.002)

    def assert_tidy(self):
        """Nothing unfinished, and no more than two are kept."""
        names = os.listdir(self.folder)
        self.assertEqual([name for name in names if not name.isdigit()], [])
        self.assertLessEqual(len(names), 2)

    def resumed_from(self, running):
        match = re.search(r"resumed from checkpoint (\d+)", running.output())
        return int(match.group(1)) if match else 0


class ResumeTest(DurabilityTestCase):

    def test_checkpoints_change_no_bit_and_two_are_kept(self):
        running = self.run_job()
        self.assertEqual(self.end(running), self.undisturbed())
        self.assertRegex(running.output(), r"\d+ checkpoints in .*, the last of clock \d+")
        self.assertEqual(len(self.clocks()), 2)
        self.assertTrue(all(clock % 20 == 0 for clock in self.clocks()), self.clocks())

    def test_all_processes_killed_at_random_moments(self):
        self.kill_and_resume(seeds=3)

    def kill_and_resume(self, seeds):
        expected = self.undisturbed()
        went_on = 0
        for seed in range(seeds):
            with self.subTest(seed=seed):
                draw = random.Random(seed)
                self.folder = f"{self.dir}/checkpoints-{seed}"
                for _ in range(3):
                    running = self.run_job("--resume=auto", every=draw.choice([1, 5, 20]), step_ms=5)
                    try:
                        self.wait_for_checkpoint(running, at_least=1 + max([0, *self.clocks()]))
                        time.sleep(draw.random() * 0.3)
                    except AssertionError:
                        if running.process.poll() != 0:  # else it was faster
                            raise
                    self.kill_all(running)
                running = self.run_job("--resume=auto")
                self.assertEqual(self.end(running), expected, running.output())
                went_on += self.resumed_from(running) > 0
        self.assertGreater(went_on, 0)

    def test_other_numbers_of_servers_and_workers(self):
        expected = self.undisturbed()
        running = self.run_job(every=10, step_ms=5)
        self.wait_for_checkpoint(running, 20)
        self.kill_all(running)
        kept = f"{self.dir}/kept"
        os.rename(self.folder, kept)
        for servers, workers in ((1, 1), (3, 2), (5, 6)):
            with self.subTest(servers=servers, workers=workers):
                subprocess.run(["cp", "-r", kept, self.folder], check=True)
                running = self.run_job("--resume=auto", f"--servers={servers}", f"--workers={workers}")
                self.assertEqual(self.end(running), expected, running.output())
                self.assertGreaterEqual(self.resumed_from(running), 20)
                subprocess.run(["rm", "-r", self.folder], check=True)

    def test_adam_and_shards_on_threads(self):
        flags = ("--optimizer=adam:lr=0.002", "--shards_per_server=3", "--communication=priority")
        expected = self.undisturbed(*flags)
        running = self.run_job(*flags, every=10, step_ms=5)
        self.wait_for_checkpoint(running, 20)
        self.kill_all(running)
        running = self.run_job("--resume=auto", *flags)
        self.assertEqual(self.end(running), expected, running.output())
        self.assertGreaterEqual(self.resumed_from(running), 20)

    def test_a_damaged_one_is_passed_over_for_the_one_before(self):
        expected = self.undisturbed()
        running = self.run_job(every=10, step_ms=5)
        self.wait_for_checkpoint(running, 30)
        self.kill_all(running)
        newest = self.clocks()[-1]
        part = f"{self.folder}/{newest:09}/shard-1.safetensors"
        with open(part, "r+b") as file:
            file.seek(os.path.getsize(part) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 8]))
        running = self.run_job("--resume=auto")
        self.assertEqual(self.end(running), expected, running.output())
        self.assertRegex(running.output(), rf"checkpoint {newest} passed over: .*shard-1.safetensors: MiB 0.*checksum")
        self.assertLess(self.resumed_from(running), newest)
        self.assertGreater(self.resumed_from(running), 0)

    def test_a_worker_that_is_lost_changes_nothing(self):
        expected = self.undisturbed()
        running = self.run_job(every=10, step_ms=5)
        self.wait_for_checkpoint(running, 10)
        os.kill(descendants(running.pid)["worker-1"], signal.SIGKILL)
        self.wait_for_checkpoint(running, 10 + max(self.clocks()))
        self.kill_all(running)
        running = self.run_job("--resume=auto")
        self.assertEqual(self.end(running), expected, running.output())


class ResumeCiTest(ResumeTest):

    def test_all_processes_killed_at_random_moments(self):
        self.kill_and_resume(seeds=6)


class BadCheckpointTest(DurabilityTestCase):

    def refused(self, line, *flags):
        """One line, 78, and the folder as it was."""
        before = self.contents()
        running = self.run_job(*flags)
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertRegex(running.output(), line)
        self.assertEqual(len(running.output().splitlines()), 1, running.output())
        self.assertEqual(self.contents(), before)

    def contents(self):
        found = {}
        for folder, _, files in os.walk(self.folder):
            for name in files:
                with open(f"{folder}/{name}", "rb") as file:
                    found[f"{folder}/{name}"] = file.read()
        return found

    def write_some(self):
        running = self.run_job(every=10, step_ms=5)
        self.wait_for_checkpoint(running, 20)
        self.kill_all(running)
        # What was not finished goes with the next start; here nothing is to change.
        for name in os.listdir(self.folder):
            if name.startswith("."):
                subprocess.run(["rm", "-r", f"{self.folder}/{name}"], check=True)

    def test_what_cannot_be_gone_on_from_is_refused(self):
        self.write_some()
        clock = self.clocks()[-1]
        self.refused(r"has checkpoints \(\d+, \d+\): --resume=auto goes on", "--resume=never")
        self.refused(r"has checkpoints")
        self.refused(r"another job's: training.seed is 1 there, and 2 here", "--resume=auto", "--seed=2")
        self.refused(r"another job's: model is \"lenet5\" there, and \"mlp\" here", f"--resume={clock}", "--model=mlp")
        self.refused(r"another job's: training.micro_batches is 12 there", "--resume=auto", "--micro_batches=3")
        self.refused(r"output.resume: .*000000777/manifest.textproto: No such file", "--resume=777",
                     "--epochs=100")
        self.refused(r"neither auto nor never nor a clock", "--resume=sometimes")
        self.refused(r"is not below the \d+ clocks", "--resume=99999")
        self.refused(r"not yet with easgd:tau=4", "--resume=auto", "--policy=easgd:tau=4")
        self.refused(r"not replayed yet", "--resume=auto", f"--record={self.dir}/recording")

    def test_a_damaged_one_that_is_asked_for_is_refused(self):
        self.write_some()
        clock = self.clocks()[-1]
        part = f"{self.folder}/{clock:09}/shard-0.safetensors"
        os.truncate(part, os.path.getsize(part) - 4)
        self.refused(r"shard-0.safetensors: has \d+ bytes, not \d+", f"--resume={clock}")
        os.remove(part)
        self.refused(r"shard-0.safetensors: No such file", f"--resume={clock}")
        os.remove(f"{self.folder}/{clock:09}/manifest.textproto")
        self.refused(r"manifest.textproto: No such file", f"--resume={clock}")

    def test_a_folder_that_is_something_else_is_refused(self):
        os.mkdir(self.folder)
        with open(f"{self.folder}/thesis.tex", "w") as file:
            file.write("chapter one")
        for resume in ("auto", "never", "0"):
            self.refused(r"is no folder of checkpoints: it has thesis.tex", f"--resume={resume}")
        self.folder = f"{self.folder}/thesis.tex"
        self.refused(r"thesis.tex: Not a directory", "--resume=auto")
        self.folder = "/proc/nobody-makes-folders-here"
        self.refused("output.checkpoint_path: .*/proc/nobody-makes-folders-here", "--resume=auto")
        self.folder = ""
        running = self.train("--resume=auto")
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertIn("give --checkpoint too", running.output())

    def test_a_folder_in_use_is_refused(self):
        running = self.run_job(every=10, step_ms=5)
        self.wait_for_checkpoint(running, 10)
        other = self.run_job("--resume=auto")
        self.assertEqual(other.wait(60), 78, other.output())
        self.assertIn("a job that is running writes its checkpoints there", other.output())
        self.end(running)


class FullDiskTest(DurabilityTestCase):
    """On a disk of a megabyte, which takes root to mount."""

    def setUp(self):
        super().setUp()
        self.disk = f"{self.dir}/disk"
        os.mkdir(self.disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "soapstone-test", self.disk],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("NOT TESTED: no disk can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], check=False)
        self.folder = f"{self.disk}/checkpoints"

    def test_training_goes_on_without_checkpoints_and_with_them_again(self):
        expected = self.undisturbed()
        filler = f"{self.disk}/filler"  # not within: what is unfinished there is taken away
        running = self.run_job(every=10, step_ms=5)
        self.wait_for_checkpoint(running, 10)
        with open(filler, "wb") as file:
            try:
                file.write(bytes(1 << 20))
                file.flush()
            except OSError:
                pass
        running.wait_for(r"is not written, and training goes on: .*No space left")
        os.remove(filler)
        running.wait_for(r"checkpoint \d+ is written again")
        self.assertEqual(self.end(running), expected)
        self.assertGreater(len(self.clocks()), 0)
        self.assertEqual(len(re.findall("training goes on", running.output())), 1, running.output())


if __name__ == "__main__":
    unittest.main()
