"""docker-compose.yml and docker/: valid, in step with the code, and safe as they are, without an engine to run them."""

import copy
import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from app.settings import Settings
from tests.patience import BOUND, wait_until
from tests.servers.http import serving
from tests.servers.running import free_port
from tests.system import compose
from tests.system.compose import PROJECT

OURS = {"secrets": "api", "migrate": "api", "api": "api", "worker": "worker", "worker-gpu": "worker"}
"""Our services, and the target of the Dockerfile that each is built from."""
DOCKERFILE = (PROJECT / "docker" / "Dockerfile").read_text(encoding="utf-8")
ONCE = ("secrets", "migrate")
"""They do their work and end."""
SECRETS = "/var/lib/recourse-secrets"


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
    assert user in ("postgres", "redis", "nginx", "10001:10001")
    assert ("ports" in service) == (name == "proxy"), "and workers have no fixed port, so that they scale"
    assert ("healthcheck" in service) == (name not in ONCE)
    assert re.fullmatch(r"\d+[mg]", compose.fill_in(service["mem_limit"], {}))


def test_only_the_loopback_is_published_unless_the_operator_says_so() -> None:
    [port] = compose.services()["proxy"]["ports"]
    assert compose.fill_in(port, {}) == "127.0.0.1:8000:8000"
    assert compose.document()["networks"]["inside"] == {"internal": True}
    assert compose.services()["secrets"]["network_mode"] == "none"
    assert {name for name, service in compose.services().items() if "outside" not in service.get("networks", ())} == {
        "secrets",
        "postgres",
        "redis",
        "migrate",
    }


def test_images_are_pinned_to_a_release() -> None:
    bases = re.findall(r"^(?:ARG PYTHON_IMAGE=|FROM )([^$\s]+:\S+)", DOCKERFILE, re.MULTILINE)
    foreign = [service["image"] for name, service in compose.services().items() if name not in OURS]
    assert len(bases) == 1 and len(foreign) == 3
    for image in (*bases, *foreign):
        assert re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?-[a-z-]+(@sha256:[0-9a-f]{64})?", image), image


@pytest.mark.parametrize("name", OURS)
def test_our_containers_are_what_the_dockerfile_makes(name: str) -> None:
    service, target = compose.services()[name], OURS[name]
    assert service["build"]["target"] == target
    assert (PROJECT / service["build"]["dockerfile"]).exists()
    if name not in ONCE:
        words = ", ".join(f'"{word}"' for word in compose.command_of(name))
        assert f"\nCMD [{words}]" in stage(target)
        assert compose.health_command_of(name) == ["recourse", "health", target]


@pytest.mark.parametrize("name", sorted(OURS.keys() - {"secrets"}))
def test_the_environment_is_made_of_settings(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment = compose.environment_of(name, {})
    known = {f"RECOURSE_{field.upper()}" for field in Settings.model_fields}
    secret = {f"RECOURSE_{field}_FILE" for field in ("DATABASE_URL", "REDIS_URL", "KEY_SECRET", "WORKER_KEY")}
    assert secret <= environment.keys() <= known | secret | {"TMPDIR", "FORWARDED_ALLOW_IPS"}
    subprocess.run(made_secrets(tmp_path), cwd=PROJECT, env=os.environ, check=True, capture_output=True)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value.replace(SECRETS, str(tmp_path)))
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
    assert waits["postgres"] == waits["redis"] == {"secrets": "service_completed_successfully"}
    assert waits["migrate"] == {"postgres": "service_healthy"}
    assert waits["proxy"] == {"api": "service_healthy"}
    for name in ("api", "worker", "worker-gpu"):
        assert waits[name] == {"migrate": "service_completed_successfully", "redis": "service_healthy"}


def test_what_must_last_is_in_named_volumes() -> None:
    named = compose.document()["volumes"]
    places = [place for service in compose.services().values() for place in service.get("volumes", ())]
    used = {place.partition(":")[0] for place in places if place[0] not in "./$"}
    assert used == named.keys() == {"postgres", "api", "artifacts", "secrets"}
    for name, service in compose.services().items():
        held = [place for place in service.get("volumes", ()) if place.startswith("secrets:")]
        assert held == ([] if name == "proxy" else [f"secrets:{SECRETS}" + ("" if name == "secrets" else ":ro")])


def test_the_api_image_has_no_torch() -> None:
    assert not {"torch", "scikit-learn", "xgboost"} & locked("api").keys() and "fastapi" in locked("api")
    assert {"xgboost", "fastapi"} <= locked("worker").keys()
    assert "torch" in locked("torch-cpu") and "torch" in locked("torch-cuda") and "torch" not in locked("worker")
    assert "requirements-worker" not in stage("plain") + stage("api-build") + stage("api")
    assert "COPY worker" not in stage("api-build")


def locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """Package -> its version and its hashes, as an image installs them."""
    text = (PROJECT / "docker" / f"requirements-{name}.txt").read_text()
    found = re.findall(r"^([\w.-]+)==(\S+)[^\n]*((?:\n    --hash\S+.*)*)", text, re.MULTILINE)
    return {package: (version, re.findall(r"sha256:([0-9a-f]{64})", hashes)) for package, version, hashes in found}


@pytest.mark.parametrize("name", ["api", "worker", "torch-cpu", "torch-cuda"])
def test_what_the_images_install_is_pinned_with_hashes(name: str) -> None:
    """`make pins` after each change of pyproject.toml or constraints.txt"""
    constraints = (PROJECT / "constraints.txt").read_text()
    tested = {normal(one): version for one, version in re.findall(r"^([\w.-]+)==(\S+)", constraints, re.MULTILINE)}
    text = (PROJECT / "docker" / f"requirements-{name}.txt").read_text()
    assert len(locked(name)) == len(re.findall(r"^[^#\s]", text, re.MULTILINE)), "each line is one of them"
    for package, (version, hashes) in locked(name).items():
        assert hashes, f"{package} has no hash"
        cuda = name == "torch-cuda" and package != "torch"
        assert cuda or tested[normal(package)] == version.partition("+")[0], f"{package}: run make pins"
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + (project["optional-dependencies"]["worker"] if name == "worker" else [])
    missing = {normal(re.split(r"[\[=]", one)[0]) for one in asked} - locked(name).keys() - {"torch", "recourse-client"}
    assert name.startswith("torch") or not missing


