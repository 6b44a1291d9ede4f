"""The artifact store, in a folder and in memory as fsspec knows it."""

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest

from app.artifacts import ArtifactStore, check_digest, keep_private, open_store
from app.settings import Settings
from models.errors import ArtifactError, ConfigError
from models.storage.sealed import check_seal, write_object, write_sealed


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    url = str(tmp_path / "artifacts") if request.param == "folder" else f"memory://{uuid4().hex}"
    return ArtifactStore(url, tmp_path / "cache")


def sealed_folder(path: Path, text: str = "a") -> Path:
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "weights").write_text(text)
    (path / "manifest.json").write_text("{}")
    return path


def test_a_folder_comes_back(store: ArtifactStore, tmp_path: Path) -> None:
    location = store.put_folder(sealed_folder(tmp_path / "made"), "models/1/abc")
    assert location == "models/1/abc"
    for _ in range(2):
        found = store.fetch_folder(location)
        assert (found / "deep" / "weights").read_text() == "a"
        assert (found / "manifest.json").is_file()


def test_a_folder_is_made_in_its_place(store: ArtifactStore) -> None:
    def write(folder: Path) -> str:
        return write_sealed(folder, lambda partial: write_object(partial / "facts.json", {"a": 1}))

    digest = store.seal_folder("jobs/1/2", write)
    assert check_seal(store.fetch_folder("jobs/1/2")) == digest
    with pytest.raises(ArtifactError, match="is not a name within"):
        store.seal_folder("../keys", write)


def test_a_name_that_is_taken_stays(store: ArtifactStore, tmp_path: Path) -> None:
    store.put_folder(sealed_folder(tmp_path / "made"), "models/abc")
    store.put_folder(sealed_folder(tmp_path / "other", "b"), "models/abc")
    assert (store.fetch_folder("models/abc") / "deep" / "weights").read_text() == "a"


def test_a_file_comes_back_and_goes(store: ArtifactStore, tmp_path: Path) -> None:
    path = tmp_path / "loans.csv"
    path.write_text("income\n1\n")
    assert store.fetch_file(store.put_file(path, "datasets/loans.csv")).read_text() == "income\n1\n"
    store.remove("datasets/loans.csv")
    store.remove("datasets/loans.csv")
    with pytest.raises(ArtifactError, match=r"'datasets/loans\.csv' is not in the artifact store"):
        store.fetch_file("datasets/loans.csv")


def test_half_a_folder_is_none(tmp_path: Path) -> None:
    store = ArtifactStore(f"memory://{uuid4().hex}", tmp_path / "cache")
    half = sealed_folder(tmp_path / "half")
    (half / "manifest.json").unlink()
    store.put_folder(half, "models/half")
    with pytest.raises(ArtifactError, match="is not in the artifact store"):
        store.fetch_folder("models/half")


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_download_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    store = ArtifactStore(f"memory://{uuid4().hex}", tmp_path / "cache")
    made = sealed_folder(tmp_path / "made")
    location = store.put_folder(made, "a/it") if what == "folder" else store.put_file(made / "manifest.json", "a/it")
    fetch = store.fetch_folder if what == "folder" else store.fetch_file

    def break_off(place: str, partial: str, recursive: bool) -> None:
        path = Path(partial)
        if what == "folder":
            path.mkdir()
            path /= "weights"
        path.write_text("half")
        raise OSError("the bucket is gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(fsspec.filesystem("memory")), "get", staticmethod(break_off))
        with pytest.raises(OSError, match="the bucket is gone"):
            fetch(location)
    assert list((tmp_path / "cache" / "a").iterdir()) == []
    assert fetch(location).exists()


SLOW_DOWNLOAD = """
import sys, time
from pathlib import Path
import fsspec
from app.artifacts import ArtifactStore

def get(place, partial, recursive):
    Path(partial).mkdir()
    (Path(partial) / "weights").write_text("half")
    print("begun", flush=True)
    time.sleep(600)

fsspec.filesystem("memory").pipe_file("/store/models/it/manifest.json", b"{}")
type(fsspec.filesystem("memory")).get = staticmethod(get)
ArtifactStore("memory://store", Path(sys.argv[1])).fetch_folder("models/it")
"""


def test_what_a_killed_download_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    """But not what a living process is downloading into the same cache."""
    settings = Settings(var_dir=tmp_path, artifacts_url="memory://store")
    command = [sys.executable, "-c", SLOW_DOWNLOAD, str(tmp_path / "cache")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == b"begun\n"
            open_store(settings)
            (left,) = (tmp_path / "cache" / "models").iterdir()
            assert (left / "weights").read_text() == "half"
        finally:
            child.kill()
    open_store(settings)
    assert list((tmp_path / "cache" / "models").iterdir()) == []


@pytest.mark.parametrize("name", ["../keys", "/etc/passwd", "a/../../b", ""])
def test_nothing_outside_of_the_store_has_a_name(store: ArtifactStore, tmp_path: Path, name: str) -> None:
    with pytest.raises(ArtifactError, match="is not a name within"):
        store.fetch_file(name)
    with pytest.raises(ArtifactError, match="is not a name within"):
        store.put_file(tmp_path / "x", name)


def test_a_file_that_changed_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "loans.csv"
    path.write_text("income\n1\n")
    check_digest(path, hashlib.sha256(b"income\n1\n").hexdigest(), "loans")
    with pytest.raises(ArtifactError, match="file of 'loans' is not the one that was uploaded"):
        check_digest(path, hashlib.sha256(b"income\n2\n").hexdigest(), "loans")


def test_the_settings_choose(tmp_path: Path) -> None:
    store = open_store(Settings(var_dir=tmp_path))
    store.put_folder(sealed_folder(tmp_path / "made"), "models/abc")
    assert (tmp_path / "artifacts" / "models" / "abc" / "manifest.json").is_file()
    with pytest.raises(ConfigError, match="cannot be used"):
        open_store(Settings(var_dir=tmp_path, artifacts_url="nosuch://bucket"))


def test_what_is_in_var_is_the_owner_s_alone(tmp_path: Path) -> None:
    """Of older releases too. What is not ours stays, in a folder elsewhere the operator's umask counts."""
    var, before = tmp_path / "var", os.umask(0o022)
    try:
        (var / "artifacts" / "datasets").mkdir(parents=True)
        table, foreign = var / "artifacts" / "datasets" / "table.csv", var / "script.sh"
        for path in (table, foreign):
            path.write_text("x")
            path.chmod(0o755)
        keep_private(Settings(var_dir=var, artifacts_url=str(tmp_path / "shared")))
        assert [stat.S_IMODE(path.stat().st_mode) for path in (var, table.parent, table)] == [0o700] * 3
        assert stat.S_IMODE(foreign.stat().st_mode) == 0o755
        assert os.umask(0o022) == 0o022
        keep_private(Settings(var_dir=var))
        location = open_store(Settings(var_dir=var)).put_file(foreign, "datasets/new.csv")
        assert stat.S_IMODE((var / "artifacts" / location).stat().st_mode) & 0o077 == 0
    finally:
        os.umask(before)
    with pytest.raises(ConfigError, match="RECOURSE_VAR_DIR cannot be made"):
        keep_private(Settings(var_dir=foreign / "var"))
