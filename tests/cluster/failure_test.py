"""Processes that die and signals that come: nothing hangs, nothing is left, one line says who."""
import contextlib
import itertools
import os
import re
import signal
import subprocess
import time
import unittest

from cluster import ClusterTestCase, alive, descendants

LONG = "--epochs=100000"


class FailureTest(ClusterTestCase):

    def start(self, *flags, processes=6):
        """A running job that has made progress, and its processes."""
        running = self.train(*flags)
        running.wait_for(r"^epoch \d+/")
        children = descendants(running.pid)
        self.assertEqual(len(children), processes, children)
        return running, children

    def check_lost_worker(self, policy, *flags, processes=6, same_bits=False):
        flags = (f"--policy={policy}", "--epochs=100", *flags)
        running, children = self.start(*flags, processes=processes)
        os.kill(children["worker-1"], signal.SIGKILL)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("worker 1 lost", running.output())
        self.assertGreaterEqual(self.accuracy(running.output()), 0.95)
        self.assert_nothing_left(children)
        if same_bits:
            undisturbed = self.train(*flags)
            self.assertEqual(undisturbed.wait(120), 0, undisturbed.output())
            self.assertEqual(self.sha256(running.output()), self.sha256(undisturbed.output()))

    def test_lost_worker_under_ssp(self):
        self.check_lost_worker("ssp:s=2")

    def test_lost_worker_over_streams(self):
        self.check_lost_worker("bsp", "--transport=sockets", same_bits=True)

    def test_lost_worker_under_async(self):
        self.check_lost_worker("async")

    def test_lost_worker_under_bsp(self):
        self.check_lost_worker("bsp", same_bits=True)

    def test_lost_worker_under_allreduce(self):
        self.check_lost_worker("allreduce")

    def test_lost_worker_under_gossip(self):
        self.check_lost_worker("gossip:mode=pushsum")

    def test_lost_worker_under_backup(self):
        self.check_lost_worker("backup:b=1")

    def test_lost_worker_under_tree(self):
        self.check_lost_worker("tree:group=2,s=1", processes=10)  # two servers, and for each group two

    def check_lost(self, name, spoken):
        running, children = self.start(LONG)
        os.kill(children[name], signal.SIGKILL)
        killed = time.monotonic()
        self.assertEqual(running.wait(20), 138, running.output())
        self.assertLess(time.monotonic() - killed, 8)
        self.assertRegex(running.output(), spoken)
        self.assert_nothing_left(children)

    def test_a_scheduler_that_never_listens(self):
        for _ in range(20):  # until it is stopped in time
            running = self.train(LONG, "--start_timeout_s=2")
            deadline = time.monotonic() + 20
            while "scheduler" not in descendants(running.pid):
                self.assertLess(time.monotonic(), deadline)
            os.kill(descendants(running.pid)["scheduler"], signal.SIGSTOP)
            stopped = time.monotonic()
            self.assertEqual(running.wait(30), 138, running.output())
            self.assertLess(time.monotonic() - stopped, 20)
            if "the scheduler does not listen, and has done nothing for 2 s" in running.output():
                return
        self.fail(running.output())

    def test_a_number_that_comes_with_a_signal_is_the_launchers_alone(self):
        running, children = self.start(LONG)
        subprocess.run(["/bin/kill", "-q", str(1 + 4 * 78), "-s", "TERM", str(children["scheduler"])], check=True)
        self.assertEqual(running.wait(20), 143, running.output())
        self.assertNotIn("server 0 lost", running.output())

    def test_lost_server(self):
        self.check_lost("server-1", r"server-1 failed: killed by SIGKILL")
        with open(f"{self.dir}/logs/scheduler.log") as log:  # as its page: not the one that was ended for it
            self.assertRegex(log.read(), "ended with exit code 138: server 1 lost: its process has ended")

    def test_lost_scheduler(self):
        self.check_lost("scheduler", r"scheduler failed: killed by SIGKILL")

    def test_a_model_that_cannot_be_written_is_no_loss(self):
        folder = os.path.join(self.dir, "model")
        os.mkdir(folder)
        running, _ = self.start("--epochs=25", "--base_ms=5", f"--model_path={folder}/model.safetensors")
        os.rmdir(folder)
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertRegex(running.output(), r"(?m)^soapstone: ended with exit code 78: .*cannot write .*/model.safetensors: "
                         "No such file or directory")
        self.assertNotIn("lost", running.output())

    def test_a_server_that_is_told_to_stop_says_so(self):
        nodes = self.start_by_hand(LONG)
        server = nodes.pop("server-1")
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(10), 143, server.output())
        for name, node in nodes.items():
            self.assertEqual(node.wait(10), 138, f"{name}: {node.output()}")
        self.assertRegex(nodes["scheduler"].output(), "server 1 lost: stopped by a signal")

    def test_all_workers_lost(self):
        running, children = self.start(LONG)
        for rank in range(3):
            os.kill(children[f"worker-{rank}"], signal.SIGKILL)
        self.assertEqual(running.wait(30), 138, running.output())
        self.assert_nothing_left(children)

    def check_signal(self, number, code):
        running, children = self.start(LONG)
        running.process.send_signal(number)
        sent = time.monotonic()
        self.assertEqual(running.wait(15), code, running.output())
        self.assertLess(time.monotonic() - sent, 5)
        self.assert_nothing_left(children)
        for name in children:
            with open(f"{self.dir}/logs/{name}.log") as log:
                self.assertTrue(log.read().endswith("\n"), name)

    def test_sigterm(self):
        self.check_signal(signal.SIGTERM, 143)

    def test_ctrl_c(self):
        self.check_signal(signal.SIGINT, 130)

    def test_ctrl_c_as_the_job_ends(self):
        # The launcher may have heard of the result, or of the scheduler's end, or of neither yet.
        for delay_ms, again in itertools.product(range(0, 40, 10), (False, True)):
            with self.subTest(delay_ms=delay_ms, again=again):
                log = os.path.join(self.dir, "logs", "scheduler.log")
                running = self.train("--epochs=1")
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline:
                    with contextlib.suppress(OSError), open(log) as file:
                        if "ended with exit code 0" in file.read():
                            break
                    time.sleep(0.0005)
                time.sleep(delay_ms / 1000)
                running.process.send_signal(signal.SIGINT)
                while again and running.process.poll() is None:  # also while the table is written
                    time.sleep(0.004)
                    running.process.send_signal(signal.SIGINT)
                code = running.wait(60)
                os.remove(log)  # or the next would find it
                # A job that was at its end has ended well, also where the launcher had said that it stops.
                self.assertIn(code, (0, 130), running.output())
                if code == 130:
                    self.assertIn("interrupted: stopping", running.output())
                self.assertEqual("parameters, sha256" in running.output(), code == 0, running.output())

    @contextlib.contextmanager
    def hangups(self, disposition):
        """For what is started within: as a shell does (SIG_DFL) or nohup (SIG_IGN), whatever started this test."""
        were = signal.signal(signal.SIGHUP, disposition)
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, were)

    def test_a_closed_terminal_ends_the_job_but_not_under_nohup(self):
        for disposition, epochs, code in ((signal.SIG_DFL, LONG, 143), (signal.SIG_IGN, "--epochs=100", 0)):
            with self.hangups(disposition):
                running, children = self.start(epochs)
            for pid in (running.pid, *children.values()):
                os.kill(pid, signal.SIGHUP)
            self.assertEqual(running.wait(60), code, running.output())
            self.assert_nothing_left(children)

    def test_a_daemon_whose_terminal_is_closed_says_why_it_leaves(self):
        with self.hangups(signal.SIG_DFL):
            nodes = self.start_by_hand(LONG)
        server = nodes.pop("server-1")
        server.process.send_signal(signal.SIGHUP)
        self.assertEqual(server.wait(10), 143, server.output())
        self.assertEqual(nodes["scheduler"].wait(10), 138)
        self.assertRegex(nodes["scheduler"].output(), "server 1 lost: stopped by a signal")

    def test_killed_launcher_takes_all_with_it(self):
        running, children = self.start(LONG)
        running.process.kill()
        running.wait(5)
        self.assert_nothing_left(children)

    def test_sigterm_before_the_nodes_have_started(self):
        running = self.train(LONG)
        running.wait_for("scheduler at")
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(10), 143, running.output())

    def test_a_worker_told_to_leave_leaves(self):
        running, children = self.start("--epochs=60")
        os.kill(children["worker-2"], signal.SIGTERM)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("worker 2 left after clock", running.output())

    def start_without_a_worker(self, number):
        """A job that waits for worker 2, which is stopped, and whose server 1 got the signal when it had registered."""
        running = self.train(LONG)
        running.wait_for("scheduler at")
        sent = {}
        deadline = time.monotonic() + 10
        while len(sent) < 2 and time.monotonic() < deadline:
            for name, pid in descendants(running.pid).items():
                if name == "worker-2" and name not in sent:
                    os.kill(pid, signal.SIGSTOP)
                    sent[name] = pid
                if name == "server-1" and "server 1 registered" in running.output():
                    os.kill(pid, number)
                    sent[name] = pid
        return running, sent

    def test_a_server_told_to_stop_before_the_start(self):
        # The signal was for it alone, not for the job.
        running, sent = self.start_without_a_worker(signal.SIGTERM)
        children = descendants(running.pid)
        self.assertEqual(running.wait(30), 138, running.output())
        self.assertRegex(running.output().splitlines()[-1], "ended with exit code 138: server.1")
        self.assert_nothing_left(children | sent)

    def test_a_server_counted_out_before_the_start_is_the_reason_of_the_end(self):
        # What ends the scheduler, which waits for another server, is the launcher; nobody else sent
        # a signal, so 143 would be a lie.
        running, stopped = self.start_without_a_worker(signal.SIGSTOP)
        children = descendants(running.pid)
        running.wait_for("server 1 lost", 20)
        for pid in stopped.values():
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(running.wait(30), 138, running.output())
        self.assertIn("server-1", running.output().splitlines()[-1])
        self.assert_nothing_left(children)

    def check_lost_by_hand(self, name, spoken):
        nodes = self.start_by_hand(LONG)
        nodes.pop(name).process.kill()
        killed = time.monotonic()
        for node in nodes.values():
            self.assertEqual(node.wait(15), 138, node.output())
            self.assertIn(spoken, node.output())
        self.assertLess(time.monotonic() - killed, 8)  # a timeout of 3 s, heartbeats, the ends

    def test_daemons_notice_a_lost_server(self):
        self.check_lost_by_hand("server-1", "server 1 lost")

    def test_daemons_notice_a_lost_scheduler(self):
        self.check_lost_by_hand("scheduler", "scheduler lost")

    def test_a_new_worker_takes_the_place_of_a_lost_one(self):
        nodes = self.start_by_hand(LONG)
        scheduler = nodes["scheduler"]
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        nodes["worker-1"].process.kill()
        scheduler.wait_for("worker 1 lost", 15)
        fresh = self.run_program("soapstone-worker", f"--config={self.config}",
                                 f"--scheduler={endpoint}", "--rank=1", LONG)
        scheduler.wait_for("worker 1 joined at clock", 15)
        scheduler.process.send_signal(signal.SIGTERM)
        self.assertEqual(scheduler.wait(10), 143, scheduler.output())
        self.assertEqual(fresh.wait(10), 143, fresh.output())
        self.assertFalse(alive(fresh.pid))

    def test_a_new_peer_gets_the_values_of_another(self):
        flags = ("--policy=allreduce", "--epochs=30", "--base_ms=10")
        nodes = self.start_by_hand(*flags)
        scheduler = nodes["scheduler"]
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        nodes["worker-1"].process.kill()
        scheduler.wait_for("worker 1 lost", 15)
        fresh = self.run_program("soapstone-worker", f"--config={self.config}",
                                 f"--scheduler={endpoint}", "--rank=1", *flags)
        scheduler.wait_for("worker 1 joined at clock", 15)
        self.assertEqual(scheduler.wait(120), 0, scheduler.output())
        self.assertEqual(fresh.wait(10), 0, fresh.output())
        accuracy = float(re.search(r'"test_accuracy":([0-9.]+)', scheduler.output()).group(1))
        self.assertGreaterEqual(accuracy, 0.95, scheduler.output())


if __name__ == "__main__":
    unittest.main()