def test_the_bill_of_materials_is_what_is_installed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "docker/sbom.py", str(tmp_path), "api"], cwd=PROJECT, check=True)
    bill = json.loads((tmp_path / "sbom-api.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    listed = {part["name"]: (part["version"], hashes_of(part)) for part in bill["components"]}
    assert listed == {name: (version, set(hashes)) for name, (version, hashes) in locked("api").items()}


def hashes_of(part: dict[str, Any]) -> set[str]:
    return {one["content"] for place in part["externalReferences"] for one in place.get("hashes", ())}


def test_images_of_others_are_pinned_by_digest(tmp_path: Path) -> None:
    """On a copy, with a registry that knows one digest, then another."""
    (tmp_path / "docker").mkdir()
    for name in ("docker-compose.yml", "docker/Dockerfile", "docker/pin_images.sh"):
        shutil.copy(PROJECT / name, tmp_path / name)
    for digest in ("a" * 64, "b" * 64):
        (tmp_path / "skopeo").write_text(f"#!/bin/sh\necho sha256:{digest}\n")
        (tmp_path / "skopeo").chmod(0o755)
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(
            ["sh", "docker/pin_images.sh"], cwd=tmp_path, env={"PATH": path}, check=True, capture_output=True
        )
        text = (tmp_path / "docker-compose.yml").read_text() + (tmp_path / "docker/Dockerfile").read_text()
        pinned = re.findall(r"(?:image: |PYTHON_IMAGE=)([a-z]+):[\w.-]+@sha256:(\w+)$", text, re.MULTILINE)
        assert sorted(pinned) == [(name, digest) for name in ("nginx", "postgres", "python", "redis")]
        assert "image: recourse-api:0.1.0\n" in text and "FROM ${PYTHON_IMAGE} AS plain\n" in text


def normal(name: str) -> str:
    return re.sub(r"[._-]+", "-", name).lower()


def test_no_host_is_named() -> None:
    for path in (compose.COMPOSE, *(path for path in (PROJECT / "docker").rglob("*") if path.is_file())):
        text = compose.fill_in(path.read_text(encoding="utf-8"), {})
        for host in re.findall(r"\w+://(?:[^\s@/]*@)?([\w.-]+)", text):
            assert host in ("postgres", "redis", "worker", "api", "127.0.0.1"), f"{path.name} names {host}"


def made_secrets(folder: Path) -> list[str]:
    """The command line of the one-shot service, for a folder of this machine."""
    python, *words = compose.command_of("secrets")
    assert python == "python3" and words[-1] == SECRETS
    return [sys.executable, *words[:-1], str(folder)]


def test_secrets_are_made_once_kept_and_given_ones_win(tmp_path: Path) -> None:
    names = compose.services()["secrets"]["environment"]

    def start(**given: str) -> tuple[dict[str, str], str]:
        environment = {name: value for name, value in os.environ.items() if name not in names} | given
        command = made_secrets(tmp_path)
        done = subprocess.run(command, cwd=PROJECT, env=environment, check=True, capture_output=True, text=True)
        return {path.name: path.read_text().strip() for path in tmp_path.iterdir()}, done.stdout

    assert compose.required_variables() == set(), "nothing must be set by hand"
    first, said = start()
    made = ("postgres_password", "redis_password", "key_secret", "worker_key")
    assert len({first[name] for name in made}) == 4
    assert all(re.fullmatch("[0-9a-f]{64}", first[name]) for name in made)
    assert first["database_url"] == f"postgresql://recourse:{first['postgres_password']}@postgres:5432/recourse"
    assert first["redis_url"] == f"redis://:{first['redis_password']}@redis:6379/0"
    assert "docker compose exec api cat /var/lib/recourse/admin.key" in said
    assert not any(secret in said for secret in first.values())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert {name for name, mode in modes.items() if mode == 0o640} == {"postgres_password", "redis_password"}
    assert {mode for name, mode in modes.items() if not name.endswith("password")} == {0o600}
    assert start()[0] == first, "the second start changes nothing"
    given, said = start(
        POSTGRES_PASSWORD="p@ss/word", RECOURSE_KEY_SECRET="of the old .env", RECOURSE_ADMIN_KEY="rk_mine"
    )
    assert given["key_secret"] == "of the old .env" and given["worker_key"] == first["worker_key"]
    assert given["database_url"] == "postgresql://recourse:p%40ss%2Fword@postgres:5432/recourse"
    assert "RECOURSE_ADMIN_KEY" in said and "rk_mine" not in said
    assert start(RECOURSE_DATABASE_URL="postgresql://elsewhere/db")[0]["database_url"] == "postgresql://elsewhere/db"
    assert start()[0] == given | {"database_url": given["database_url"]}, "what was given stays"


async def who_asks(scope: Scope, receive: Receive, send: Send) -> None:
    """The client's address as uvicorn takes it, the scheme, and how long the body was."""
    length = len(await Request(scope, receive).body())
    await PlainTextResponse(f"{scope['client'][0]} {scope['scheme']} {length}")(scope, receive, send)


@contextmanager
def proxy(folder: Path, upstream: str, tls: bool) -> Iterator[tuple[str, int]]:
    """nginx with the project's own files, but for this machine's ports and folders."""
    port, health = free_port(), free_port()
    listen = (PROJECT / "docker" / "proxy" / ("on.conf" if tls else "off.conf")).read_text()
    (folder / "listen.conf").write_text(listen.replace("8000", f"127.0.0.1:{port}").replace("/etc/nginx", str(folder)))
    text = (PROJECT / "docker" / "proxy" / "nginx.conf").read_text()
    for old, new in (
        ("/tmp/", f"{folder}/"),
        ("server api:8000", f"server {upstream.removeprefix('http://')}"),
        ("127.0.0.1:8001", f"127.0.0.1:{health}"),
        ("/etc/nginx", str(folder)),
        ("worker_processes auto", "worker_processes 1"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "nginx.conf").write_text(text)
    (folder / "certificates").mkdir()
    subject = ("-subj", "/CN=lender.example", "-addext", "subjectAltName=IP:127.0.0.1")
    keys = ("-keyout", str(folder / "certificates/privkey.pem"), "-out", str(folder / "certificates/fullchain.pem"))
    new_key = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    subprocess.run([*new_key, *subject, *keys], check=True, capture_output=True)
    command = compose.command_of("proxy")
    command = ["nginx", "-e", "stderr", "-c", str(folder / "nginx.conf"), *command[1:]]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: process.poll() is not None or listens(health))
            assert process.poll() is None, "nginx ended"
            yield f"{'https' if tls else 'http'}://127.0.0.1:{port}", health
        finally:
            process.terminate()


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(shutil.which("nginx") is None, reason="there is no nginx on this machine")
@pytest.mark.parametrize("tls", [False, True])
def test_the_proxy_passes_on_and_has_limits(tls: bool, tmp_path: Path) -> None:
    with serving(who_asks) as upstream, proxy(tmp_path, upstream, tls) as (url, health), ExitStack() as stack:
        assert httpx.get(f"http://127.0.0.1:{health}/").status_code == 204
        trusted = ssl.create_default_context(cafile=str(tmp_path / "certificates/fullchain.pem"))
        http = stack.enter_context(httpx.Client(base_url=url, verify=trusted, timeout=BOUND))
        said = {"X-Forwarded-For": "10.9.8.7", "X-Forwarded-Proto": "ftp"}
        assert http.get("/livez", headers=said).text == f"127.0.0.1 {'https' if tls else 'http'} 0"
        assert http.post("/explain", content=b"x" * 2**24).text.endswith(f" {2**24}")
        assert http.post("/explain", content=b"x" * 2**25).status_code == 413
        assert http.post("/datasets", content=b"x" * 2**25).text.endswith(f" {2**25}")
        assert http.get("/livez", headers={"X-One": "x" * 40_000}).status_code == 400
        if tls:
            return
        half = b"POST /explain HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"
        address = httpx.URL(url)
        for _ in range(110):
            connection = socket.create_connection((address.host, address.port or 80))
            stack.enter_context(connection).sendall(half)
        wait_until(lambda: http.get("/livez").status_code == 429)
