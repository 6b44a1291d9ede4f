"""Sealed folders: whole or not at all, and no byte may change."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from models.data.json_fields import read_object
from models.errors import ArtifactError
from models.storage.sealed import MANIFEST, check_seal, require_free, write_object, write_sealed


def write_two(folder: Path) -> None:
    (folder / "a.txt").write_text("one")
    (folder / "inner").mkdir()
    (folder / "inner" / "b.bin").write_bytes(bytes(range(256)))


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "v1"
    write_sealed(folder, write_two)
    return folder


def test_the_hash_names_the_content(tmp_path: Path, sealed: Path) -> None:
    content_hash = check_seal(sealed)
    assert len(content_hash) == 64
    assert write_sealed(tmp_path / "again", write_two) == content_hash
    other = write_sealed(tmp_path / "other", lambda folder: write_object(folder / "a.txt", {}))
    assert other != content_hash
    assert sorted(read_object(sealed / MANIFEST)) == ["files", "format", "hash", "version"]


def test_the_hash_moves_with_the_folder(tmp_path: Path, sealed: Path) -> None:
    content_hash = check_seal(sealed)
    assert check_seal(shutil.copytree(sealed, tmp_path / "copy")) == content_hash


def flip_a_byte(folder: Path) -> None:
    path = folder / "inner" / "b.bin"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def rename_a_file(folder: Path) -> None:
    (folder / "a.txt").rename(folder / "c.txt")


def edit_manifest(folder: Path, key: str, value: object) -> None:
    document = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(document | {key: value}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip_a_byte, "The file 'inner/b.bin' of .* is damaged"),
        (lambda folder: (folder / "a.txt").write_text(""), "The file 'a.txt' of .* is damaged"),
        (lambda folder: (folder / "a.txt").unlink(), "The file 'a.txt' of .* is missing"),
        (rename_a_file, "The file 'a.txt' of .* is missing"),
        (lambda folder: (folder / "x.pkl").write_text("x"), "The file 'x.pkl' of .* does not belong there"),
        (lambda folder: (folder / MANIFEST).unlink(), "manifest.json' is missing or is not JSON"),
        (lambda folder: (folder / MANIFEST).write_text("{"), "manifest.json' is missing or is not JSON"),
        (lambda folder: (folder / MANIFEST).write_bytes(b"\xff\xfe"), "manifest.json' is missing or is not JSON"),
        (lambda folder: (folder / MANIFEST).write_text("[1]"), "manifest.json' does not hold a JSON object"),
        (lambda folder: edit_manifest(folder, "version", 2), "holds 'recourse-model' of version 2, not"),
        (lambda folder: edit_manifest(folder, "format", "zip"), "holds 'zip' of version 1, not 'recourse-model' of 1"),
        (lambda folder: edit_manifest(folder, "hash", "0" * 64), "does not fit its own hash"),
        (lambda folder: edit_manifest(folder, "files", {}), "does not fit its own hash"),
        (lambda folder: edit_manifest(folder, "files", None), "does not fit its own hash"),
    ],
)
def test_whatever_is_amiss_is_refused(sealed: Path, damage: object, message: str) -> None:
    assert callable(damage)
    damage(sealed)
    with pytest.raises(ArtifactError, match=message) as caught:
        check_seal(sealed)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"manifest.json' is missing"):
        check_seal(tmp_path / "nowhere")


def test_what_is_there_is_never_overwritten(tmp_path: Path, sealed: Path) -> None:
    content_hash = check_seal(sealed)
    with pytest.raises(ArtifactError, match="is not empty, so nothing is written there"):
        write_sealed(sealed, write_two)
    assert check_seal(sealed) == content_hash
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("mine")
    link.symlink_to(sealed)
    for path in (file, link):
        with pytest.raises(ArtifactError, match="is not a folder"):
            write_sealed(path, write_two)
    assert file.read_text() == "mine"


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    require_free(folder)
    assert write_sealed(folder, write_two) == check_seal(folder)


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write_two(folder)
        raise KeyError("half-way")

    with pytest.raises(KeyError, match="half-way"):
        write_sealed(tmp_path / "v1", fail)
    assert list(tmp_path.iterdir()) == []


def test_of_two_writers_one_wins(tmp_path: Path) -> None:
    """The other one took the place while this one was still writing."""

    def slow(folder: Path) -> None:
        write_two(folder)
        write_sealed(tmp_path / "v1", write_two)

    with pytest.raises(ArtifactError, match=r"Nothing was written to .*not empty"):
        write_sealed(tmp_path / "v1", slow)
    check_seal(tmp_path / "v1")
    assert [path.name for path in tmp_path.iterdir()] == ["v1"]


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ArtifactError, match=r"Nothing was written to '.*file/v1': Not a directory\."):
        write_sealed(blocked / "v1", write_two)


def test_numbers_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"'a.json' would hold a number that is not finite"):
        write_object(tmp_path / "a.json", {"loss": float("nan")})


WRITER = """
import sys, time
from pathlib import Path
from models.storage.sealed import write_sealed

def write(folder):
    (folder / "a.txt").write_text("one")
    print("half-way", flush=True)
    time.sleep(60)

write_sealed(Path(sys.argv[1]), write)
"""


def test_a_killed_writer_leaves_no_artifact(tmp_path: Path) -> None:
    folder = tmp_path / "v1"
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    ) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "half-way\n"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert not folder.exists()
    write_sealed(folder, write_two)
    check_seal(folder)
