"""What pages tell people to type: each command is there, and has the flags that it is given."""
import functools
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(os.environ["SOAPSTONE_SOURCE"])
BIN = pathlib.Path(os.environ["SOAPSTONE_BIN"])
TYPED = re.compile(r"(?<![\w/.-])(?:build/release/bin/|\$bin/)?(soapstone(?:-(?:bench|scheduler|server|worker))?)((?: [^\n`|;&>]*)?)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]*[a-z0-9]")


@functools.lru_cache(maxsize=None)
def flags_of(program, command):
    """Those of its --help. None: there is no such command."""
    done = subprocess.run([BIN / program, *command.split(), "--help"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, timeout=60)
    return None if done.returncode != 0 else {*FLAG.findall(done.stdout), "--help", "--version"}


def wrong(page):
    """(how many commands a page has, what is wrong with them)."""
    said, found = 0, []
    for match in TYPED.finditer(re.sub(r"\\\n\s*", " ", page)):
        program, words = match[1], match[2].split()
        command = words[0] if program == "soapstone" and words and re.fullmatch("[a-z]+", words[0]) else ""
        flags = FLAG.findall(match[2])
        if not flags or (program == "soapstone" and not command):
            continue
        said += 1
        there = flags_of(program, command)
        if there is None:
            found.append(f"{program} has no command {command}")
        else:
            found += [f"{program} {command} has no {flag}".replace("  ", " ") for flag in flags if flag not in there]
    return said, found


class PagesTest(unittest.TestCase):
    def test_commands_of_the_pages_have_their_flags(self):
        commands = 0
        for path in sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")):
            said, found = wrong(path.read_text())
            commands += said
            self.assertEqual(found, [], path)
        self.assertGreater(commands, 100)

    def test_a_flag_of_another_command_is_found(self):
        self.assertEqual(wrong("    soapstone top --budget=3s\n`soapstone-server --every=1`, soapstone trian --epochs=3\n"
                               "soapstone plan \\\n    --model=lenet5 --plant; $bin/soapstone train --nonsense=1"),
                         (5, ["soapstone top has no --budget", "soapstone-server has no --every",
                              "soapstone has no command trian", "soapstone plan has no --plant",
                              "soapstone train has no --nonsense"]))


if __name__ == "__main__":
    unittest.main()
