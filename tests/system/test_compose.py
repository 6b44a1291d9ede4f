"""docker-compose.yml and docker/: valid, in step with the code, and safe as they are, without an engine to run them."""

import copy
import json
import re
import shutil
import stat
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from app.settings import Settings
from tests.system import compose
from tests.system.compose import PROJECT

OURS = {"migrate": "api", "api": "api", "worker": "worker", "worker-gpu": "worker"}
"""Our services, and the target of the Dockerfile that each is built from."""
DOCKERFILE = (PROJECT / "docker" / "Dockerfile").read_text(encoding="utf-8")
SECRETS = dict.fromkeys(compose.required_variables(), "0123456789abcdef")


def specification() -> dict[str, Any]:
    """The Compose specification's schema, as the package check-jsonschema carries it."""
    path = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def stage(target: str) -> str:
    """The lines of one stage of the Dockerfile."""
    _, _, rest = DOCKERFILE.partition(f" AS {target}\n")
    assert rest, f"there is no target {target}"
    return rest.partition("\nFROM ")[0]


def test_the_file_follows_the_specification() -> None:
    jsonschema.validate(compose.document(), specification())
    wrong = copy.deepcopy(compose.document())
    wrong["services"]["api"]["healthchek"] = {}
    with pytest.raises(jsonschema.ValidationError, match="healthchek"):
        jsonschema.validate(wrong, specification())


@pytest.mark.parametrize("name", compose.services())
def test_every_container_has_little_to_lose(name: str) -> None:
    service = compose.services()[name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and "privileged" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    user = service.get("user") or re.findall(r"^USER (\S+)$", stage(OURS[name]), re.MULTILINE)[0]
    assert user in ("postgres", "redis", "10001:10001")
    assert ("ports" in service) == (name == "api"), "and workers have no fixed port, so that they scale"
    assert ("healthcheck" in service) == (name != "migrate")


def test_only_the_loopback_is_published_unless_the_operator_says_so() -> None:
    [port] = compose.services()["api"]["ports"]
    assert compose.fill_in(port, {}) == "127.0.0.1:8000:8000"
    assert compose.document()["networks"]["inside"] == {"internal": True}
    assert {name for name, service in compose.services().items() if "outside" not in service["networks"]} == {
        "postgres",
        "redis",
        "migrate",
    }


def test_images_are_pinned_to_a_release() -> None:
    bases = re.findall(r"^(?:ARG PYTHON_IMAGE=|FROM )([^$\s]+:\S+)", DOCKERFILE, re.MULTILINE)
    foreign = [service["image"] for name, service in compose.services().items() if name not in OURS]
    assert len(bases) == 1 and len(foreign) == 2
    for image in (*bases, *foreign):
        assert re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?-[a-z-]+", image), image


@pytest.mark.parametrize("name", OURS)
def test_our_containers_are_what_the_dockerfile_makes(name: str) -> None:
    service, target = compose.services()[name], OURS[name]
    assert service["build"]["target"] == target
    assert (PROJECT / service["build"]["dockerfile"]).exists()
    if name != "migrate":
        words = ", ".join(f'"{word}"' for word in compose.command_of(name))
        assert f"\nCMD [{words}]" in stage(target)
        assert compose.health_command_of(name) == ["recourse", "health", target]


@pytest.mark.parametrize("name", OURS)
def test_the_environment_is_made_of_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = compose.environment_of(name, SECRETS)
    known = {f"RECOURSE_{field.upper()}" for field in Settings.model_fields} | {"TMPDIR"}
    assert environment.keys() <= known
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    settings = Settings()
    assert not settings.embedded and settings.database.startswith("postgresql://")
    for folder in (settings.var_dir, settings.artifacts_url):
        held = [*compose.services()[name].get("volumes", ()), *compose.services()[name]["tmpfs"]]
        assert name == "migrate" or any(str(folder) in place.split(":") for place in held), f"{folder} is read-only"


def test_the_api_finds_every_worker_under_one_name() -> None:
    listed = compose.services()
    port = listed["worker"]["environment"]["RECOURSE_EXPLAINER_PORT"]
    assert listed["api"]["environment"]["RECOURSE_EXPLAINER_URL"] == f"http://worker:{port}"
    assert all(place["aliases"] == ["worker"] for place in listed["worker-gpu"]["networks"].values())
    assert listed["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]
    assert listed["worker-gpu"]["profiles"] == ["gpu"]


def test_nothing_starts_before_what_it_needs() -> None:
    waits = {
        name: {needed: how["condition"] for needed, how in service.get("depends_on", {}).items()}
        for name, service in compose.services().items()
    }
    assert waits["migrate"] == {"postgres": "service_healthy"}
    for name in ("api", "worker", "worker-gpu"):
        assert waits[name] == {"migrate": "service_completed_successfully", "redis": "service_healthy"}


def test_what_must_last_is_in_named_volumes() -> None:
    named = compose.document()["volumes"]
    used = {place.partition(":")[0] for service in compose.services().values() for place in service.get("volumes", ())}
    assert used == named.keys() == {"postgres", "api", "artifacts"}


def test_the_api_image_has_no_torch() -> None:
    def listed(*groups: str) -> list[str]:
        command = [sys.executable, "docker/requirements.py", *groups]
        return subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True).stdout.split()

    assert "torch" in listed("worker") and "fastapi" in listed("worker")
    assert not {"torch", "scikit-learn", "xgboost"} & set(listed()) and "fastapi" in listed()
    assert "requirements.py worker" not in stage("plain") + stage("api-build") + stage("api")
    assert "COPY worker" not in stage("api-build")


def test_no_host_is_named() -> None:
    for path in (compose.COMPOSE, *(PROJECT / "docker").iterdir()):
        text = compose.fill_in(path.read_text(encoding="utf-8"), SECRETS)
        for host in re.findall(r"\w+://(?:[^\s@/]*@)?([\w.-]+)", text):
            assert host in ("postgres", "redis", "worker", "127.0.0.1"), f"{path.name} names {host}"


def test_secrets_are_made_once_and_there_are_no_others(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    script = shutil.copy(PROJECT / "docker" / "new_env.sh", tmp_path / "docker")
    subprocess.run(["sh", script], check=True, capture_output=True)
    made = tmp_path / ".env"
    lines = [line for line in made.read_text().splitlines() if not line.startswith("#")]
    values = dict(line.split("=", 1) for line in lines)
    assert values.keys() == compose.required_variables()
    assert len(set(values.values())) == 4 and all(re.fullmatch("[0-9a-f]{64}", value) for value in values.values())
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert subprocess.run(["sh", script], check=False, capture_output=True).returncode == 1
    with pytest.raises(KeyError, match=r"POSTGRES_PASSWORD is not set, run sh docker/new_env\.sh"):
        compose.environment_of("api", {})
