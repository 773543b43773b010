"""Jobs that keep the best of their checkpoints (--keep_best), and that stop when none gets better (--early_stop)."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from resume_test import CLOCKS, DurabilityTestCase  # noqa: E402
from strategy_resume_test import tensors_of  # noqa: E402
from cluster import BIN, SOURCE, alive, descendants  # noqa: E402

EVERY = 30  # an epoch's clocks

# In the place of `soapstone` beside the scheduler: says of a checkpoint what the file "says" has for its clock, or for
# "all": an accuracy, or what is to happen to the evaluation.
STAND_IN = """#!/bin/sh
real=%s
says=%s
[ "$1" = evaluate ] || exec $real "$@"
clock=${2##*/}
folder=${2#--checkpoint=}
echo $clock >> $says.asked
what=$(sed -n "s/^$clock //p" $says)
[ -n "$what" ] || what=$(sed -n "s/^all //p" $says)
case "$what" in
  die) kill -9 $$ ;;
  hang) exec sleep 1000 ;;
  damage) printf XXXX | dd of=%s/0000$(printf %%05d $clock)/shard-0.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
          exec $real "$@" ;;
  full) dd if=/dev/zero of=${folder%%%%/checkpoints/*}/filler bs=4k 2>/dev/null
        echo '{"test_samples": 359, "test_accuracy": 0.9, "test_loss": 1}' ;;
  real) exec $real "$@" ;;
  *) echo "{\\"test_samples\\": 359, \\"test_accuracy\\": $what, \\"test_loss\\": 1}" ;;
esac
"""


class BestTestCase(DurabilityTestCase):

    def call(self, *words):
        """(exit code, what it says, what it complains of)"""
        done = subprocess.run([f"{BIN}/soapstone", *words], capture_output=True, text=True, timeout=60, check=False,
                              cwd=SOURCE)
        return done.returncode, done.stdout, done.stderr

    def read(self, *words):
        code, said, complained = self.call(*words, "--json")
        self.assertEqual(code, 0, complained)
        return json.loads(said)

    def best(self):
        """The row of `checkpoint ls` that is marked."""
        rows = [row for row in self.read("checkpoint", "ls", self.folder)["checkpoints"] if "best" in row]
        self.assertEqual(len(rows), 1, rows)
        return rows[0]

    def assert_tidy(self):
        names = os.listdir(self.folder)
        self.assertEqual([name for name in names if not name.isdigit() and name != "best"], [])
        self.assertLessEqual(len(self.clocks()), 3, names)

    def keeping(self, *flags, every=EVERY, step_ms=0):
        return self.run_job("--keep_best", *flags, every=every, step_ms=step_ms)

    def strategy(self):
        """Flags of a job that is split over two workers."""
        strategy = f"{self.dir}/strategy"
        done = subprocess.run([f"{BIN}/soapstone", "plan", "--model=lenet5", f"--config={self.config}",
                               "--machine=examples/machines/p100_4x4.machine.textproto", "--devices=2",
                               "--for_workers", f"--output={strategy}"],
                              capture_output=True, text=True, timeout=60, check=False, cwd=SOURCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return f"--strategy={strategy}", "--workers=2"

    def values_of(self, path):
        return {name: list(values) for name, (_, values) in tensors_of(path)[0].items()}


class BestTest(BestTestCase):
    """With the evaluation that ships."""

    def test_the_best_stays_and_is_taken_by_its_name(self):
        running = self.keeping("--optimizer=momentum:lr=0.1", "--schedule=constant", "--epochs=8", step_ms=20)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assert_tidy()
        row = self.best()
        best = row["best"]
        self.assertEqual((best["by"], best["held_out_samples"]), ("accuracy", 359))
        said = re.findall(r"checkpoint (\d+) is the best so far: accuracy ([0-9.]+) on 359", running.output())
        self.assertEqual((int(said[-1][0]), float(said[-1][1])), (row["clock"], round(best["accuracy"], 4)))
        self.assertEqual([float(a) for _, a in said], sorted({float(a) for _, a in said}))
        self.assertRegex(running.output(), rf"best checkpoint +clock {row['clock']}, accuracy {best['accuracy']:.4f}")
        of_best = self.read("evaluate", f"--checkpoint={self.folder}/best")
        self.assertEqual((of_best["test_accuracy"], of_best["test_loss"]), (best["accuracy"], best["loss"]))
        # The last was evaluated when the job was over, if not before.
        last = self.read("evaluate", f"--checkpoint={self.folder}/{self.clocks()[-1]}")
        self.assertLessEqual(last["test_accuracy"], best["accuracy"])
        self.assertEqual(self.read("checkpoint", "show", f"{self.folder}/best")["clock"], row["clock"])
        out = f"{self.dir}/best.safetensors"
        self.assertEqual(self.call("checkpoint", "export", f"{self.folder}/best", out)[0], 0)
        self.assertEqual(self.read("evaluate", f"--model_file={out}")["test_accuracy"], best["accuracy"])
        code, said, complained = self.call("predict", f"--checkpoint={self.folder}/best",
                                           "--data=data/digits/digits.csv.gz")
        self.assertEqual((code, len(said.splitlines())), (0, 1798), complained)
        self.prune_and_verify(row["clock"])

    def prune_and_verify(self, best):
        said = self.read("checkpoint", "prune", self.folder, "--keep=1")
        self.assertEqual(said["best"], best)
        self.assertEqual(self.clocks(), sorted({best, *said["kept"]}))
        self.assertEqual(self.call("checkpoint", "verify", self.folder)[0], 0)
        shutil.copy(f"{self.folder}/best", f"{self.dir}/kept")
        with open(f"{self.folder}/best", "r+") as file:
            file.write("format: 3")
        code, said, complained = self.call("checkpoint", "verify", self.folder)
        self.assertEqual(code, 78, said)
        self.assertRegex(complained, "best: is not as it was written")
        self.assertRegex(self.call("checkpoint", "ls", self.folder)[1], "best  .*is not as it was written")
        self.assertRegex(self.call("evaluate", f"--checkpoint={self.folder}/best")[2], "is not as it was written")
        os.remove(f"{self.folder}/best")
        self.assertRegex(self.call("evaluate", f"--checkpoint={self.folder}/best")[2], "has no best checkpoint")
        shutil.copy(f"{self.dir}/kept", f"{self.folder}/best")
        shutil.rmtree(f"{self.folder}/{best:09}")
        code, _, complained = self.call("checkpoint", "verify", self.folder)
        self.assertEqual(code, 78)
        self.assertRegex(complained, rf"the best of .*, checkpoint {best}: .*No such file")

    def test_a_model_of_tables_by_loss(self):
        path = f"{self.dir}/triples"
        with open(path, "w") as file:
            for i in range(4000):
                file.write(f"{i % 61} {i * 7 % 53} {(i % 61) * 0.05 + (i * 7 % 53) * 0.02:.3f}\n")
        running = self.keeping("--model=matrix_factorisation:dim=4", "--data_format=triples", f"--data_path={path}",
                               "--optimizer=adagrad:lr=0.1", "--schedule=constant", "--epochs=6", "--batch=256",
                               every=6, step_ms=20)
        self.assertEqual(running.wait(120), 0, running.output())
        row = self.best()
        self.assertEqual(row["best"]["by"], "loss")
        self.assertEqual(self.read("evaluate", f"--checkpoint={self.folder}/best")["test_loss"], row["best"]["loss"])

    def test_a_job_with_a_strategy(self):
        running = self.keeping(*self.strategy(), "--epochs=3")
        self.assertEqual(running.wait(120), 0, running.output())
        row = self.best()
        self.assertEqual(self.read("evaluate", f"--checkpoint={self.folder}/best")["test_accuracy"],
                         row["best"]["accuracy"])

    def test_what_is_asked_for_wrongly(self):
        for wanted, flags in (("early_stop: of no best checkpoint: give --checkpoint and --keep_best too",
                               [f"--checkpoint={self.folder}", "--early_stop=3"]),
                              ("early_stop: not yet with output.curve_path, which is of a run to its end",
                               [f"--checkpoint={self.folder}", "--keep_best", "--early_stop=3",
                                f"--curve={self.dir}/curve"]),
                              ("keep_best: of no folder: give --checkpoint too", ["--keep_best"])):
            running = self.train(*flags)
            self.assertEqual(running.wait(60), 78, running.output())
            self.assertRegex(running.output(), wanted)
            self.assertEqual(len(running.lines), 1, running.output())


class StandInTestCase(BestTestCase):
    """With evaluations that say, or do, what the test wants."""

    def setUp(self):
        super().setUp()
        self.bin = f"{self.dir}/bin"
        self.says = f"{self.dir}/says"
        os.mkdir(self.bin)
        for name, as_name in (("soapstone", "launcher"), ("soapstone-scheduler",) * 2, ("soapstone-server",) * 2,
                              ("soapstone-worker",) * 2):
            try:
                os.link(f"{BIN}/{name}", f"{self.bin}/{as_name}")
            except OSError:  # another disk
                shutil.copy(f"{BIN}/{name}", f"{self.bin}/{as_name}")
        with open(f"{self.bin}/soapstone", "w") as file:
            file.write(STAND_IN % (f"{self.bin}/launcher", self.says, self.folder))
        os.chmod(f"{self.bin}/soapstone", 0o755)

    def run_program(self, program, *flags):
        return super().run_program("launcher" if program == "soapstone" else program, *flags)

    def say(self, all="0.5", **by_clock):
        with open(self.says, "w") as file:
            file.write(f"all {all}\n" + "".join(f"{clock[1:]} {what}\n" for clock, what in by_clock.items()))

    def asked(self):
        if not os.path.exists(f"{self.says}.asked"):
            return []
        with open(f"{self.says}.asked") as file:
            return [int(line) for line in file]


class StandInTest(StandInTestCase):

    def test_it_stops_early_with_the_best(self):
        self.say("0.6", c30="0.7", c60="0.9", c90="0.8", c120="0.9")
        model = f"{self.dir}/model.safetensors"
        running = self.keeping("--early_stop=2", f"--model_path={model}", step_ms=20)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assert_tidy()
        self.assertIn("2 evaluations in a row not better than checkpoint 60 (accuracy 0.9000): stopping early with a "
                      "checkpoint", running.output())
        stopped = int(re.search(rf"stopped at clock (\d+) of {CLOCKS}: the checkpoint is written",
                                running.output()).group(1))
        self.assertRegex(running.output(), r"stopped early, best +clock 60, accuracy 0.9000")
        self.assertRegex(running.output(), rf"model +{model}")
        self.assertEqual(self.best()["clock"], 60)
        self.assertLess(stopped, CLOCKS)
        self.assertEqual(self.clocks()[-1], stopped)
        out = f"{self.dir}/best.safetensors"
        self.assertEqual(self.call("checkpoint", "export", f"{self.folder}/best", out)[0], 0)
        self.assertEqual(self.values_of(model), self.values_of(out))
        with open(f"{self.dir}/logs/ledger.json") as file:
            result = json.load(file)["result"]
        self.assertEqual((result["code"], result["stopped_early"], result["best"]["clock"], result["test_accuracy"]),
                         (0, True, 60, 0.9))
        # With more patience it goes on, and what stopped was not evaluated yet.
        os.remove(f"{self.says}.asked")
        running = self.keeping("--early_stop=20", "--resume=auto")
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("the best checkpoint so far: 60, accuracy 0.9000", running.output())
        self.assertEqual(self.asked()[0], stopped)
        self.assertEqual(self.best()["clock"], 60)
        self.assertEqual(self.sha256(running.output()), self.undisturbed())

    def test_other_jobs_stop_early_too(self):
        self.say("0.6", c30="0.9")
        for flags in (["--policy=ssp:s=2"], self.strategy()):
            with self.subTest(flags=flags):
                running = self.keeping("--early_stop=1", f"--model_path={self.dir}/model", *flags, step_ms=10)
                self.assertEqual(running.wait(120), 0, running.output())
                self.assertRegex(running.output(), rf"stopped at clock \d+ of {CLOCKS}: the checkpoint is written")
                self.assertRegex(running.output(), r"stopped early, best +clock 30, accuracy 0.9000")
                os.remove(f"{self.dir}/model")
                shutil.rmtree(self.folder)

    def test_a_result_that_cannot_be_written_is_said(self):
        self.say("0.6", c30="0.9")
        os.mkdir(f"{self.dir}/out")
        running = self.keeping("--early_stop=1", f"--model_path={self.dir}/out/model", step_ms=10)
        running.wait_for("^started")
        os.rmdir(f"{self.dir}/out")
        self.assertEqual(running.wait(120), 78, running.output())
        self.assertRegex(running.output(), "ended with exit code 78: output.model_path: cannot write to .*/out: No such file")

    def test_one_that_dies_and_one_that_is_damaged_change_nothing(self):
        self.say("real", c30="die", c90="damage")
        running = self.keeping("--epochs=5", step_ms=20)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("checkpoint 30 is not evaluated: it was killed by signal 9", running.output())
        self.assertRegex(running.output(), "checkpoint 60 is the best so far")
        self.assertRegex(running.output(), "checkpoint 90 is not evaluated: .*shard-0.safetensors: MiB 0.*checksum")

    def test_one_that_hangs_is_ended(self):
        self.say("0.9", c30="hang")
        running = self.keeping("--start_timeout_s=5", "--epochs=4", step_ms=50)
        running.wait_for("checkpoint 30 is not evaluated: it did nothing for 5 s")
        self.assertEqual(running.wait(120), 0, running.output())
        # While it hung a newer one took the place of one that waited.
        self.assertIn(self.asked(), ([30, 90], [30, 60, 90]))  # the latter on a slow machine
        self.assertEqual(self.best()["clock"], 90)

    def test_killed_between_a_commit_and_its_evaluation(self):
        self.say("0.5", c30="0.9", c60="hang")
        running = self.keeping(step_ms=10)
        running.wait_for("checkpoint 30 is the best so far")
        self.wait_for_checkpoint(running, 60)
        scheduler = descendants(running.pid)["scheduler"]
        deadline = time.monotonic() + 20
        while 60 not in self.asked():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        evaluations = self.children_of(scheduler)
        self.assertEqual(len(evaluations), 1)
        self.kill_all(running)
        self.assert_nothing_left({"evaluation": evaluations[0]})
        first = self.clocks()[-1]
        os.remove(f"{self.says}.asked")
        self.say("0.8", **{f"c{first}": "0.95"})
        running = self.keeping("--resume=auto")
        self.assertEqual(self.end(running), self.undisturbed())
        self.assertIn("the best checkpoint so far: 30, accuracy 0.9000", running.output())
        self.assertEqual(self.asked()[0], first)
        self.assertEqual(self.best()["clock"], first)

    def children_of(self, pid):
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            found = file.read().split()
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += file.read().split()
        return sorted({int(child) for child in found})

    def test_a_best_that_is_missing_is_said_and_looked_for_anew(self):
        self.say("0.5", c30="0.9")
        running = self.keeping(step_ms=10)
        running.wait_for("checkpoint 30 is the best so far")
        self.wait_for_checkpoint(running, 90)
        self.kill_all(running)
        shutil.rmtree(f"{self.folder}/000000030")
        running = self.keeping("--resume=auto")
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertRegex(running.output(), "the best checkpoint so far is not known: the best of .*checkpoint 30")
        self.assertEqual(self.best()["best"]["accuracy"], 0.5)

    def test_a_job_that_goes_back_gives_up_a_best_that_comes_after(self):
        self.say("0.5", c90="0.9")
        running = self.keeping(step_ms=25)
        running.wait_for("checkpoint 90 is the best so far")
        self.kill_all(running)
        first = self.clocks()[0]
        self.assertLess(first, 90)
        running = self.keeping(f"--resume={first}")
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("the best checkpoint so far is not known: it is after where this run goes on", running.output())

    def test_a_signal_does_not_wait_for_an_evaluation(self):
        self.say("hang")
        running = self.keeping(step_ms=10)
        self.wait_for_checkpoint(running, 30)
        began = time.monotonic()
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(60), 143, running.output())
        self.assertLess(time.monotonic() - began, 10)
        self.assert_tidy()

    def test_a_job_that_does_not_look_for_it_leaves_the_best_of_before(self):
        self.say("0.5", c30="0.9")
        running = self.keeping(step_ms=10)
        running.wait_for("checkpoint 30 is the best so far")
        self.wait_for_checkpoint(running, 90)
        self.kill_all(running)
        running = self.run_job("--resume=auto", every=EVERY)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertEqual(self.best()["clock"], 30)
        # One that starts anew takes it away with the rest.
        running = self.run_job("--resume=0", every=EVERY)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertEqual(sorted(os.listdir(self.folder)), [f"{clock:09}" for clock in self.clocks()])

    def test_daemons_have_it_too(self):
        self.say("0.6", c30="0.9")
        flags = (f"--checkpoint={self.folder}", f"--checkpoint_every={EVERY}", "--keep_best", "--early_stop=2",
                 f"--model_path={self.dir}/model", "--base_ms=20", "--resume=0")
        nodes = self.start_by_hand(*flags)
        for name, node in nodes.items():
            self.assertEqual(node.wait(60), 0, name + node.output())
        self.assertEqual(self.best()["clock"], 30)
        self.assertTrue(os.path.exists(f"{self.dir}/model"))


class FullDiskBestTest(StandInTestCase):
    """On a disk of four megabytes, which takes root to mount."""

    def test_the_one_before_is_said_until_there_is_room(self):
        disk = f"{self.dir}/disk"
        os.mkdir(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "soapstone-test", disk],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("NOT TESTED: no disk can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        self.folder = f"{disk}/checkpoints"
        self.say("0.5", c30="0.7", c60="full")
        running = self.keeping("--epochs=6", step_ms=20)
        running.wait_for("that 60 is the best is not written: .*No space left")
        self.assertEqual(self.best()["clock"], 30)
        self.assertIn(60, self.clocks())
        os.remove(f"{disk}/filler")
        self.assertEqual(running.wait(120), 0, running.output())
        self.assert_tidy()
        self.assertEqual(self.best()["clock"], 60)


if __name__ == "__main__":
    unittest.main()
