"""Daemons as launchers start them: in any order, again at once after a kill, before names resolve; in roles that follow
from a number over all processes; with flags from the environment; and how they leave."""
import concurrent.futures
import os
import random
import signal
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from cluster import BIN, ClusterTestCase, Running
from stopped_thread import reap, stop_thread, thread_named

LAUNCHERS = ("RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX", "MASTER_ADDR", "MASTER_PORT", "DMLC_ROLE")
NAME = "head.soapstone.invalid"  # as a headless service's, which resolves some seconds after its pod runs


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def own_mounts():
    """Whether this process may have mounts of its own."""
    return subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode == 0


class LaunchTestCase(ClusterTestCase):

    def start(self, program, *flags, environment=None, hosts=None):
        """With no variable of a launcher but those of `environment`; `hosts`: the file it resolves names by."""
        command = [os.path.join(BIN, program), *flags]
        if hosts is not None:
            command = ["unshare", "-m", "sh", "-c", f"mount --bind {hosts} /etc/hosts && exec \"$@\"", "sh", *command]
        variables = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
        variables.update(environment or {})
        running = Running(["env", "-i", *(f"{name}={value}" for name, value in variables.items()), *command])
        self.addCleanup(self.stop, running)
        return running


class LateJob:
    """A job whose servers and workers start before their scheduler and before its name resolves, and one of whose
    servers is killed before the start and started again at once."""

    def __init__(self, test, name, start_timeout_s):
        self.test = test
        self.port = free_port()
        self.hosts = os.path.join(test.dir, f"hosts-{name}")
        self.nodes = {}
        self.flags = [f"--config={test.config}", "--epochs=2", f"--start_timeout_s={start_timeout_s}"]
        self.resolve(False)

    def resolve(self, yes):
        with open(self.hosts, "w") as file:  # in its place: it is mounted
            file.write("127.0.0.1 localhost\n" + (f"127.0.0.1 {NAME}\n" if yes else ""))

    def start(self, role, rank):
        self.nodes[f"{role}-{rank}"] = self.test.start(
            f"soapstone-{role}", *self.flags, f"--scheduler=tcp://{NAME}:{self.port}", hosts=self.hosts,
            environment={"JOB_COMPLETION_INDEX": str(rank)})

    def run(self, resolves_s, scheduler_s, kill_after_s):
        """{name: exit code}"""
        began = time.monotonic()
        for rank in range(2):
            self.start("server", rank)
            self.start("worker", rank)
        time.sleep(max(0, began + resolves_s - time.monotonic()))
        self.resolve(True)
        time.sleep(max(0, began + scheduler_s - time.monotonic()))
        scheduler = self.test.start("soapstone-scheduler", *self.flags, f"--scheduler=tcp://127.0.0.1:{self.port}")
        self.nodes["scheduler"] = scheduler
        scheduler.wait_for("server 0 registered", 60)
        time.sleep(kill_after_s)
        self.nodes["server-0"].process.kill()  # unshare has become it
        self.start("server", 0)
        self.start("worker", 2)
        return {name: node.wait(120) for name, node in self.nodes.items()}

    def output(self):
        return "\n".join(f"{name}: {node.process.poll()}\n{node.output()}" for name, node in self.nodes.items())


