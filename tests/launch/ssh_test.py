"""A job over hosts that real ssh reaches: an sshd of the test's own on each of three machines, unpacked from its package,
not installed."""
import glob
import os
import re
import subprocess
import time
import unittest

import machines
from hosts import PROGRAM, SOURCE, MachinesTestCase

CONFIG = """Port 22
HostKey %(dir)s/host
AuthorizedKeysFile %(dir)s/user.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
"""

# Unpacked, not installed: an installation would start a daemon. The second is the first's library.
PACKAGES = ["openssh-server", "libwrap0"]


class SshCiTest(MachinesTestCase):

    def setUp(self):
        super().setUp()
        sshd = self.unpacked()
        libraries = [os.path.dirname(at) for at in glob.glob(f"{self.dir}/package/**/libwrap.so.0", recursive=True)]
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.dir}/{key}"], check=True)
        with open(f"{self.dir}/sshd_config", "w") as file:
            file.write(CONFIG % {"dir": self.dir})
        with open(f"{self.dir}/host.pub") as key, open(f"{self.dir}/known", "w") as known:
            known.write("10.77.0.* " + key.read())
        # sshd gives its rights to a user of that name, which its installation makes.
        for name, line in (("passwd", "sshd:x:64999:65534::/run/sshd:/usr/sbin/nologin\n"), ("shadow", "")):
            with open(f"/etc/{name}") as there, open(f"{self.dir}/{name}", "w") as file:
                file.write(re.sub("(?m)^root:!", "root:", there.read()) + line)
        self.sshds = []
        for number in (1, 2, 3):
            machines.run_in(self.machines.holders[number].pid,
                            f"mount --bind {self.dir}/passwd /etc/passwd; mount --bind {self.dir}/shadow /etc/shadow; "
                            "mount -t tmpfs none /run; mkdir /run/sshd")
            self.sshds.append(subprocess.Popen(
                [*self.machines.enter(number), sshd, "-D", "-e", "-f", f"{self.dir}/sshd_config"],
                stderr=subprocess.DEVNULL, env={**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}))
            self.addCleanup(self.sshds[-1].wait)
            self.addCleanup(self.sshds[-1].kill)
        for number in (1, 2, 3):
            self.wait_for_port(number)
        self.of_machines = set(self.machines.running())

    def unpacked(self):
        try:
            subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=self.dir, check=True, timeout=120,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for name in PACKAGES:
                package, = glob.glob(f"{self.dir}/{name}_*.deb")
                subprocess.run(["dpkg-deb", "-x", package, f"{self.dir}/package"], check=True)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.skipTest(f"NOT TESTED: openssh-server cannot be had: {error}")
        return f"{self.dir}/package/usr/sbin/sshd"

    def wait_for_port(self, number):
        probe = ["bash", "-c", f"exec 3<>/dev/tcp/10.77.0.{number}/22"]
        deadline = time.monotonic() + 10
        while subprocess.run([*self.before, *probe], stderr=subprocess.DEVNULL).returncode != 0:
            self.assertLess(time.monotonic(), deadline, "no sshd")
            time.sleep(0.05)

    def ssh(self):
        return (f"ssh -F none -o BatchMode=yes -i {self.dir}/user -o UserKnownHostsFile={self.dir}/known "
                "-o StrictHostKeyChecking=yes")

    def test_they_train_as_one_machine_does(self):
        self.train_as_one_machine_does()

    def test_a_killed_launcher_leaves_nothing(self):
        self.kill_the_launcher()

    def test_a_killed_ssh_leaves_nothing(self):
        self.kill_an_ssh()

    def test_every_failure_is_listed(self):
        other = self.another_build()
        self.sshds[0].kill()
        self.sshds[0].wait()
        machines.run_in(self.machines.holders[2].pid, f"mount --bind {other} {PROGRAM}")
        machines.run_in(self.machines.holders[3].pid, f"mount -t tmpfs none {SOURCE}/data")
        self.assert_all_are_listed("Connection refused")


if __name__ == "__main__":
    unittest.main()
