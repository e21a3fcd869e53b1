"""Suites: every mistake is one clear line, and names are the registry's."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
from helpers.registries import forgotten_afterwards

from harness import EarlyExit, load_method, register_method, run_suite
from harness.errors import UsageError
from harness.executors import prepare
from harness.jobs.identity import job_id
from harness.jobs.planning import FloorJob, QualityJob, TimingJob, make_jobs
from harness.jobs.preflight import check_jobs
from harness.jobs.quality_run import QualityRun
from harness.notation import parse_method, parse_target
from harness.suite import load_suite, suite_names


def _write(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return str(path)


GOOD = """
model: nano-opt
targets: [2]
methods: [full, {name: calm, params: {confidence: softmax}}]
training: {base_steps: 1, own_steps: 1, base_learning_rate: 0.001, own_learning_rate: 0.001}
timing: {batch_sizes: [1]}
tasks:
  - e2e
  - {task: "translation:de-en", targets: [3, 4], training: {base_steps: 7}}
"""


@pytest.mark.parametrize("name", suite_names())
def test_built_in_suites_are_valid(name):
    assert make_jobs(load_suite(name))


def test_task_entries_override_what_the_suite_shares(tmp_path):
    first, second = load_suite(_write(tmp_path, GOOD)).tasks
    assert (first.targets, second.targets) == ([2], [3, 4])
    assert (first.training.base_steps, second.training.base_steps, second.training.own_steps) == (1, 7, 1)


def test_a_method_asked_for_by_name_is_all_that_the_suite_has_of_it(tmp_path):
    path = _write(tmp_path, GOOD.replace("[full, ", "[full, calm, {name: unified, params: {selection: balanced}}, "))

    def asked(*methods: str) -> list[tuple[str, dict]]:
        entry = load_suite(path, {"task": ["e2e"], "method": list(methods)}).tasks[0]
        return [(method.name, method.params) for method in entry.methods]

    softmax = ("calm", {"confidence": "softmax"})
    assert asked("full", "calm") == [("full", {}), ("calm", {}), softmax]
    assert asked("unified", "calm:confidence=softmax") == [("unified", {"selection": "balanced"}), softmax]
    assert asked("calm:confidence=state") == [("calm", {"confidence": "state"})]


def test_jobs_are_one_a_target_and_a_timing_group_a_batch_size(tmp_path):
    jobs = make_jobs(load_suite(_write(tmp_path, GOOD)))
    quality = [(j.spec.task, j.method, j.target) for j in jobs if isinstance(j, QualityJob)]
    assert quality == [
        ("e2e", "full", None),
        ("e2e", "calm", 2),
        ("translation:de-en", "full", None),
        ("translation:de-en", "calm", 3),
        ("translation:de-en", "calm", 4),
    ]
    assert [len(j.members) for j in jobs if isinstance(j, TimingJob)] == [2, 3]


def test_what_is_named_twice_runs_and_is_timed_once(tmp_path):
    text = GOOD.replace("targets: [2]", "targets: [2, 2.0, 4]").replace("[full, ", "[full, unified, full, unified, ")
    jobs = make_jobs(prepare(_write(tmp_path, text), task="e2e"))
    ids = [job_id(job) for job in jobs]
    assert len(ids) == len(set(ids)), "each job has a place of its own"
    assert [len(j.members) for j in jobs if isinstance(j, TimingJob)] == [5]  # full, and two methods at two targets


def test_what_is_timed_has_its_baseline_asked_for_or_not(tmp_path):
    """`--method calm` trained for minutes, and then had nothing to form a ratio with."""
    jobs = make_jobs(prepare(_write(tmp_path, GOOD), task="e2e", method="unified"))
    quality = [job for job in jobs if isinstance(job, QualityJob)]
    assert [(job.method, job.target) for job in quality] == [("full", None), ("unified", 2)]
    assert [job.members for job in jobs if isinstance(job, TimingJob)] == [tuple(quality)]
    untimed = _write(tmp_path, GOOD.replace("batch_sizes: [1]", "batch_sizes: []"))
    jobs = make_jobs(prepare(untimed, task="e2e", method="unified"))
    assert [job.method for job in jobs if isinstance(job, QualityJob)] == ["unified"]


def test_sampling_with_a_method_that_guesses_is_refused_before_anything_runs(tmp_path):
    path = _write(tmp_path, GOOD + "decoding: {temperature: 0.7}\n")
    with pytest.raises(UsageError, match="'self_speculative' guesses .* so it cannot sample"):
        run_suite(path, tmp_path / "out", method="full,self_speculative")
    assert not (tmp_path / "out").exists()


def test_targets_may_stand_in_one_text_with_commas(tmp_path):
    path = _write(tmp_path, GOOD)
    assert (
        prepare(path, target="1.5,3x").tasks[0].targets == prepare(path, target=[1.5, 3]).tasks[0].targets == [1.5, 3]
    )
    with pytest.raises(UsageError, match="no target"):
        prepare(path, target=" , ")


def test_overrides_narrow_and_replace(tmp_path):
    path = _write(tmp_path, GOOD)
    suite = prepare(
        path, task="e2e", method="full,calm:confidence=state:tau=2", target=["4x", 2], model="mini-opt", limit=5
    )
    (spec,) = suite.tasks
    assert (spec.model, spec.targets, spec.limit) == ("mini-opt", [4, 2], 5)
    assert spec.methods[1].params == {"confidence": "state", "tau": 2}
    kept = prepare(path, method="calm").tasks[0].methods[0]
    assert kept.params == {"confidence": "softmax"}  # a bare name keeps the suite's own parameters
    other = prepare(path, task="cnn_dm").tasks[0]
    assert other.task == "cnn_dm" and other.targets == [2]


def test_parameters_that_fix_the_speed_take_no_target(tmp_path):
    suite = prepare(_write(tmp_path, GOOD), task="e2e", method="full,multi_layer:exit_layers=3,calm:threshold=0.5")
    assert [job.target for job in make_jobs(suite) if isinstance(job, QualityJob)] == [None, None, None]


def test_a_searched_parameter_that_is_given_is_not_searched(tmp_path):
    """It was replaced by what the search found, while the results named the value that was given."""

    @dataclass(frozen=True)
    class Sure(EarlyExit):
        bar: float = 0.9
        search: ClassVar = ("bar", 0.0, 1.0)

        def should_exit(self, layer, state):
            return state.logits().amax(-1) >= self.bar

    with forgotten_afterwards():
        register_method("sure")(Sure)
        suite = prepare(_write(tmp_path, GOOD), task="e2e", method="full,sure,sure:bar=0.5")
        targets = [(job.params, job.target) for job in make_jobs(suite) if isinstance(job, QualityJob)]
        assert targets == [((), None), ((), 2), ((("bar", 0.5),), None)]
        assert load_method("sure", 4, bar=0.5).bar == 0.5


def test_parse_method():
    assert parse_method("full") == {"name": "full", "params": {}}
    assert parse_method("skipdecode:min_layers=3:decay=power")["params"] == {"min_layers": 3, "decay": "power"}
    with pytest.raises(UsageError, match="name:key=value"):
        parse_method("skipdecode:min_layers")


@pytest.mark.parametrize("text", ["fast", "0.5x", "0", "-2", "1000x", "nan", "inf", ""])
def test_targets_that_mean_nothing(text):
    with pytest.raises(UsageError, match="a target speed-up is a number"):
        parse_target(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("full", "ful"), "unknown method 'ful'; did you mean full"),
        (("- e2e", "- e2ee"), "unknown task 'e2ee'; did you mean e2e"),
        (("translation:de-en", "translation:de-xx"), "unknown task 'translation:de-xx'"),
        (("targets: [2]", "targets: [0.5]"), "target speed-up is a number"),
        (("targets: [2]", "targets: [fast]"), "tasks.0.targets.0"),
        (("base_steps: 1,", "base_steps: 0,"), "tasks.0.training.base_steps"),
        (("base_steps: 1,", "basesteps: 1,"), "basesteps"),
        (("timing:", "timings:"), "timings: there is no such setting"),
        (("{confidence: softmax}", "{target: 2}"), "not as a parameter"),
        (("tasks:", "task:"), "must be a mapping with a list 'tasks'"),
        (("[full,", "[full"), "no valid YAML"),
        (("model: nano-opt\n", ""), "tasks.0.model: field required"),
        (("targets: [2]", "targets: [2]\ntargets: [3]"), "'targets' stands there twice"),
        (("targets: [2]", "targets: [.inf]"), "targets.0: input should be a finite number"),
        (("{base_steps: 7}", "null"), "tasks.1.training: input should be a valid dictionary"),
        (("[full, {name: calm, params: {confidence: softmax}}]", "[]"), "tasks.0.methods: .*at least 1 item"),
        (("timing:", "seeds: []\ntiming:"), "tasks.0.seeds: .*at least 1 item"),
        (("timing:", "checkpoints: []\ntiming:"), "tasks.0.checkpoints: .*at least 1 item"),
        (("batch_sizes: [1]", "batch_sizes: [0]"), "tasks.0.timing.batch_sizes.0"),
        (("timing:", "decoding: {device: gpu}\ntiming:"), "tasks.0.decoding.device"),
        (("tasks:", "name: ../elsewhere\ntasks:"), "name: string should match"),
        (("tasks:", "day: 2026-13-45\ntasks:"), "no valid YAML"),
        (("timing:", "limit: yes\ntiming:"), "tasks.0.limit: a number, not true"),
        (("targets: [2]", "targets: [on]"), "tasks.0.targets: a number, not .true."),
        (("timing:", "seeds: [true]\ntiming:"), "tasks.0.seeds: a number"),
        (("timing:", "seeds: [-1]\ntiming:"), "tasks.0.seeds.0: input should be greater than or equal to 0"),
        (("timing:", f"seeds: [{10**23}]\ntiming:"), "tasks.0.seeds.0: input should be less than"),
        (("model: nano-opt", "model: ''"), "tasks.0.model: string should have at least 1 character"),
        (("{confidence: softmax}}", "{confidence: softmax}, tuned: ''}"), "tuned: string should have at least 1"),
        (("tasks:", "day: !!timestamp soon\ntasks:"), "no valid YAML"),
    ],
)
def test_mistakes_in_a_suite_file_are_one_clear_line(tmp_path, change, message):
    path = _write(tmp_path, GOOD.replace(*change))
    with pytest.raises(UsageError, match=message) as caught:
        load_suite(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("methods", ["5", "null", "full", "{full: {}}", "[[full]]", "[null]", "[{}]"])
def test_a_method_asked_for_takes_the_place_of_whatever_the_suite_has(tmp_path, methods):
    path = _write(tmp_path, GOOD.replace("[full, {name: calm, params: {confidence: softmax}}]", methods))
    assert [method.name for method in prepare(path, method="calm").tasks[0].methods] == ["calm"]


@pytest.mark.parametrize("value", ["[", "{1: 2", "!!python/name:x", "!!bool x", "@x", "`", "\t"])
def test_values_on_the_command_line_that_are_no_yaml(value):
    with pytest.raises(UsageError, match="the value of a is no valid YAML") as caught:
        parse_method(f"full:a={value}")
    assert "\n" not in str(caught.value)


# T40
def test_a_plug_ins_name_and_parameters_are_checked_like_a_built_ins(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from harness import LayerSchedule, register_method\n"
        "@register_method('mine')\n"
        "@dataclass(frozen=True)\n"
        "class Mine(LayerSchedule):\n"
        "    depth: int = 2\n"
        "    def layers(self, step):\n"
        "        return range(self.depth)\n"
    )
    change = "{name: calm, params: {confidence: softmax}}", "{name: mine, params: {depth: 3}}"
    text = GOOD.replace(*change).replace("model: nano-opt", "model: nano-opt\ndata: stand-in")
    with forgotten_afterwards():
        with pytest.raises(UsageError, match="unknown method 'mine'"):
            prepare(_write(tmp_path, text))
        jobs = make_jobs(prepare(_write(tmp_path, text), plugin=tmp_path / "mine.py"))
        quality = [job for job in jobs if isinstance(job, QualityJob)]
        assert ("mine", (("depth", 3),), None) in [(job.method, job.params, job.target) for job in quality]
        check_jobs(quality)
        for wrong, message in (("depht: 3", "did you mean depth"), ("depth: deep", "parameter depth='deep'")):
            jobs = make_jobs(prepare(_write(tmp_path, text.replace("depth: 3", wrong))))
            with pytest.raises(UsageError, match=message):
                check_jobs(job for job in jobs if isinstance(job, QualityJob))


@pytest.mark.parametrize("option", ["model", "data"])
def test_an_empty_option_is_not_the_default(option):
    with pytest.raises(UsageError, match=f"--{option} is empty"):
        prepare("smoke", **{option: ""})


def test_unknown_suite():
    with pytest.raises(UsageError, match="unknown suite 'quik'; did you mean quick"):
        load_suite("quik")
    with pytest.raises(UsageError, match="unknown suite"):
        load_suite("no/such/file.yaml")


def test_a_model_made_here_needs_a_base(tmp_path):
    path = _write(tmp_path, GOOD.replace("base_steps: 1, ", "").replace(", training: {base_steps: 7}", ""))
    with pytest.raises(UsageError, match=r"'nano-opt' is made here.*training\.base_steps"):
        run_suite(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_not_there_is_said_before_anything_is_trained(tmp_path):
    path = _write(tmp_path, GOOD + "decoding: {device: 'cuda:7'}\n")
    with pytest.raises(UsageError, match="no device 'cuda:7'"):
        run_suite(path, tmp_path / "out", task="e2e", data="stand-in")


def test_training_examples_may_come_from_another_split(tmp_path):
    jobs = make_jobs(load_suite(_write(tmp_path, GOOD)))
    other = make_jobs(
        load_suite(_write(tmp_path, GOOD.replace("base_steps: 1, ", "base_steps: 1, split: validation, ")))
    )
    assert job_id(jobs[0]) != job_id(other[0])
    settings = [QualityRun(job[0], None).setting for job in (jobs, other)]
    assert [s.split for s in settings] == ["train", "validation"]
    with pytest.raises(UsageError, match="unknown split of e2e 'news'"):
        run_suite(_write(tmp_path, GOOD.replace("base_steps: 1, ", "base_steps: 1, split: news, ")), tmp_path / "out")


LOOPED = """
model: nano-opt
targets: []
training: {base_steps: 1, own_steps: 1, base_learning_rate: 0.001, own_learning_rate: 0.001}
timing: {batch_sizes: [1]}
methods: [full, calm, {name: speed, model: nano-looped-opt}]
tasks: [e2e, cnn_dm]
"""


def _jobs(suite):
    return [(s.task, s.model, [m.name for m in s.methods]) for s in suite.tasks]


def test_a_method_with_a_model_of_its_own_brings_its_baseline(tmp_path):
    path = _write(tmp_path, LOOPED)
    assert _jobs(load_suite(path)) == [
        ("e2e", "nano-opt", ["full", "calm"]),
        ("cnn_dm", "nano-opt", ["full", "calm"]),
        ("e2e", "nano-looped-opt", ["full", "speed"]),
        ("cnn_dm", "nano-looped-opt", ["full", "speed"]),
    ]
    jobs = make_jobs(load_suite(path))
    groups = [{member.spec.model for member in job.members} for job in jobs if isinstance(job, TimingJob)]
    assert all(len(models) == 1 for models in groups) and len(groups) == 4
    floors = [job.label for job in jobs if isinstance(job, FloorJob)]
    assert len(set(floors)) == len(floors)  # two models of one task share them


def test_what_is_asked_for_runs_on_one_model(tmp_path):
    path = _write(tmp_path, LOOPED)
    assert _jobs(prepare(path, task="e2e", method="full,speed")) == [("e2e", "nano-looped-opt", ["full", "speed"])]
    assert _jobs(prepare(path, task="e2e", method="speed")) == [("e2e", "nano-looped-opt", ["full", "speed"])]
    assert _jobs(prepare(path, task="e2e", model="gpt2")) == [("e2e", "gpt2", ["full", "calm"])]
    looped = prepare(path, task="e2e", model="looped-opt", method="full,speed,calm")
    assert _jobs(looped) == [("e2e", "looped-opt", ["full", "speed", "calm"])]
    named = prepare(path, task="e2e", method="full,speed:model=looped-llama")
    assert _jobs(named) == [("e2e", "looped-llama", ["full", "speed"])]


def test_a_pipeline_on_a_model_without_cycles_is_refused_before_anything_runs(tmp_path):
    suite = prepare(_write(tmp_path, LOOPED), task="e2e", method="speed", model="nano-opt", data="stand-in")
    jobs = [job for job in make_jobs(suite) if isinstance(job, QualityJob)]
    with pytest.raises(UsageError, match="model 'nano-opt' is not looped; give it a model of its own: speed:model="):
        check_jobs(jobs)
    with pytest.raises(UsageError, match="its model is a model's name, not 3"):
        load_suite(_write(tmp_path, LOOPED.replace("model: nano-looped-opt", "model: 3")))


def test_every_entry_of_a_task_is_taken():
    suite = prepare("speed-tiny", task="e2e")
    assert len(suite.tasks) == 5 == len({spec.model for spec in suite.tasks})
    assert {spec.task for spec in suite.tasks} == {"e2e"}
