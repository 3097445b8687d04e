"""Variables of launchers that started no ranks here: answered within seconds, by one clear line, or not taken for any.

Usage: ranks_launch_test.py PATH_OF_HEED
"""

import os
import subprocess
import sys
import time
import unittest

from mpi_run import Ranks, free_port

SOON_S = 8  # of a machine that does much else; the timeout is 600


class LeftOver(Ranks):
    def setUp(self):
        super().setUp()
        self.master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}

    def assert_answer(self, code, *parts, arguments=("steps=2", "device=cpu"), **environment):
        began = time.monotonic()
        job = self.start(self.train(*arguments), **environment)
        self.assertEqual(job.wait(SOON_S), code, job.words)
        self.assertLess(time.monotonic() - began, SOON_S)
        self.assertEqual(job.stderr.count("\n"), len(parts) and 1, job.stderr)
        for part in parts:
            self.assertIn(part, job.stderr)

    def test_ranks_on_the_cpu_do_not_wait_for_others(self):
        for rank in "01":
            parts = (f"2 ranks on the CPU need MPI: the environment has RANK={rank}, WORLD_SIZE=2", 'train.device = "cpu"',
                     "; unset RANK and WORLD_SIZE, or start with mpirun")
            self.assert_answer(7, *parts, RANK=rank, WORLD_SIZE="2", **self.master)
            self.assert_answer(7, "2 ranks on the CPU need MPI", "f64", arguments=["precision=f64"], RANK=rank,
                               WORLD_SIZE="2", **self.master)

    def test_nor_do_those_without_a_device(self):
        world = {"RANK": "1", "WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": "", **self.master}
        self.assert_answer(7, "2 ranks on the CPU need MPI", "CUDA", arguments=[], **world)
        self.assert_answer(5, 'train.device = "cuda": ', 'set it to "cpu"', arguments=["device=cuda"], **world)
        self.assert_answer(2, "no_such_key", arguments=["no_such_key=1"], **world)

    def test_what_is_not_complete(self):
        self.assert_answer(7, "RANK=3, WORLD_SIZE=2", RANK="3", WORLD_SIZE="2", **self.master)
        self.assert_answer(7, "no MASTER_ADDR", "unset RANK and WORLD_SIZE", RANK="0", WORLD_SIZE="2")
        for name, value in (("OMPI_COMM_WORLD_SIZE", "2"), ("SLURM_STEP_NUM_TASKS", "4"), ("PMI_SIZE", "2")):
            self.assert_answer(7, f"{name}={value}", f"unset {name} if it is left over", **{name: value})

    def test_mpirun_that_is_over(self):
        by_mpi = "by Open MPI" in self.run_heed("info")
        reason = "for MPI this is rank 0 of 1" if by_mpi else "this heed is built without MPI"
        for rank, size in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")):
            self.assert_answer(7, f"the environment has {rank}=0, {size}=2, but ", reason,
                               "unset these variables if they are left over", **{rank: "0", size: "2"})

    def test_what_tells_of_no_other_rank(self):
        empty = {name: "" for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "OMPI_COMM_WORLD_RANK",
                                       "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID",
                                       "SLURM_STEP_NUM_TASKS")}
        for environment in (empty, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "0"}, {"WORLD_SIZE": "2"},
                            {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "no.such.host.", "MASTER_PORT": "1"},
                            {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, {"PMIX_RANK": "0"},
                            {"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "-1"}):
            with self.subTest(environment):
                self.assert_answer(0, **environment)

    def test_other_commands_do_not_look_at_them(self):
        environment = os.environ | {"RANK": "0", "WORLD_SIZE": "2", **self.master}
        for command in (["info"], ["config", self.config]):
            subprocess.run([self.heed, *command], env=environment, capture_output=True, timeout=SOON_S, check=True)


if __name__ == "__main__":
    Ranks.heed = os.path.abspath(sys.argv.pop(1))
    unittest.main()
