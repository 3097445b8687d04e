"""train.tensorboard: the event files of a run hold what metrics.csv holds, also after a kill.

Usage: tensorboard_test.py PATH_OF_HEED
"""

import csv
import json
import os
import re
import signal
import struct
import subprocess
import unittest

import event_file
from command_line import HEED, CommandLine

COLUMNS = {
    "train/loss": "train_loss",
    "train/learning_rate": "learning_rate",
    "train/grad_norm": "grad_norm",
    "train/tokens_per_s": "tokens_per_s",
    "val/loss": "val_loss",
}


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class TensorBoard(CommandLine):
    def setUp(self):
        super().setUp()
        self.run_dir = self.folder / "runs" / "tiny"
        self.events = self.run_dir / "tensorboard"

    def train(self, *arguments, code=0):
        result = self.run_heed("train", self.config, "tensorboard=true", *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def start(self, *arguments):
        """A process that has printed its first step."""
        process = subprocess.Popen([HEED, "train", self.config, "tensorboard=true", *arguments], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if line.startswith("step"):
                return process
        self.fail("no step")

    def files(self):
        return sorted(self.events.iterdir())

    def summary(self):
        return json.loads((self.run_dir / "summary.json").read_text())

    def test_the_curves_are_an_image(self):
        self.train("plot=true")
        found = {}
        for event in event_file.events(self.files()[0]):
            for value in event_file.message(event[5][0]).get(1, []) if 5 in event else []:
                value = event_file.message(value)
                if 4 in value:
                    found[value[1][0].decode()] = (event[2][0], event_file.message(value[4][0]))
        self.assertEqual(list(found), ["curves"])
        step, image = found["curves"]
        self.assertEqual(step, 5)
        png = image[4][0]
        self.assertTrue(png.startswith(b"\x89PNG"))
        self.assertEqual((image[2][0], image[1][0]), struct.unpack(">II", png[16:24]), "width and height")

    def assert_same_as_metrics(self):
        rows = list(csv.DictReader((self.run_dir / "metrics.csv").read_text().splitlines()))
        found = event_file.scalars(self.events)
        for tag, column in COLUMNS.items():
            expected = [(int(row["step"]), float(row[column])) for row in rows if row[column]]
            self.assertEqual([step for step, _ in found[tag]], [step for step, _ in expected], tag)
            for (step, value), (_, wanted) in zip(found[tag], expected):
                self.assertAlmostEqual(value, wanted, delta=1e-6 * abs(wanted), msg=f"{tag} at step {step}")
        return found

    def test_holds_what_metrics_csv_holds(self):
        self.train("steps=7", "eval_interval=3")
        (file,) = self.files()
        self.assertRegex(file.name, r"^events\.out\.tfevents\.\d{10}\..+\.\d+\.\d+$")
        found = self.assert_same_as_metrics()
        self.assertEqual(set(found), {*COLUMNS, "val/excess"})
        self.assertEqual([step for step, _ in found["val/excess"]], [3, 6, 7])
        version, start = event_file.events(file)[:2]
        self.assertEqual((version[3], start[2]), ([b"brain.Event:2"], [1]))

    def test_excess_is_that_of_the_summary(self):
        self.train("final_eval=subset")
        self.assertEqual(event_file.scalars(self.events)["val/excess"], [(5, f32(self.summary()["excess"]))])
        (self.folder / "text.txt").write_text("abcd" * 500)
        self.config.write_text(self.CONFIG.split("[data]")[0] + '[data]\nsource="text"\npath="text.txt"\n[train]\nsteps=3\n')
        self.train()
        self.assertEqual(set(event_file.scalars(self.events)), set(COLUMNS))

    def test_hyperparameters_are_the_config(self):
        self.train("alpha=[8, 4]")
        hparams, status = event_file.hparams(*self.files())
        config = self.summary()["config"]
        expected = {f"{table}.{key}": value for table, keys in config.items() if isinstance(keys, dict)
                    for key, value in keys.items()}
        expected.update({key: value for key, value in config.items() if not isinstance(value, dict)})
        self.assertEqual(hparams.pop("data.alpha"), "[8.0, 4.0]")
        del expected["data.alpha"]
        self.assertEqual(hparams, expected)
        self.assertIs(hparams["model.bias"], True)
        self.assertNotIn("data.path", hparams)
        self.assertEqual(status, 1)

    def test_only_a_run_that_is_over_has_an_end(self):
        self.train("stop_after=3")
        self.assertIsNone(event_file.hparams(*self.files())[1])
        self.train("optim.learning_rate=1e30", "optim.clip_norm=0", "steps=30", "run_dir=runs/diverged", code=6)
        self.assertEqual(event_file.hparams(*(self.folder / "runs" / "diverged" / "tensorboard").iterdir())[1], 2)

    def test_off_by_default(self):
        self.assertEqual(self.run_heed("train", self.config).returncode, 0)
        self.assertFalse(self.events.exists())
        self.assertEqual(self.run_heed("train", self.config, "--resume", "steps=7", "tensorboard=true").returncode, 0)
        self.assertEqual([step for step, _ in event_file.scalars(self.events)["train/loss"]], [6, 7])

    def test_no_step_twice_after_a_kill(self):
        keys = ("steps=1000000", "eval_interval=20", "log_interval=1")
        self.train(*keys, "stop_after=50")
        process = self.start(*keys, "--resume")
        for line in process.stdout:
            if re.match(r"step +68/", line):  # printed before the step is recorded
                break
        process.kill()
        process.wait()
        repeated = [event[2][0] for event in event_file.events(self.files()[1]) if 5 in event and event.get(2) != [0]]
        self.assertEqual(repeated[:17], list(range(51, 68)))
        self.train(*keys, "stop_after=65", "--resume")
        self.assertEqual(len(self.files()), 3)
        found = self.assert_same_as_metrics()
        self.assertEqual([step for step, _ in found["train/loss"]], list(range(1, 66)))
        self.assertEqual([step for step, _ in found["val/excess"]], [20, 40, 60])

    def test_an_evaluation_that_is_made_up_for(self):
        (self.folder / "text.txt").write_text("abcd" * 30000)
        self.config.write_text("""
            [model]\nnum_layers = 1\nnum_heads = 2\nd_model = 16\nseq_len = 32
            [data]\nsource = "text"\npath = "text.txt"\nval_fraction = 0.98
            [train]\nbatch_size = 4\nsteps = 3\neval_interval = 1\n""")
        process = self.start()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.train("--resume")
        found = self.assert_same_as_metrics()
        self.assertEqual([step for step, _ in found["val/loss"]], [1, 2, 3])

    def test_the_folder_is_moved_with_its_run_unless_it_holds_other_files(self):
        self.train()
        first = [path.name for path in self.files()]
        self.train()
        moved = self.folder / "runs" / "tiny.1" / "tensorboard"
        self.assertEqual([path.name for path in moved.iterdir()], first)
        for name in ("notes.txt", "events.out.tfevents.1700000000.host.1.0.v2"):
            (self.events / name).write_text("mine")
            self.assert_error(self.train(code=2), 2, f"heed did not make {(self.events / name).resolve()}")
            self.assertEqual((self.events / name).read_text(), "mine")
            (self.events / name).unlink()

    def test_files_of_others_are_not_touched(self):
        other = self.events / "events.out.tfevents.1700000000.host.1.0"
        self.events.mkdir(parents=True)
        other.write_text("mine")
        self.train()
        self.assertEqual(other.read_text(), "mine")
        self.assertEqual(len(self.files()), 2)

    def test_a_file_or_link_of_that_name_is_refused(self):
        for make in (lambda: self.events.write_text("mine"), lambda: self.events.symlink_to(self.folder)):
            self.run_dir.mkdir(parents=True, exist_ok=True)
            make()
            result = self.run_heed("train", self.config, "tensorboard=true")
            self.assert_error(result, 4, "train.tensorboard", str(self.events), "is not a folder")
            self.assertFalse((self.run_dir / "metrics.csv").exists())
            self.events.unlink()

    def test_a_disk_that_fills_up(self):
        """The run is saved, and goes on with all its steps."""
        keys = ("steps=1000000", "eval_interval=1000000", "d_model=8", "log_interval=1")
        command = [HEED, "train", str(self.config), "tensorboard=true", *keys]
        limited = subprocess.run(["bash", "-c", 'ulimit -f 100; exec "$0" "$@"', *command], cwd=self.folder,
                                 capture_output=True, text=True, timeout=120)
        self.assert_error(limited, 4, str(self.files()[0]), "File too large; the run is saved at step")
        summary = self.summary()
        self.assertEqual(summary["status"], "failed")
        self.train(*keys, "--resume", f"stop_after={summary['steps'] + 3}")
        steps = [step for step, _ in event_file.scalars(self.events)["train/loss"]]
        self.assertEqual(steps[-3:], [summary["steps"] + i for i in (1, 2, 3)])
        self.assertEqual(len(set(steps)), len(steps))


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    unittest.main()