class LaunchTest(LaunchTestCase):

    def setUp(self):
        super().setUp()
        self.port = free_port()

    @unittest.skipUnless(own_mounts(), "NOT TESTED: no mounts of its own for names")
    def test_started_in_any_order_and_again_before_names_resolve(self):
        job = LateJob(self, "a", start_timeout_s=60)
        codes = job.run(resolves_s=2, scheduler_s=3, kill_after_s=0.3)
        self.assertEqual(set(codes.values()), {0}, job.output())
        self.assertIn("waiting for a place", job.nodes["server-0"].output())
        self.assertIn("does not resolve yet; trying again", job.nodes["server-1"].output())

    @unittest.skipUnless(own_mounts(), "NOT TESTED: no mounts of its own for names")
    def test_a_name_with_the_address_of_one_that_is_gone(self):
        # As a headless service names a pod that has failed beside the one in its place. The resolver puts an address
        # first that is like one's own.
        job = LateJob(self, "b", start_timeout_s=60)
        with open(job.hosts, "w") as file:
            file.write(f"127.0.0.1 localhost\n127.0.0.1 {NAME}\n127.0.0.9 {NAME}\n")
        scheduler = self.start("soapstone-scheduler", *job.flags, f"--scheduler=tcp://127.0.0.9:{job.port}")
        for rank in range(2):
            job.start("server", rank)
        for rank in range(3):
            job.start("worker", rank)
        for node in [scheduler, *job.nodes.values()]:
            self.assertEqual(node.wait(60), 0, f"{scheduler.output()}\n{job.output()}")
        self.assertIn("is at 2 addresses; asking at", job.nodes["server-0"].output())

    def flags_of_one_worker(self, transport):
        return [f"--config={self.config}", f"--scheduler=tcp://127.0.0.1:{free_port()}", "--servers=1", "--workers=1",
                "--epochs=1", f"--transport={transport}"]

    def test_a_job_does_not_begin_with_a_server_that_has_died(self):
        # Neither silent for long nor asked for by another yet: that its connection has ended is all there is to see.
        for transport in ("auto", "sockets"):
            with self.subTest(transport):
                flags = self.flags_of_one_worker(transport)
                scheduler = self.start("soapstone-scheduler", *flags)
                server = self.start("soapstone-server", *flags, "--rank=0")
                scheduler.wait_for("server 0 registered", 30)
                server.process.kill()
                server.process.wait()
                worker = self.start("soapstone-worker", *flags, "--rank=0")
                scheduler.wait_for("worker 0 registered", 30)
                second = self.start("soapstone-server", *flags, "--rank=0")
                for node in (scheduler, worker, second):
                    self.assertEqual(node.wait(60), 0, f"{scheduler.output()}\n{node.output()}")
                self.assertIn("waiting for a place", second.output())

    def test_who_waits_for_a_place_calls_the_scheduler_that_is_started_again(self):
        for transport in ("auto", "zeromq"):
            with self.subTest(transport):
                flags = self.flags_of_one_worker(transport)
                first = self.start("soapstone-scheduler", *flags)
                holder = self.start("soapstone-worker", *flags, "--rank=0")
                first.wait_for("worker 0 registered", 30)
                waiting = self.start("soapstone-worker", *flags, "--rank=0")
                waiting.wait_for("waiting for a place", 30)
                for node in (first, holder):
                    node.process.kill()
                    node.process.wait()
                time.sleep(1)
                scheduler = self.start("soapstone-scheduler", *flags)
                server = self.start("soapstone-server", *flags, "--rank=0")
                for node in (scheduler, waiting, server):
                    self.assertEqual(node.wait(60), 0, f"{scheduler.output()}\n{node.output()}")

    def test_a_name_that_never_resolves_is_worth_another_try(self):
        for program in ("soapstone-server", "soapstone-worker"):
            node = self.start(program, f"--config={self.config}", f"--scheduler=tcp://{NAME}:{self.port}",
                              "--start_timeout_s=1")
            self.assertEqual(node.wait(20), 138, node.output())
            self.assertIn(NAME, node.output().splitlines()[-1])

    def test_a_worker_says_that_a_name_does_not_resolve(self):
        worker = self.start("soapstone-worker", f"--config={self.config}", f"--scheduler=tcp://{NAME}:{self.port}",
                            "--start_timeout_s=20")
        worker.wait_for(f"{NAME}:{self.port}: this name does not resolve here", 20)

    def test_a_rank_that_stays_taken_ends_with_its_reason(self):
        flags = [f"--config={self.config}", f"--scheduler=tcp://127.0.0.1:{self.port}"]
        scheduler = self.start("soapstone-scheduler", *flags)
        first = self.start("soapstone-worker", *flags, "--rank=1")
        scheduler.wait_for("worker 1 registered", 30)
        second = self.start("soapstone-worker", *flags, "--rank=1", "--start_timeout_s=2")
        self.assertEqual(second.wait(20), 138, second.output())
        self.assertRegex(second.output(), r"no place for 2 s: rank 1 is taken by another worker, heard from .* ago")
        self.assertIsNone(first.process.poll())

    def test_a_scheduler_that_is_no_endpoint_is_not_waited_for(self):
        for program in ("soapstone-server", "soapstone-worker"):
            for endpoint in ("tcp://127.0.0.1:abc", "tcp://[::1]:7070", "tcp://*:7070", "tcp://0.0.0.0:7070",
                             "tcp://127.0.0.1:0"):
                node = self.start(program, f"--config={self.config}", f"--scheduler={endpoint}")
                self.assertEqual(node.wait(20), 78, node.output())
                self.assertIn(f'cluster.scheduler: "{endpoint}" ', node.output())

    def test_check_refuses_what_a_start_would(self):
        flags = [f"--config={self.config}", "--scheduler=tcp://127.0.0.1:7999", "--check"]
        self.assertEqual(self.start("soapstone-server", *flags, "--bind=tcp://*:7998", "--rank=0").wait(20), 0)
        server = ["soapstone-server", *flags]
        for program, wrong, why in (
                (server, "--bind=foo", "foo"), (server, "--key=/nonexistent", "No such file"),
                (server, "--rank=77", "the job has 2 servers"), (server, "--cpus=999", "--cpus=999"),
                ([server[0], flags[0], "--check"], "--scheduler=tcp://*:7999", "where a scheduler may listen"),
                (server, "--model_path=/nonexistent/m", "output.model_path"),
                (["soapstone-scheduler", *flags], f"--tensorboard={self.config}/t", "output.tensorboard_path"),
                (["soapstone-server", f"--config={self.config}"], "--check", "cluster.scheduler: an endpoint is needed"),
                (["soapstone", "node", *flags], "--index=99", "numbers 0 to 5"),
                (["soapstone", "node", *flags, "--index=1"], "--cpus=999", "--cpus=999")):
            node = self.start(*program, wrong)
            self.assertEqual(node.wait(20), 78, node.output())
            self.assertEqual(len(node.output().splitlines()), 1, node.output())
            self.assertIn(why, node.output())
        # A worker writes no model, nor does server 1, events are the scheduler's, and which process a node will be is
        # said at its start.
        for program, flag, *rest in (("soapstone-worker", "--model_path=/nonexistent/m"), ("soapstone", "node"),
                                     ("soapstone-server", f"--tensorboard={self.config}/t"),
                                     ("soapstone-server", "--model_path=/nonexistent/m", "--rank=1")):
            right = self.start(program, flag, *flags, *rest)
            self.assertEqual(right.wait(20), 0, right.output())

    def test_a_model_that_cannot_be_written_is_known_before_the_training(self):
        flags = [f"--config={self.config}", f"--scheduler=tcp://127.0.0.1:{self.port}", "--servers=1",
                 "--model_path=/nonexistent/m"]
        nodes = [self.start(f"soapstone-{role}", *flags) for role in ("scheduler", "server")]  # and no worker
        for node in nodes:
            self.assertEqual(node.wait(20), 78, node.output())
        self.assertIn("server 0: output.model_path: cannot write to /nonexistent", nodes[0].output())

    def test_what_launchers_set_for_all_roles_is_named(self):
        node = self.start("soapstone-worker", f"--config={self.config}", "--scheduler=tcp://127.0.0.1:1",
                          environment={"SLURM_PROCID": "4"})
        self.assertEqual(node.wait(20), 78, node.output())
        self.assertIn("SLURM_PROCID=4: the job has 3 workers; unset it", node.output())

    def test_roles_follow_from_a_number_over_all_processes(self):
        flags = ["node", f"--config={self.config}", "--policy=bsp", "--epochs=1"]
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port)}
        nodes = [self.start("soapstone", *flags, environment={**place, "SLURM_PROCID": str(number)})
                 for number in reversed(range(6))]
        for node in nodes:
            self.assertEqual(node.wait(60), 0, node.output())
        trained = self.train("--policy=bsp", "--epochs=1")
        self.assertEqual(trained.wait(60), 0, trained.output())
        self.assertEqual(self.sha256(nodes[-1].output()), self.sha256(trained.output()))
        beyond = self.start("soapstone", *flags, environment={**place, "SLURM_PROCID": "6"})
        self.assertEqual(beyond.wait(20), 78)
        self.assertIn("SLURM_PROCID=6: the job has a scheduler, 2 servers and 3 workers: numbers 0 to 5", beyond.output())
        nobody = self.start("soapstone", *flags, environment=place)
        self.assertEqual(nobody.wait(20), 78)
        self.assertIn("nothing says which process of the job this is", nobody.output())

    def test_variables_of_ps_lite_are_understood(self):
        place = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(self.port), "DMLC_NUM_SERVER": "1",
                 "DMLC_NUM_WORKER": "2"}
        nodes = [self.start("soapstone", "node", f"--config={self.config}", "--epochs=1",
                            environment={**place, "DMLC_ROLE": role}) for role in ("scheduler", "server", "worker", "worker")]
        for node in nodes:
            self.assertEqual(node.wait(60), 0, node.output())
        self.assertIn("all registered: 1 server, 2 workers", nodes[0].output())

    def test_flags_come_from_the_environment_below_the_command_line(self):
        # SOAPSTONE_SCHEDULER is nobody's there: the children's job says where the scheduler is.
        running = self.start("soapstone", "train", f"--config={self.config}", f"--log_dir={self.dir}/logs", "--epochs=1",
                             environment={"SOAPSTONE_WORKERS": "2", "SOAPSTONE_EPOCHS": "7", "SOAPSTONE_SERVERS": "",
                                          "SOAPSTONE_RANK": "9", "SOAPSTONE_CPUS": "900"})
        self.assertEqual(running.wait(60), 0, running.output())
        self.assertIn("from the environment: SOAPSTONE_WORKERS=2", running.output())
        self.assertIn("2 servers of 1 shard, 2 workers", running.output())
        self.assertNotIn("SOAPSTONE_EPOCHS", running.output())
        wrong = self.start("soapstone", "train", f"--config={self.config}", environment={"SOAPSTONE_WORKERS": "two"})
        self.assertEqual(wrong.wait(20), 78)
        self.assertIn("SOAPSTONE_WORKERS=two: a whole number", wrong.output())

    def leave(self, *signals, grace_s):
        """How a worker leaves whose device is in an operator that does not end: seconds, and what it said."""
        for _ in range(3):
            if (left := self.try_to_leave(signals, grace_s)) is not None:
                return left
        return self.fail("its device was three times stopped with a lock that others need")

    def try_to_leave(self, signals, grace_s):
        """None where the device was stopped with such a lock, so that all of the process stands still."""
        # Layers of 2,048: the device is nearly always in an operator.
        flags = [f"--config={self.config}", f"--scheduler=tcp://127.0.0.1:{self.port}", "--policy=bsp",
                 "--model=mlp:hidden=2048", "--servers=1", "--workers=2", "--batch=256", "--micro_batches=2",
                 "--epochs=1000", "--heartbeat_timeout_s=20"]
        scheduler = self.start("soapstone-scheduler", *flags, "--progress=json")
        for role, rank in (("server", 0), ("worker", 0), ("worker", 1)):
            node = self.start(f"soapstone-{role}", *flags, f"--rank={rank}", f"--grace_s={grace_s}")
        scheduler.wait_for('"event":"progress"', 60)
        device = thread_named(node.pid, "device")
        stop_thread(self, device)
        began = time.monotonic()
        for number in signals:
            node.process.send_signal(number)
            time.sleep(0.5)
        try:
            reap(device, 20)
        except AssertionError:
            os.kill(node.pid, signal.SIGKILL)
            reap(device, 10)
            self.stop(scheduler)
            return None
        self.assertEqual(node.wait(20), 143, node.output())
        took = time.monotonic() - began
        scheduler.process.send_signal(signal.SIGTERM)
        return took, node.output()

    def test_a_worker_that_prepares_its_device_ends_when_it_is_told_to(self):
        worker = self.start("soapstone-worker", f"--config={self.config}", "--scheduler=tcp://127.0.0.1:9",
                            "--rank=0", "--workers=1", "--policy=async", "--model=mlp:hidden=8192", "--batch=1024",
                            "--http=127.0.0.1:0")
        pages = worker.wait_for(r"pages at (http://[^/]+)/").group(1)
        self.assertIn("preparing its device", self.ready(pages))
        began = time.monotonic()
        worker.process.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(60), 143, worker.output())
        self.assertLess(time.monotonic() - began, 3)

    @staticmethod
    def ready(pages):
        """What /readyz says, once the node's loop turns."""
        while True:
            try:
                return urllib.request.urlopen(pages + "/readyz", timeout=20).read().decode()
            except urllib.error.HTTPError as error:
                text = error.read().decode()
                if text != "starting\n":
                    return text
            time.sleep(0.05)

    def test_a_step_may_take_the_grace_and_no_longer(self):
        took, output = self.leave(signal.SIGTERM, grace_s=2)
        self.assertGreater(took, 1.9)
        self.assertLess(took, 6)
        self.assertIn("longer than grace_s", output)

    def test_a_second_signal_is_at_once(self):
        took, output = self.leave(signal.SIGTERM, signal.SIGTERM, grace_s=600)
        self.assertLess(took, 6)
        self.assertIn("asked twice", output)


class LaunchCiTest(LaunchTestCase):
    """As slow as clusters are: twenty jobs, five at a time."""

    @unittest.skipUnless(own_mounts(), "NOT TESTED: no mounts of its own for names")
    def test_ten_of_ten_end_well(self):
        chance = random.Random(20261124)

        def run(number):
            job = LateJob(self, str(number), start_timeout_s=120)
            codes = job.run(resolves_s=15, scheduler_s=30, kill_after_s=moments[number])
            return "" if set(codes.values()) == {0} else job.output()

        moments = [chance.uniform(0, 1) for _ in range(10)]
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            said = [text for text in pool.map(run, range(10)) if text]
        self.assertEqual(said, [], "\n".join(said))


if __name__ == "__main__":
    unittest.main()
