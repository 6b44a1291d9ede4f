"""Saved models: the same bits after a round trip, and a clear refusal of anything else."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from models.config import paper
from models.ensemble.local import LocalEnsemble, train_local_ensemble
from models.errors import ArtifactError, ConfigError
from models.model import RecourseModel
from models.networks.velocity import PlainVelocity
from models.search.candidates import generate
from models.storage.artifact import (
    ANCHORS_FILE,
    ENCODER_FILE,
    MODEL_FILE,
    WEIGHTS_FILE,
    load_ensemble_of,
    load_model,
    save_model,
)
from models.storage.sealed import MANIFEST, check_seal, write_sealed
from models.training.train import train
from tests.models.tiny import TINY, Scorecards, Task, feasible_by_schema, other_class, random_model


def assert_same_answers(one: RecourseModel, other: RecourseModel, task: Task) -> None:
    feasible = feasible_by_schema(task.encoder, task.test.records)
    target = other_class(task.test.labels, len(one.classes))
    if True:
        first, second = (generate(model, target, feasible, 9, seed=2) for model in (one, other))
        assert (first.cost > 0).any()
        for mine, theirs in zip(first.parts, second.parts, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.fixture(scope="module")
def ensemble(loans_task: Task) -> LocalEnsemble:
    training = loans_task.training
    return train_local_ensemble(loans_task.encoder, training.records, training.labels, members=("knn", "xgboost"))


@pytest.fixture
def saved(tmp_path: Path, tiny_model: RecourseModel) -> Path:
    save_model(tiny_model, tmp_path / "model")
    return tmp_path / "model"


def test_everything_comes_back(saved: Path, tiny_model: RecourseModel, loans_task: Task) -> None:
    random_state = torch.random.get_rng_state()
    loaded = load_model(saved)
    assert torch.equal(torch.random.get_rng_state(), random_state)
    assert loaded.config == tiny_model.config
    assert loaded.encoder.schema == tiny_model.encoder.schema
    assert loaded.frontier == tiny_model.frontier and len(loaded.frontier) > 0
    assert loaded.density_quantiles == tiny_model.density_quantiles and all(
        len(scores) == 101 for scores in loaded.density_quantiles
    )
    assert (loaded.seed, loaded.queries, loaded.generated_features) == (
        6,
        tiny_model.queries,
        tiny_model.generated_features,
    )
    assert loaded.calibration.slope == tiny_model.calibration.slope
    np.testing.assert_array_equal(loaded.calibration.bias, tiny_model.calibration.bias)
    assert not loaded.pair.training
    assert_same_answers(loaded, tiny_model, loans_task)


def test_the_paper_preset_keeps_its_spectral_norms(tmp_path: Path, blobs_task: Task) -> None:
    config = paper()
    short = replace(
        config,
        surrogate=replace(config.surrogate, width=16),
        flow=replace(config.flow, width=16),
        generator=replace(config.generator, epochs=1),
        distill=replace(config.distill, rounds=1, queries=4, surrogate_steps=1, generator_steps=1),
    )
    task = blobs_task
    model = train(task, Scorecards(task.encoder), short)
    save_model(model, tmp_path / "paper")
    loaded = load_model(tmp_path / "paper")
    weights, again = model.pair.state_dict(), loaded.pair.state_dict()
    assert any(name.endswith("_u") for name in weights)
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert_same_answers(loaded, model, task)


def test_the_hash_is_that_of_the_content(tmp_path: Path, saved: Path, tiny_model: RecourseModel) -> None:
    content_hash = save_model(tiny_model, tmp_path / "again")
    assert content_hash == check_seal(saved)
    assert save_model(load_model(saved), tmp_path / "third") == content_hash
    assert save_model(replace(tiny_model, seed=7), tmp_path / "other") != content_hash


def test_nothing_but_json_and_safetensors(saved: Path) -> None:
    names = sorted(path.name for path in saved.iterdir())
    assert names == sorted([ANCHORS_FILE, ENCODER_FILE, MODEL_FILE, WEIGHTS_FILE, MANIFEST])


def test_the_ensemble_goes_along(
    tmp_path: Path, tiny_model: RecourseModel, ensemble: LocalEnsemble, loans_task: Task
) -> None:
    save_model(tiny_model, tmp_path / "both", ensemble)
    records = loans_task.test.records
    loaded = load_ensemble_of(tmp_path / "both")
    assert loaded.member_names == ensemble.member_names
    np.testing.assert_array_equal(loaded.predict_proba(records), ensemble.predict_proba(records))
    assert_same_answers(load_model(tmp_path / "both"), tiny_model, loans_task)
    file = next(path for path in (tmp_path / "both" / "ensemble" / "knn").iterdir() if path.is_file())
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match=r"The file 'ensemble/knn/.*' of .* is damaged"):
        load_ensemble_of(tmp_path / "both")


def test_a_model_without_an_ensemble_says_so(saved: Path) -> None:
    with pytest.raises(ArtifactError, match="was saved without an ensemble"):
        load_ensemble_of(saved)


def test_the_ensemble_of_another_label_is_refused(tmp_path: Path, blobs_task: Task, ensemble: LocalEnsemble) -> None:
    with pytest.raises(ArtifactError, match="its ensemble"):
        save_model(random_model(blobs_task.encoder, TINY), tmp_path / "mixed", ensemble)
    assert not (tmp_path / "mixed").exists()


def test_weights_that_diverged_are_not_saved(tmp_path: Path, blobs_task: Task) -> None:
    model = random_model(blobs_task.encoder, TINY)
    with torch.no_grad():
        model.velocity.out.weight[0] = torch.nan
    with pytest.raises(ArtifactError, match=r"'velocity.out.weight' are not finite: training diverged"):
        save_model(model, tmp_path / "diverged")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_model_is_refused(saved: Path) -> None:
    (saved / WEIGHTS_FILE).write_bytes((saved / WEIGHTS_FILE).read_bytes()[:-8] + bytes(8))
    with pytest.raises(ArtifactError, match=r"The file 'weights.safetensors' of .* is damaged"):
        load_model(saved)


def test_a_device_that_is_not_there(saved: Path) -> None:
    with pytest.raises(ConfigError, match="CUDA cards on this machine; use cpu"):
        load_model(saved, device="cuda:63")
    with pytest.raises(ConfigError, match="device is 'gpu'"):
        load_model(saved, device="gpu")


def edited(file: str, change: Callable[[Any], object]) -> Callable[[Path], None]:
    """Edits one JSON file in place."""

    def edit(folder: Path) -> None:
        document = json.loads((folder / file).read_text())
        change(document)
        (folder / file).write_text(json.dumps(document))

    return edit


def foreign_anchors(folder: Path) -> None:
    save_file({"points": torch.zeros(2, 1), "labels": torch.zeros(2, dtype=torch.long)}, folder / ANCHORS_FILE)


def lose_a_weight(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS_FILE)
    del weights["velocity.out.weight"]
    save_file(weights, folder / WEIGHTS_FILE)


def cut_a_weight(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS_FILE)
    save_file(weights | {"velocity.out.weight": weights["velocity.out.weight"][:-1].clone()}, folder / WEIGHTS_FILE)


def reseal(saved: Path, folder: Path, edit: Callable[[Path], None]) -> None:
    """A copy with an edit, sealed again."""

    def copy_and_edit(target: Path) -> None:
        for name in (ANCHORS_FILE, ENCODER_FILE, MODEL_FILE, WEIGHTS_FILE):
            (target / name).write_bytes((saved / name).read_bytes())
        edit(target)

    write_sealed(folder, copy_and_edit)


def test_a_model_from_before_formats_is_read_as_the_first(tmp_path: Path, saved: Path) -> None:
    reseal(saved, tmp_path / "old", edited(MODEL_FILE, lambda d: d.pop("config_format")))
    assert load_model(tmp_path / "old").config == load_model(saved).config


def test_a_model_of_the_first_format_answers_as_it_did(tmp_path: Path, loans_task: Task) -> None:
    """It has the plain field, and its settings do not name it."""
    config = replace(TINY, flow=replace(TINY.flow, context=None))
    model = random_model(loans_task.encoder, config)
    save_model(model, tmp_path / "new")

    def forget(document: dict[str, Any]) -> None:
        del document["config_format"], document["config"]["flow"]["context"]

    reseal(tmp_path / "new", tmp_path / "old", edited(MODEL_FILE, forget))
    loaded = load_model(tmp_path / "old")
    assert isinstance(loaded.velocity, PlainVelocity)
    assert_same_answers(loaded, model, loans_task)


def test_a_model_from_before_typicality_says_nothing_of_it(tmp_path: Path, saved: Path) -> None:
    reseal(saved, tmp_path / "old", edited(MODEL_FILE, lambda d: d.pop("density_quantiles")))
    assert load_model(tmp_path / "old").density_quantiles == ()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (edited(MODEL_FILE, lambda d: d.pop("config")), "cannot be read: Expected the configuration to be an object"),
        (edited(MODEL_FILE, lambda d: d["config"]["flow"].pop("steps")), r"lacks the setting 'flow\.steps'"),
        (edited(MODEL_FILE, lambda d: d["config"]["flow"].update(steps=0)), r"flow\.steps is 0"),
        (edited(MODEL_FILE, lambda d: d["config"].update(speed=2)), "has the unknown setting 'speed': use the"),
        (edited(MODEL_FILE, lambda d: d.update(config_format=99)), "has the format 99, and this recourse reads up to"),
        (edited(MODEL_FILE, lambda d: d["config"]["flow"].update(width=32)), "do not fit the model's settings"),
        (edited(MODEL_FILE, lambda d: d.update(seed=1.5)), "Expected 'seed' to be a whole number, not 1.5"),
        (edited(MODEL_FILE, lambda d: d.update(queries="few")), "Expected 'queries' to be a whole number, not 'few'"),
        (
            edited(MODEL_FILE, lambda d: d["generated_features"].append("shoe size")),
            "'shoe size' is generated but is no feature",
        ),
        (edited(MODEL_FILE, lambda d: d["calibration"].update(bias=[0.0])), "to be a list of 2 numbers"),
        (edited(MODEL_FILE, lambda d: d["calibration"].update(slope="steep")), "Expected 'slope' of the calibration"),
        (edited(MODEL_FILE, lambda d: d.update(frontier=None)), "Expected 'frontier' to be a list, not None"),
        (edited(MODEL_FILE, lambda d: d["frontier"][0].pop("cost")), "Expected 'cost' of a point of the frontier"),
        (
            edited(MODEL_FILE, lambda d: d["density_quantiles"].pop()),
            "'density_quantiles' to hold a list of rising numbers",
        ),
        (
            edited(MODEL_FILE, lambda d: d["density_quantiles"][0].reverse()),
            "'density_quantiles' to hold a list of rising numbers",
        ),
        (
            edited(MODEL_FILE, lambda d: d.update(density_quantiles=[None, "x"])),
            "'density_quantiles' to hold a list of rising",
        ),
        (edited(ENCODER_FILE, lambda d: d.update(version=9)), "The encoder is of version 9"),
        (edited(ENCODER_FILE, lambda d: d["schema"].update(label=3)), "Expected 'label' of the schema to be text"),
        (lambda folder: (folder / MODEL_FILE).write_text("[]"), "does not hold a JSON object"),
        (lambda folder: (folder / MODEL_FILE).unlink(), r"model\.json' is missing"),
        (lambda folder: (folder / WEIGHTS_FILE).write_bytes(b"pickle"), "do not fit the model's settings"),
        (lambda folder: (folder / WEIGHTS_FILE).unlink(), "are missing or do not fit"),
        (lambda folder: (folder / ANCHORS_FILE).unlink(), "anchors .* are missing or damaged"),
        (foreign_anchors, "anchors .* do not fit the model's encoder"),
        (lose_a_weight, "do not fit the model's settings"),
        (cut_a_weight, "do not fit the model's settings"),
    ],
)
def test_a_sealed_folder_with_the_wrong_content_is_refused(
    tmp_path: Path, saved: Path, edit: Callable[[Path], None], message: str
) -> None:
    """The seal holds, for somebody sealed it again; what is inside is not a model."""
    reseal(saved, tmp_path / "wrong", edit)
    with pytest.raises(ArtifactError, match=message) as caught:
        load_model(tmp_path / "wrong")
    assert "\n" not in str(caught.value)
