#!/usr/bin/env python3
"""All-reduce of float32 between two processes of this machine over gloo's TCP, as torch has it. soapstone-bench starts it twice:

  bench/scripts/gloo_all_reduce.py RANK FILE SECONDS REPEATS BYTES...

FILE is where the two meet; it must not exist. Rank 0 prints a line a measurement: bytes, all-reduces, seconds, CPU seconds of both.
"""
import datetime
import os
import sys
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # loopback, as the bench's own sockets

import torch  # noqa: E402 (the interface is read when it is imported)
import torch.distributed as group  # noqa: E402


def measure(values, times):
    """Seconds, and CPU seconds of both, of so many all-reduces."""
    group.barrier()
    began, cpu_began = time.perf_counter(), time.process_time()
    for _ in range(times):
        group.all_reduce(values)
    took = time.perf_counter() - began
    cpu = torch.tensor([time.process_time() - cpu_began])
    group.all_reduce(cpu)
    return took, cpu.item()


def main():
    rank, meeting, seconds, repeats = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)  # each process has a core
    group.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2,
                             timeout=datetime.timedelta(seconds=20))
    for size in map(int, sys.argv[5:]):
        values = torch.zeros(size // 4)
        measure(values, 3)
        # Both must do as many: the slower one's estimate.
        times = torch.tensor([max(4, int(seconds / (measure(values, 4)[0] / 4)))])
        group.all_reduce(times, op=group.ReduceOp.MIN)
        for _ in range(repeats):
            took, cpu = measure(values, times.item())
            if rank == 0:
                print(size, times.item(), took, cpu, flush=True)


if __name__ == "__main__":
    main()
