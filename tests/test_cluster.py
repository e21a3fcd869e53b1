"""The Ray executor: the same results as in one process. Ray itself is an extra; without it these tests say so."""

import sys

import pytest

from harness import read_results, run_suite
from harness.errors import UsageError
from harness.executors import prepare
from harness.executors.cluster import stages
from harness.jobs.identity import job_id
from harness.jobs.planning import FloorJob, QualityJob, TimingJob, make_jobs
from harness.results import verify

OPTIONS = {"task": "e2e", "method": "full,unified"}


def test_what_the_others_share_is_made_first_and_timing_is_alone():
    jobs = {job_id(job): job for job in make_jobs(prepare("smoke", task="e2e,cnn_dm"))}
    first, rest, *timed = list(stages(jobs))
    assert sorted(sum([first, rest, *timed], [])) == sorted(jobs)
    made = sorted((jobs[n].spec.task, jobs[n].spec.model, jobs[n].method) for n in first)
    models = [("cnn_dm", "nano-opt"), ("e2e", "nano-looped-opt"), ("e2e", "nano-opt")]
    assert made == [(task, model, "full") for task, model in models]
    assert {type(jobs[name]) for name in rest} == {QualityJob, FloorJob}
    assert [[type(jobs[name]) for name in stage] for stage in timed] == [[TimingJob]] * 4


def test_without_ray_one_line_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="pip install ray"):
        run_suite("smoke", tmp_path, executor="ray", **OPTIONS)


@pytest.mark.long
def test_a_cluster_gives_the_results_of_one_process(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed (pip install ray)")
    monkeypatch.setenv("SKIPBENCH_CHECKPOINTS", str(tmp_path / "checkpoints"))
    plugin = tmp_path / "stops.py"
    plugin.write_text(
        "from dataclasses import dataclass\nfrom harness import LayerSchedule, register_method\n\n"
        "@register_method('stops')\n@dataclass(frozen=True)\nclass Stops(LayerSchedule):\n"
        "    '''Every layer.'''\n    def layers(self, step):\n        return list(range(self.num_layers))\n"
    )
    options = {**OPTIONS, "method": "full,unified,stops", "plugin": plugin}
    roots = [run_suite("smoke", tmp_path / name, executor=name, **options) for name in ("ray", "local")]
    ours, theirs = (read_results(root) for root in roots)
    ours_by, theirs_by = (
        f[f.metric.isin(["e2e_bleu", "loss"])].set_index(["run_id", "metric"]).value for f in (ours, theirs)
    )
    assert len(ours_by) == len(theirs_by) >= 6
    assert (ours_by - theirs_by).abs().max() < 1e-6
    assert verify(roots[0]).ok and "speedup_wall" in set(ours.metric)
