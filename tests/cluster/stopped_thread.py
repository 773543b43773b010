"""Stops one thread of a process, and lets the others run: what a device does that does not come back."""
import ctypes
import os
import time

PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


def thread_named(pid, name):
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm") as comm:
            if comm.read().strip() == name:
                return int(thread)
    raise AssertionError(f"process {pid} has no thread {name}")


def stop_thread(test, thread):
    """The thread stands still, and its process does not."""
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        if LIBC.ptrace(request, thread, None, None) != 0:
            test.skipTest(f"NOT TESTED: ptrace: {os.strerror(ctypes.get_errno())}")
    os.waitpid(thread, WALL)


def reap(thread, seconds):
    """A thread that is traced ends when its tracer has seen it end."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(thread, WALL | os.WNOHANG)[0] == thread:
            return
        time.sleep(0.05)
    raise AssertionError(f"thread {thread} has not ended")
