"""Under bsp the bits are one job's: processors that would add others are refused, or capped."""
import os
import unittest

from cluster import ClusterTestCase

JOB = ("--servers=1", "--workers=2", "--epochs=2")


def has(flag):
    with open("/proc/cpuinfo") as file:
        return flag in file.read().split()


class IsaTest(ClusterTestCase):

    def setUp(self):
        super().setUp()
        if not has("avx2"):
            self.skipTest("NOT TESTED: this processor has one instruction set only, sse41")

    def run_with(self, isa, program, *flags):
        """As run_program, on a processor that has no more than `isa`, as far as oneDNN knows."""
        before = os.environ.get("ONEDNN_MAX_CPU_ISA")
        os.environ["ONEDNN_MAX_CPU_ISA"] = isa
        try:
            return self.run_program(program, *flags)
        finally:
            del os.environ["ONEDNN_MAX_CPU_ISA"]
            if before is not None:
                os.environ["ONEDNN_MAX_CPU_ISA"] = before

    def start(self, *flags, isas=("AVX2", "SSE41"), policy="bsp"):
        """(scheduler, server, [worker]), a worker each for `isas`, started one after the other."""
        common = (f"--config={self.config}", f"--policy={policy}", *JOB, *flags)
        scheduler = self.run_program("soapstone-scheduler", *common,
                                     "--scheduler=tcp://127.0.0.1:0", "--progress=json")
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        common = (*common, f"--scheduler={endpoint}")
        server = self.run_program("soapstone-server", *common)
        workers = []
        for rank, isa in enumerate(isas):
            workers.append(self.run_with(isa, "soapstone-worker", *common, f"--rank={rank}"))
            if rank == 0:
                scheduler.wait_for("worker 0 registered")
        return scheduler, server, workers

    def hash_of(self, scheduler):
        return scheduler.wait_for('"sha256":"([0-9a-f]{64})"').group(1)

    def test_an_unlike_processor_is_refused_in_one_line(self):
        scheduler, _, workers = self.start()
        self.assertEqual(workers[1].wait(30), 78, workers[1].output())
        lines = [line for line in workers[1].output().splitlines() if "computes with" in line]
        self.assertEqual(len(lines), 1, workers[1].output())
        self.assertRegex(lines[0], r"computes with sse41, oneDNN .* where worker 0 does with avx2,"
                                   r" oneDNN .*--isa")
        self.assertIsNone(scheduler.process.poll())  # the place is free for one that is alike

    def test_with_one_cap_there_is_one_hash(self):
        def finish(*flags, isas):
            scheduler, _, workers = self.start(*flags, isas=isas)
            self.assertEqual(scheduler.wait(60), 0, scheduler.output())
            for worker in workers:
                self.assertEqual(worker.wait(20), 0, worker.output())
            return self.hash_of(scheduler)

        mixed = finish("--isa=sse41", isas=("AVX2", "SSE41"))
        self.assertEqual(mixed, finish("--isa=sse41", isas=("SSE41", "ALL")))
        self.assertEqual(mixed, finish(isas=("SSE41", "SSE41")))
        # Were it not for the cap they would differ: what is compared depends on it.
        self.assertNotEqual(mixed, finish("--isa=avx2", isas=("SSE41", "ALL")))

    def test_unlike_processors_may_share_a_job_that_promises_no_bits(self):
        scheduler, _, _ = self.start(policy="ssp:s=1")
        self.assertEqual(scheduler.wait(60), 0, scheduler.output())

    def test_a_processor_that_cannot_reach_the_cap_says_so(self):
        if has("avx512f"):
            self.skipTest("NOT TESTED: this processor has avx512")
        worker = self.run_program("soapstone-worker", f"--config={self.config}", "--isa=avx512",
                                  "--scheduler=tcp://127.0.0.1:1")
        self.assertEqual(worker.wait(20), 78, worker.output())
        self.assertIn("cluster.isa: avx512 cannot be had", worker.output())

    def test_an_unknown_name_is_refused(self):
        running = self.train("--isa=sse3")
        self.assertEqual(running.wait(10), 78, running.output())
        self.assertIn('cluster.isa: "sse3" is none of auto, sse41, avx2, avx512', running.output())


if __name__ == "__main__":
    unittest.main()
