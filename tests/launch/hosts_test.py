"""A job over hosts: `soapstone train --hosts`, whose --ssh is a stand-in."""
import os
import re
import signal
import subprocess
import sys
import time
import unittest

import machines
from hosts import FOLDER, PROGRAM, SOURCE, HostsTestCase, MachinesTestCase, words_of


class LyingTestCase(HostsTestCase):

    def lie(self, how, *flags):
        return self.over("127.0.0.1 slots=4\n127.0.0.2\n", "--epochs=100000", *flags, how={
            "127.0.0.2": {"instead": f"exec {sys.executable} {FOLDER}/lying_agent.py {PROGRAM} {how}"}})


class HostsTest(LyingTestCase):
    """On this machine: its names are addresses that all lead here."""

    def test_a_banner_is_skipped_and_said(self):
        running = self.over("127.0.0.1 slots=5\n", "--epochs=1", how={"127.0.0.1": {"banner": "Welcome \x1b[1m"}})
        self.assertEqual(running.wait(60), 0, running.output())
        running.wait_for(r"127.0.0.1: Welcome \\x1b\[1m$")
        running.wait_for("1 host is reached, of this build")
        self.assert_nothing_runs()

    def test_an_ssh_that_hangs(self):
        running = self.over("127.0.0.1 slots=4\n127.0.0.2\n", "--start_timeout_s=2",
                            how={"127.0.0.2": {"instead": "exec sleep 1000"}})
        self.assertEqual(running.wait(20), 138, running.output())
        running.wait_for("host 127.0.0.2: no answer for 2 s")
        self.assertNotIn("host 127.0.0.1:", running.output())
        self.assert_nothing_runs()

    def test_a_host_that_floods(self):
        running = self.over("127.0.0.1 slots=4\n127.0.0.2\n", how={"127.0.0.2": {"instead": "exec yes soapstone"}})
        self.assertEqual(running.wait(20), 138, running.output())
        running.wait_for("host 127.0.0.2: .*1 MiB that is not the agent's")
        self.assert_nothing_runs()

    def test_an_agent_that_floods_lines(self):
        running = self.lie("floods", "--start_timeout_s=6")
        running.wait_for("hosts are reached")
        peak = 0
        while running.process.poll() is None and time.monotonic() < running.started + 30:
            with open(f"/proc/{running.pid}/status") as file:
                found = re.search(r"VmHWM:\s+(\d+)", file.read())
            peak = max(peak, int(found.group(1)) if found else 0)
            time.sleep(0.05)
        self.assertEqual(running.wait(1), 138, running.output())
        running.wait_for("worker 2")  # which is missing
        size = os.path.getsize(f"{self.dir}/logs/worker-2.log")
        self.assertTrue(255 << 20 < size < 257 << 20, size)
        with open(f"{self.dir}/logs/worker-2.log") as file:
            file.seek(size - 100)
            self.assertIn("(cut here: 256 MiB)", file.read())
        self.assertLess(peak, 200 << 10)  # KiB
        self.assert_nothing_runs()

    def test_an_agent_whose_processes_do_not_end(self):
        running = self.lie("deaf", "--start_timeout_s=6")
        self.assertEqual(running.wait(30), 138, running.output())
        running.wait_for("127.0.0.2: the host is lost: its processes did not end when they were killed")
        self.assert_nothing_runs()

    def test_files_that_are_wrong(self):
        for hosts, says in (("", "no host"), ("n1 slots=9\nn1\n", "hosts:2: host n1 is there twice"),
                            ("n1 slots=2\n", "0 of 2 servers and 3 of 3 workers have none"),
                            ("n1.soapstone.invalid slots=5\n", "which address of this machine n1.*cannot be told"),
                            ("x" * (1 << 20) + "yz\n", "more than 1 MiB")):
            running = self.over(hosts)
            self.assertEqual(running.wait(20), 78, running.output())
            running.wait_for(says)

    def test_an_ssh_that_is_not_there(self):
        path = os.path.join(self.dir, "one_host")
        with open(path, "w") as file:
            file.write("127.0.0.1 slots=5\n")
        for ssh, why in (("/nonexistent/ssh", "no command /nonexistent/ssh\n"), ("nonesuch -q", "no command nonesuch in PATH\n"),
                         ("/tmp -q", "no command /tmp\n")):
            done = subprocess.run([PROGRAM, "train", f"--config={self.config}", f"--hosts={path}", f"--ssh={ssh}",
                                   f"--log_dir={self.dir}/logs"],
                                  stderr=subprocess.PIPE, text=True, timeout=30)
            self.assertEqual((done.returncode, why in done.stderr), (78, True), done.stderr)

    def test_a_name_that_is_unknown_is_listed_with_the_others(self):
        fails = {"instead": "echo broken >&2; exit 255"}
        running = self.over("n1.soapstone.invalid slots=3\n127.0.0.1 slots=3\n",
                            how={"n1.soapstone.invalid": fails, "127.0.0.1": fails})
        self.assertEqual(running.wait(30), 138, running.output())
        for host in ("n1.soapstone.invalid", "127.0.0.1"):
            running.wait_for(f"host {host}: not reached")

    def test_outputs_that_would_stay_on_hosts_are_refused(self):
        for flag in ("--curve=c.csv", "--record=r", "--record_trace=t.csv"):
            running = self.over("127.0.0.1 slots=5\n", flag)
            self.assertEqual(running.wait(20), 78, running.output())
            running.wait_for("its parts would stay on the hosts")

    def test_the_agent_is_not_listed(self):
        listed = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("agent", listed)
        helped = subprocess.run([PROGRAM, "agent", "--help"], capture_output=True, text=True, check=True).stdout
        self.assertIn("standard input", helped)

    def test_check_asks_the_hosts_too(self):
        running = self.over("127.0.0.1 slots=5\n", "--check", how={"127.0.0.1": {"instead": "echo broken >&2; exit 255"}})
        self.assertEqual(running.wait(20), 138, running.output())
        running.wait_for("host 127.0.0.1: not reached: .*broken")


