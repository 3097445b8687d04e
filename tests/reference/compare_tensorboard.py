"""What TensorBoard itself reads from runs with train.tensorboard, compared with their metrics.csv and config.

    compare_tensorboard.py FOLDER     a run folder, or any folder with run folders below; needs the package tensorboard

Each run is read three times: by EventAccumulator, by TensorBoard's reader in Python, and by its data server, the default.
"""

import csv
import json
import pathlib
import sys
import time

import numpy as np
from tensorboard import context
from tensorboard.backend.event_processing import data_provider, event_accumulator, plugin_event_multiplexer
from tensorboard.data import provider, server_ingester
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups
from tensorboard.util import grpc_util

COLUMNS = {"train/loss": "train_loss", "train/learning_rate": "learning_rate", "train/grad_norm": "grad_norm",
           "train/tokens_per_s": "tokens_per_s", "val/loss": "val_loss"}  # fmt: skip
EVERYTHING = 10**7


def check_points(found, run_dir):
    """found: tag -> list of (step, value). Returns the number of points."""
    rows = list(csv.DictReader((run_dir / "metrics.csv").read_text().splitlines()))
    for tag, column in COLUMNS.items():
        expected = [(int(row["step"]), np.float32(row[column])) for row in rows if row[column]]
        points = [(step, np.float32(value)) for step, value in found.get(tag, [])]
        assert [step for step, _ in points] == [step for step, _ in expected], (run_dir, tag, points[:3])
        assert np.allclose([v for _, v in points], [v for _, v in expected], rtol=1e-6, atol=0), (run_dir, tag)
    extra = {tag: [step for step, _ in found[tag]] for tag in set(found) - set(COLUMNS)}
    assert all(tag == "val/excess" and steps == [s for s, _ in found["val/loss"]] for tag, steps in extra.items()), extra
    return sum(map(len, found.values()))


def by_accumulator(folder):
    reader = event_accumulator.EventAccumulator(str(folder), event_accumulator.STORE_EVERYTHING_SIZE_GUIDANCE)
    reader.Reload()
    return {tag: [(e.step, e.value) for e in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def providers(root):
    multiplexer = plugin_event_multiplexer.EventMultiplexer(tensor_size_guidance={"scalars": EVERYTHING})
    multiplexer.AddRunsFromDirectory(str(root)).Reload()
    yield "Python", data_provider.MultiplexerDataProvider(multiplexer, str(root))
    server = server_ingester.SubprocessServerDataIngester(
        server_ingester.get_server_binary(), str(root), reload_interval=0, samples_per_plugin={"scalars": 0},
        channel_creds_type=grpc_util.ChannelCredsType.LOCAL)  # fmt: skip
    server.start()
    time.sleep(3)  # it answers also while it still reads
    yield "data server", server.data_provider


def hparams_of(source):
    """Run -> (hyperparameters, status, metrics), as the hparams dashboard shows them; and what differs between runs."""
    request = api_pb2.ListSessionGroupsRequest(
        allowed_statuses=list(api_pb2.Status.values()), slice_size=EVERYTHING, include_metrics=True)  # fmt: skip
    backend = backend_context.Context(base_plugin.TBContext(data_provider=source))
    ctx = context.RequestContext()
    groups = list_session_groups.Handler(ctx, backend, "", request).run().session_groups
    shown = {}
    for group in groups:
        values = {key: getattr(value, value.WhichOneof("kind")) for key, value in group.hparams.items()}
        metrics = {metric.name.tag: metric.value for metric in group.metric_values}
        shown[group.name] = values, api_pb2.Status.Name(group.sessions[0].status), metrics
    contents = backend.hparams_metadata(ctx, "")
    experiment = backend.experiment_from_metadata(ctx, "", True, contents, provider.ListHyperparametersResult([], []))
    return shown, [info.name for info in experiment.hparam_infos if info.differs]


def main(root):
    runs = sorted(path.parent for path in root.rglob("tensorboard") if path.is_dir())
    for run_dir in runs:
        print(f"{run_dir}: EventAccumulator reads {check_points(by_accumulator(run_dir / 'tensorboard'), run_dir)} points")
    for name, source in providers(root):
        ctx = context.RequestContext()
        scalars = source.read_scalars(ctx, experiment_id="", plugin_name="scalars", downsample=EVERYTHING)
        shown, differing = hparams_of(source)
        assert len(scalars) == len(shown) == len(runs), (scalars.keys(), shown.keys(), runs)
        for run_dir in runs:
            run = str((run_dir / "tensorboard").relative_to(root))
            points = {tag: [(p.step, p.value) for p in series] for tag, series in scalars[run].items()}
            hparams, status, metrics = shown[run]
            summary = json.loads((run_dir / "summary.json").read_text())
            assert hparams["model.num_heads"] == summary["config"]["model"]["num_heads"], hparams
            print(f"{name}: {run}: {check_points(points, run_dir)} points, {len(hparams)} hyperparameters, {status}, "
                  f"val/loss {metrics['val/loss']:.6f}")  # fmt: skip
        print(f"{name}: differing hyperparameters: {differing}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
