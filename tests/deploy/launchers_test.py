#!/usr/bin/env python3
"""The files of launchers: every exit code of base/exit_codes.h is either tried again or not, alike in systemd's units,
Slurm's scripts and docs/deploy.md; units are valid, scripts are shell.

  launchers_test.py BIN"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = None
# What each code means to whoever starts processes: ok, again, or never; stopped: somebody asked for the end.
MEANING = {"Ok": "ok", "ReplayDiffers": "never", "Internal": "never", "Stopped": "again", "Broken": "never",
           "Config": "never", "NotFinite": "never", "Interrupted": "stopped", "PeerLost": "again", "Terminated": "stopped"}


def exit_codes():
    text = (ROOT / "base/exit_codes.h").read_text()
    return {name: int(code) for name, code in re.findall(r"int kExit(\w+) =\s+(\d+);", text)}


def prevented(unit):
    return {int(code) for code in re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.M).group(1).split()}


def requeued(script):
    return {int(code) for code in re.findall(r"\$code -eq (\d+)", script)}


def units():
    return sorted((ROOT / "deploy/systemd").glob("*.service"))


class CodesTest(unittest.TestCase):
    def test_every_code_has_a_meaning(self):
        self.assertEqual(set(exit_codes()), set(MEANING))

    def codes(self, meaning):
        return {code for name, code in exit_codes().items() if MEANING[name] == meaning}

    def test_systemd(self):
        self.assertEqual(len(units()), 3)
        for unit in units():
            self.assertEqual(prevented(unit.read_text()), self.codes("never"), unit.name)
            self.assertIn("SuccessExitStatus=143", unit.read_text(), unit.name)

    def test_slurm(self):
        killed = {128 + 9}  # bash's word for a scheduler that was killed
        self.assertEqual(requeued((ROOT / "deploy/slurm/soapstone.sbatch").read_text()), self.codes("again") | killed)

    def test_the_page(self):
        page = (ROOT / "docs/deploy.md").read_text()
        rows = dict(re.findall(r"^\| (\d+(?:, \d+)*) \| (never|again|stopped|ok)", page, re.M))
        told = {int(code): meaning for codes, meaning in rows.items() for code in codes.split(", ")}
        self.assertEqual(told, {code: MEANING[name] for name, code in exit_codes().items()})

    def test_a_code_left_out_is_found(self):
        unit = units()[0].read_text().replace(" 78", "")
        self.assertNotEqual(prevented(unit), self.codes("never"))


class FilesTest(unittest.TestCase):
    def test_flags_exist(self):
        for unit in units():
            program, arguments = re.search(r"^ExecStart=/usr/bin/(\S+) (.*)$", unit.read_text(), re.M).groups()
            known = subprocess.run([f"{BIN}/{program}", "--help"], capture_output=True, text=True, timeout=60).stdout
            for flag in re.findall(r"--[a-z_]+", arguments):
                self.assertIn(flag, re.findall(r"--[a-z_]+", known), unit.name)

    def test_a_unit_with_a_key_differs_by_it_alone(self):
        for unit in units():
            role = re.match(r"soapstone-(\w+)", unit.name).group(1)
            drop_in = (ROOT / "deploy/systemd/keys" / f"{unit.name}.d/keys.conf").read_text()
            run = re.search(r"^ExecStart=.*$", unit.read_text(), re.M).group(0)
            self.assertEqual([line for line in drop_in.splitlines() if not line.startswith("#")],
                             ["[Service]", "RestartPreventExitStatus=243", f"LoadCredential={role}.key:/etc/soapstone/keys/{role}.key", "ExecStart=",
                              f"{run} --key=%d/{role}.key"])

    def test_scripts_are_shell(self):
        scripts = [*sorted((ROOT / "deploy/slurm").glob("*.sbatch")), ROOT / "deploy/image/build", ROOT / "deploy/try",
                   *(p for p in sorted((ROOT / "deploy/sandbox").iterdir()) if p.suffix == "")]
        for script in scripts:
            run = subprocess.run(["bash", "-n", script], capture_output=True, text=True, timeout=30)
            self.assertEqual(run.returncode, 0, run.stderr)

    def test_units_of_one_user_may_ask_for_interfaces(self):
        for unit in units():  # libzmq ends a process that may not
            self.assertRegex(unit.read_text(), r"(?m)^RestrictAddressFamilies=.*\bAF_NETLINK\b")
            self.assertRegex(unit.read_text(), r"(?m)^User=soapstone$")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_units_are_valid(self):
        with tempfile.TemporaryDirectory() as folder:
            for unit in [*units(), ROOT / "deploy/systemd/soapstone.target"]:
                text = re.sub(r"/usr/bin/soapstone-\w+", "/usr/bin/env", unit.read_text())
                (pathlib.Path(folder) / unit.name).write_text(text)
            for drop_in in (ROOT / "deploy/systemd/keys").glob("*/keys.conf"):
                place = pathlib.Path(folder) / drop_in.parent.name
                place.mkdir()
                (place / drop_in.name).write_text(re.sub(r"/usr/bin/soapstone-\w+", "/usr/bin/env", drop_in.read_text()))
            names = [p.name.replace("@.", "@0.") for p in units()]
            run = subprocess.run(["systemd-analyze", "verify", "--man=no", *names], capture_output=True, text=True,
                                 timeout=60, cwd=folder, env={**os.environ, "SYSTEMD_UNIT_PATH": folder + ":"})
            odd = [line for line in (run.stdout + run.stderr).splitlines() if "soapstone" in line]
            self.assertEqual(odd, [])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        sys.exit(78)
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
