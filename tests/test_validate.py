"""`validate_method`: good methods pass, and every way of being wrong is caught and said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.registries import forgotten_afterwards

from harness import LayerSchedule, load_method, validate_method
from harness.backbone.tiny import LOOPED_KINDS, TINY_KINDS
from harness.errors import UsageError
from harness.method.forms import parameter_forms
from harness.registry import METHODS, load_plugin

PLUGINS = Path(__file__).parent / "plugins"

# what a person must be able to read in the failures
CAUGHT = {
    "wrong_hole": "opens a hole in the cache: layers(2) runs layer 0",
    "wrong_late_hole": "layers(41) runs layer",
    "wrong_prompt_hole": "layers(1) runs layer 2",
    "wrong_counter": "changes itself between runs",
    "wrong_list_field": "changes itself between runs",
    "wrong_batch_mates": "depends on its batch mates",
    "wrong_claim": "claims layers that it does not run",
    "wrong_trace": "claims layers that it did not run",
    "wrong_twice": "returned a layer twice: [0, 1, 1, 7]",
    "wrong_range": "returned layer 8, but the model has layers 0 to 7",
    "wrong_negative": "returned layer -1",
    "wrong_second_call": "second identical call differs",
    "wrong_random": "claims layers that it does not run",
    "wrong_in_place": "differs from the no-cache oracle",
    "wrong_model_patch": "leaves the model changed: attribute",
    "wrong_raises": "KeyError: 3 (wrong_methods.py, line",
    "wrong_exit_raises": "object has no attribute 'entropy' (wrong_methods.py, line",
    "wrong_system_exit": "SystemExit: 3",
    "wrong_floats": "must return layer indices, not [0.0, 4.0, 7]",
    "wrong_none": "must return layer indices, not None",
    "wrong_empty": "returned no layer",
    "wrong_shape": "must return a bool tensor of shape [3], not torch.bool []",
    "wrong_dtype": "must return a bool tensor of shape [3], not torch.float64 [3]",
    "wrong_parameter": "wrong_parameter: give depth",
    "wrong_post_init": "KeyError: 'layers'",
    "wrong_for_target": "ZeroDivisionError",
    "wrong_policy": "unknown kv_policy",
    "wrong_class": "must be a frozen dataclass",
    "wrong_guess": "guess must return token ids below 31",
    "wrong_draft": "draft_layers() returned layer 8, but the model has layers 0 to 7",
    "wrong_draft_policy": "unknown kv_policy of method 'wrong_draft_policy': 'propagate'; choose from: closed",
    "wrong_draft_memory": "it changes itself between runs",
    "wrong_head": "reads the head without counting it: the head was called",
    "wrong_recipe": "cannot be trained: recipe(300): a plan to train under names layer 99",
    "wrong_recipe_late": "cannot be trained: recipe(300): a plan to train under names layer 99",
    "wrong_recipe_raises": "cannot be trained: recipe(300): RuntimeError: nothing to train",
    "wrong_recipe_range": "cannot be trained: recipe(300): TypeError: Object of type range",
    "wrong_late_mates": "a row depends on its batch mates",
    "wrong_on_five_layers": "layers(3) runs layer 0",
    "wrong_signature": "the engine calls layers(self, step), this is layers(self)",
    "wrong_exit_signature": "the engine calls should_exit(self, layer, state), this is should_exit(self, state)",
    "wrong_target_signature": "calls for_target(cls, num_layers, target, lengths), this is for_target(num_layers)",
}

EVERY_OTHER = '''
from dataclasses import dataclass
from harness import LayerSchedule, register_method

@register_method("every_other")
@dataclass(frozen=True)
class EveryOther(LayerSchedule):
    """Every second layer, at every step."""
    def layers(self, step: int) -> list[int]:        # step counts from 1; the prompt runs every layer
        return list(range(0, self.num_layers, 2))
'''


@pytest.fixture(scope="module")
def wrong_methods():
    with forgotten_afterwards():
        yield load_plugin(PLUGINS / "wrong_methods.py")


def test_every_wrong_method_has_its_line(wrong_methods):
    assert sorted(wrong_methods) == sorted(CAUGHT)


@pytest.mark.parametrize("name", CAUGHT)
def test_wrong_methods_are_caught(wrong_methods, name):
    report = validate_method(name)
    assert not report.ok
    assert CAUGHT[name] in "\n".join(report.failures)
    assert str(report).startswith(f"{name}: broken\n- ")
    assert all(len(failure.splitlines()) == 1 for failure in report.failures)


def test_a_plugin_of_ten_lines_passes(tmp_path):
    (tmp_path / "every_other.py").write_text(EVERY_OTHER)
    with forgotten_afterwards():
        load_plugin(tmp_path / "every_other.py")
        report = validate_method("every_other")
        assert report.ok and report.failures == []
        assert report.checked == [f"tiny-{kind}" for kind in TINY_KINDS]


def test_a_class_that_was_never_registered(tmp_path):
    class Loose(LayerSchedule):
        def layers(self, step):
            return [0.5]

    assert "layers(1) must return layer indices" in validate_method(Loose).failures[0]
    assert "must be a frozen dataclass" in validate_method(int).failures[0]
    assert "must be a frozen dataclass" in validate_method(load_method("full", 4)).failures[0]

    class NoPrompt(Loose):
        def prompt_layers(self):
            return None

        def layers(self, step):
            return [0]

    assert "prompt_layers() must return layer indices, not None" in validate_method(NoPrompt).failures[0]


def test_unknown_and_broken_names(tmp_path):
    with pytest.raises(UsageError, match="did you mean skipdecode"):
        validate_method("skipdecoder")
    with forgotten_afterwards():
        METHODS.broken["gone"] = "ImportError: no module"
        assert "ImportError: no module" in validate_method("gone").failures[0]


@pytest.fixture(scope="module")
def right_methods():
    with forgotten_afterwards():
        yield load_plugin(PLUGINS / "right_methods.py")


RIGHT = {
    "right_required:keep=3": "tiny-llama keep=3",
    "right_value_error": "tiny-qwen2",
    "right_deep": "tiny-llama with 12 layers",
    "right_very_deep_pipeline": "tiny-looped_opt with 24 layers",
    "right_whole_number": "tiny-opt patience=4",
    "right_cached": "tiny-llama target=2.0",
}


@pytest.mark.parametrize("text", RIGHT)
def test_right_methods_pass(right_methods, text):
    report = validate_method(text)
    assert report.ok, report
    assert RIGHT[text] in report.checked


def test_parameters_are_given_by_name_or_as_keywords(right_methods):
    assert "give keep" in validate_method("right_required").failures[0]
    report = validate_method(METHODS.load("right_required"), keep=5)
    assert report.ok and all(run.endswith(" keep=5") for run in report.checked)
    assert "keep must lie in" in validate_method("right_required:keep=99").failures[0]
    with pytest.raises(UsageError, match="unknown parameter of right_required 'kep'; did you mean keep"):
        validate_method("right_required:kep=5")
    with pytest.raises(UsageError, match="keep='five'"):
        validate_method("right_required:keep=five")
    with pytest.raises(UsageError, match="leave out model"):
        validate_method("right_required:keep=5:model=nano-opt")


def test_given_parameters_are_part_of_every_form_and_not_varied():
    calm, multi_layer = METHODS.load("calm"), METHODS.load("multi_layer")
    forms = parameter_forms(calm, {"confidence": "softmax"})
    assert len(forms) == len(parameter_forms(calm)) - 2  # the two other confidences
    assert all(form["confidence"] == "softmax" for form in forms)
    assert {form["threshold"] for form in parameter_forms(calm, {"threshold": 0.3})} == {0.3}
    assert parameter_forms(multi_layer, {"exit_layers": 3}) == [{"exit_layers": 3}]


def test_a_failure_says_where_it_was_seen_and_what_to_do(wrong_methods):
    (failure,) = validate_method("wrong_hole").failures
    assert failure.endswith("[in every run made: tiny-llama, tiny-qwen2]")
    assert 'set kv_policy: ClassVar[str] = "propagate"' in failure
    (failure,) = validate_method("wrong_on_five_layers").failures
    assert failure.endswith("[in tiny-qwen2, tiny-opt_projected, not in tiny-llama, tiny-opt]")


LONG = ("full", "multi_layer", "random_skip", "oracle_exit", "self_speculative")
SLOW = [pytest.param(name, marks=pytest.mark.long) for name in LONG]


# T09
@pytest.mark.parametrize("name", ["skipdecode", "calm", "unified", *SLOW])
def test_built_in_methods_pass(name):
    report = validate_method(name)
    assert report.ok, report
    assert len(report.checked) >= len(TINY_KINDS)


def test_a_pipeline_is_validated_on_looped_models_and_says_how_it_does_in_low_precision():
    report = validate_method("speed")
    assert report.ok, report
    assert report.checked == [f"tiny-{kind}" for kind in LOOPED_KINDS]
    assert [note.split(",")[0].strip() for note in report.notes] == ["float32", "bfloat16"]
    assert "beside greedy decoding" in report.notes[0] and "outputs equal" in str(report).splitlines()[-1]


# T08
def test_how_often_a_batch_in_low_precision_agrees_with_its_rows_alone_is_said():
    notes = validate_method("multi_layer:exit_layers=2").notes
    assert [note.split(":")[0].strip() for note in notes] == [
        f"{dtype}, beside each row alone" for dtype in ("float32", "bfloat16")
    ]
    equal, rows = map(int, re.search(r"(\d+) of (\d+) outputs equal", notes[0]).groups())
    assert rows == len(TINY_KINDS) * 4 and 0 < equal <= rows
