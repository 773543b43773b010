"""Stands in for ssh: `stand_in.py CONFIG HOST COMMAND` runs the command as CONFIG (JSON, by host) says, and carries its
standard input and output as ssh does: the command's input ends when this process does, however that ends.

  enter    words before the command, such as nsenter's
  banner   what a login prints
  instead  a shell's command that is run, and becomes this process
"""
import json
import os
import subprocess
import sys
import threading


def carry(source, sink):
    while data := os.read(source, 65536):
        while data:
            data = data[os.write(sink, data):]


def feed(child):
    try:
        carry(0, child.stdin.fileno())
    except BrokenPipeError:
        pass
    child.stdin.close()


def main(config, host, command):
    with open(config) as file:
        how = json.load(file).get(host, {})
    if "instead" in how:
        os.execvp("sh", ["sh", "-c", how["instead"]])
    if "banner" in how:
        print(how["banner"], flush=True)
    child = subprocess.Popen([*how.get("enter", []), "sh", "-c", command], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
    threading.Thread(target=feed, args=(child,), daemon=True).start()
    carry(child.stdout.fileno(), 1)
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
