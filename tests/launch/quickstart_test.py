"""./quickstart in a folder where nothing has run yet, as a clone is. Installing and building are stood in for."""
import os
import shutil
import subprocess
import tempfile
import unittest

BIN = os.environ["SOAPSTONE_BIN"]
SOURCE = os.environ["SOAPSTONE_SOURCE"]
STAND_IN = "#!/bin/sh\nexit 0\n"


class QuickstartTest(unittest.TestCase):

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="soapstone-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        shutil.copy(os.path.join(SOURCE, "quickstart"), self.dir)
        for name in ("cmake/setup.sh", "programs/cmake"):
            path = os.path.join(self.dir, name)
            os.makedirs(os.path.dirname(path))
            with open(path, "w") as file:
                file.write(STAND_IN)
            os.chmod(path, 0o755)
        for name in ("examples", "data"):
            os.symlink(os.path.join(SOURCE, name), os.path.join(self.dir, name))
        os.makedirs(os.path.join(self.dir, "build/release"))
        os.symlink(BIN, os.path.join(self.dir, "build/release/bin"))
        self.model = os.path.join(self.dir, "runs/quickstart/model.safetensors")

    def quickstart(self, *flags):
        path = os.path.join(self.dir, "programs") + ":" + os.environ["PATH"]
        return subprocess.run([os.path.join(self.dir, "quickstart"), *flags], env={**os.environ, "PATH": path},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)

    def test_trains_in_a_new_folder_and_keeps_its_run_from_wrong_flags(self):
        done = self.quickstart("--epochs=1", "--policy=bsp")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue(os.path.exists(self.model), done.stdout)
        done = self.quickstart("--policy=ssq")
        self.assertEqual(done.returncode, 78, done.stdout)
        self.assertRegex(done.stdout, "did you mean ssp")
        self.assertTrue(os.path.exists(self.model), "a wrong flag has removed the last run")


if __name__ == "__main__":
    unittest.main()