class SilentHostCiTest(LyingTestCase):

    def test_an_agent_that_says_no_more(self):
        running = self.lie("silent")
        self.assertEqual(running.wait(60), 138, running.output())
        running.wait_for("127.0.0.2: the host is lost: nothing was heard for 20 s")
        self.assert_nothing_runs()


class LongJobCiTest(HostsTestCase):

    def test_a_job_of_more_than_a_minute(self):  # in which neither end may fall silent to the other
        running = self.over("127.0.0.1 slots=5\n", "--epochs=1000000")
        running.wait_for("epoch ")
        with self.assertRaises(subprocess.TimeoutExpired):
            running.process.wait(70)
        os.kill(running.pid, signal.SIGINT)
        self.assertEqual(running.wait(40), 130, running.output())
        self.assert_nothing_runs()


class HostMachinesTest(MachinesTestCase):

    def test_they_train_as_one_machine_does(self):
        self.train_as_one_machine_does()

    def test_a_killed_launcher_leaves_nothing(self):
        self.kill_the_launcher()

    def test_a_killed_ssh_leaves_nothing(self):
        self.kill_an_ssh()

    def test_every_failure_is_listed(self):
        other = self.another_build()
        self.how["10.77.0.1"] = {"instead": "echo no route to it >&2; exit 255"}
        machines.run_in(self.machines.holders[2].pid, f"mount --bind {other} {PROGRAM}")
        machines.run_in(self.machines.holders[3].pid, f"mount -t tmpfs none {SOURCE}/data")
        self.assert_all_are_listed("no route to it")

    def test_a_killed_agent_leaves_nothing_and_the_others_go_on(self):
        running = self.train_over("--policy=bsp", "--epochs=100")
        running.wait_for("epoch ")
        agent = [pid for pid in self.machines.running([3]) if words_of(pid).endswith(" agent ")]
        os.kill(agent[-1], signal.SIGKILL)
        self.assert_nothing_runs_on(3, seconds=1)
        self.assertEqual(running.wait(60), 0, running.output())
        running.wait_for("10.77.0.3: the host is lost")

    def test_a_check_that_hangs(self):
        # A regular file whose reader waits for the kernel to say something; a pipe would be refused.
        machines.run_in(self.machines.holders[3].pid, f"mount --bind /proc/kmsg {SOURCE}/data/digits/digits.csv.gz")
        running = self.train_over("--start_timeout_s=2")
        running.wait_for("host 10.77.0.3: no answer for 2 s")
        self.assertEqual(running.wait(10), 138, running.output())
        self.assert_nothing_runs()

    def test_a_job_with_keys(self):
        keys = os.path.join(self.dir, "keys")
        subprocess.run([PROGRAM, "keygen", f"--out={keys}"], check=True, stdout=subprocess.DEVNULL)
        running = self.train_over("--policy=bsp", "--epochs=100000", f"--key={keys}")
        running.wait_for("epoch ")
        running.wait_for(r"10\.77\.0\.2:worker-0: secured by key")
        secrets = []
        for role in ("scheduler", "server", "worker"):
            with open(f"{keys}/{role}.key") as file:
                secrets.append(re.search(r'secret: "(.*)"', file.read()).group(1))
        for pid in self.machines.running():
            for what in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{what}", "rb") as file:
                    text = file.read()
                self.assertFalse(any(secret.encode() in text for secret in secrets), words_of(pid))
        roles = []
        for words, pid in self.of_agents().items():
            if " node " not in words:
                continue
            opened = re.search(r"--key=/proc/self/fd/(\d+)", words).group(1)
            with open(f"/proc/{pid}/fd/{opened}") as file:
                text = file.read()
            self.assertEqual(sum(secret in text for secret in secrets), 1)  # its own role's
            roles.append(re.search(r'role: "(.*)"', text).group(1))
        self.assertEqual(sorted(roles), ["server", "server", "worker", "worker", "worker"])
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(40), 143, running.output())
        for log in os.listdir(f"{self.dir}/logs"):
            with open(f"{self.dir}/logs/{log}") as file:
                text = file.read()
                self.assertFalse(any(secret in text for secret in secrets), log)
        self.assert_nothing_runs()


if __name__ == "__main__":
    unittest.main()
