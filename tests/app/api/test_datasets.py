"""Tables are uploaded, understood, and refused with the reason."""

import io
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from threading import Event

import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import update

from app.datasets import description, reader
from app.datasets.reader import Table, TableLimits
from app.db.engine import Database
from app.db.tables import DatasetRow
from tests.app.api.conftest import Service
from tests.patience import BOUND, wait_until

LOANS = pd.DataFrame(
    {
        "income": [1000 + 7 * n for n in range(40)],
        "housing": ["own", "rent"] * 20,
        "approved": ["yes" if n % 3 == 0 else "no" for n in range(40)],
    }
)


def csv(frame: pd.DataFrame = LOANS) -> bytes:
    return frame.to_csv(index=False).encode()


def upload(
    client: httpx.Client,
    content: bytes,
    label: str | None = "approved",
    name: str = "loans.csv",
    categories: tuple[str, ...] = (),
) -> httpx.Response:
    fields = {"categories": list(categories), **({"label": label} if label else {})}
    return client.post("/datasets", files={"file": (name, content)}, data=fields)


def test_csv_and_parquet_are_understood_alike(service: Service, tmp_path: Path) -> None:
    LOANS.to_parquet(tmp_path / "loans.parquet")
    from_csv = upload(service.analyst, csv())
    from_parquet = upload(service.analyst, (tmp_path / "loans.parquet").read_bytes(), name="loans.parquet")
    assert from_csv.status_code == from_parquet.status_code == 201
    for answer in (from_csv.json(), from_parquet.json()):
        assert (answer["rows"], answer["label"], answer["class_counts"]) == (40, "approved", {"no": 26, "yes": 14})
        assert [feature["name"] for feature in answer["schema"]["features"]] == ["income", "housing"]
        assert answer["schema"]["classes"] == ["no", "yes"]
    stored = service.resources.artifacts.fetch_file(f"datasets/{service.tenant_id}/{from_csv.json()['digest']}.csv")
    assert stored.read_bytes() == csv()
    listed = service.viewer.get("/datasets").json()["items"]
    assert [item["id"] for item in listed] == [from_parquet.json()["id"], from_csv.json()["id"]]
    assert service.viewer.get(f"/datasets/{listed[0]['id']}").json() == listed[0]


def test_none_is_a_word_and_na_is_a_missing_value(service: Service) -> None:
    frame = LOANS.assign(guarantors=["None", "one"] * 20, savings=["NA", *range(39)])
    features = upload(service.analyst, csv(frame)).json()["schema"]["features"]
    guarantors, savings = features[-2:]
    assert (guarantors["categories"], guarantors["nullable"]) == (["None", "one"], False)
    assert (savings["kind"], savings["nullable"]) == ("integer", True)


def test_codes_with_leading_zeros_are_categories(service: Service) -> None:
    frame = LOANS.assign(branch=["00123", "", "0", "7"] * 10, share=["0.5", "0", "-0.25", "1"] * 10)
    *_, branch, share = upload(service.analyst, csv(frame)).json()["schema"]["features"]
    assert (branch["categories"], branch["nullable"]) == (["0", "7", "00123"], True)
    assert (share["kind"], share["step"]) == ("numeric", 0.25)


def test_without_a_label_there_are_features_only(service: Service) -> None:
    answer = upload(service.analyst, csv(), label=None).json()
    assert [feature["name"] for feature in answer["schema"]["features"]] == ["income", "housing", "approved"]
    assert (answer["label"], answer["class_counts"]) == (None, None)


def test_protected_attributes_are_marked_and_told(service: Service) -> None:
    answer = upload(service.analyst, csv(LOANS.assign(Sex=["f", "m"] * 20))).json()
    marks = {feature["name"]: (feature["protected"], feature["immutable"]) for feature in answer["schema"]["features"]}
    assert marks == {"income": (False, False), "housing": (False, False), "Sex": (True, True)}
    (notice,) = answer["notices"]
    assert notice.startswith("Column 'Sex' looks like a protected attribute (sex)") and '"protected": false' in notice
    assert service.viewer.get(f"/datasets/{answer['id']}").json()["notices"] == [notice]
    assert upload(service.analyst, csv()).json()["notices"] == []


def test_protected_attributes_in_other_languages_and_by_their_values(service: Service) -> None:
    """On real mortgages two of 223 answers suggested another race: `black` and `single` were not known for it."""
    people = LOANS.assign(
        Alter=range(20, 60), Geschlecht=["w", "m"] * 20, black=["no", "yes"] * 20, x3=["ledig", "verheiratet"] * 20
    )
    answer = upload(service.analyst, csv(people)).json()
    marks = {feature["name"]: feature["protected"] for feature in answer["schema"]["features"]}
    assert marks == {name: name not in ("income", "housing") for name in marks} and len(marks) == 6
    sure, doubtful = answer["notices"][:2], answer["notices"][2:]
    assert all("looks like a protected attribute" in notice for notice in sure)
    assert [notice.split("?")[0] for notice in doubtful] == [
        "Does column 'black' tell a protected attribute (race or ethnicity)",
        "Does column 'x3' tell a protected attribute (family)",
    ]


def test_names_of_the_rows_copies_of_the_label_and_codes_are_told(service: Service) -> None:
    """40 of 40 answers told the applicant to change `approved_flag`."""
    many = pd.concat([LOANS] * 5, ignore_index=True)
    many = many.assign(
        income=range(20_000, 20_000 + 250 * len(many), 250),
        customer_id=range(7000, 7000 + 3 * len(many), 3),
        approved_flag=(many["approved"] == "yes").astype(int),
        savings=[-999 if row % 7 == 0 else row * 100 for row in range(len(many))],
    )
    answer = upload(service.analyst, csv(many)).json()
    assert [feature["name"] for feature in answer["schema"]["features"]] == ["income", "housing", "savings"]
    for part in ("'customer_id' names the rows", "'approved_flag' copies the label", "'savings' holds -999 in 29 rows"):
        assert any(part in notice for notice in answer["notices"]), part
    assert service.viewer.get(f"/datasets/{answer['id']}").json()["notices"] == answer["notices"]
    assert service.viewer.get("/datasets").json()["items"][0]["notices"] == answer["notices"]
    named = upload(service.analyst, csv(many), categories=("approved_flag",)).json()
    assert "approved_flag" in [feature["name"] for feature in named["schema"]["features"]]


def test_all_problems_of_a_file_are_told_at_once(service: Service) -> None:
    bad = LOANS.assign(same=1, when=[f"2026-01-{day % 28 + 1:02}" for day in range(40)], empty="", also=2)
    told = upload(service.analyst, csv(bad))
    assert told.status_code == 422
    for part in (
        "'when' holds dates",
        "'same' holds one value only",
        "'empty' holds no value",
        "'also' holds one value",
    ):
        assert part in told.json()["detail"], part


def test_a_data_set_of_an_earlier_version_still_tells_its_protected_attributes(
    service: Service, database: Database
) -> None:
    answer = upload(service.analyst, csv(LOANS.assign(Sex=["f", "m"] * 20))).json()
    with database.writing() as connection:
        connection.execute(update(DatasetRow).values(notices=None))
    assert service.viewer.get(f"/datasets/{answer['id']}").json()["notices"] == answer["notices"]


def test_a_byte_order_mark_is_not_part_of_a_name(service: Service) -> None:
    answer = upload(service.analyst, b"\xef\xbb\xbf" + csv())
    assert answer.json()["schema"]["features"][0]["name"] == "income"


WIDE = (",".join(f"c{n}" for n in range(100_000)) + "\n").encode()


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (b"", 422, "empty"),
        (b"\n\n", 422, "no header"),
        (b"income,housing,approved\n", 422, "no rows"),
        (csv().replace(b"income", b"housing", 1), 422, "'housing' twice"),
        (csv().replace(b"income", b"", 1), 422, "Column 1 has no name"),
        (csv().replace(b",", b";"), 422, "separate the columns with commas"),
        (csv() + b"1,own\n", 422, "Line 42 has 2 values, but the header has 3"),
        (csv() + b"1,own,yes,no\n", 422, "Line 42 has 4 values"),
        (csv().replace(b"own", b"\xe9", 1), 422, "0xE9; save it as UTF-8"),
        (csv().decode().encode("utf-16"), 422, "UTF-16"),
        (csv().replace(b"own", b"\0", 1), 422, "Line 2 holds a NUL"),
        (csv() + b'1,"own,yes\n', 422, "cannot be read as CSV"),
        (b"\x1f\x8b" + bytes(100), 415, "gzip"),
        (b"PK\x03\x04" + bytes(100), 415, "Excel"),
        (b"PAR1" + bytes(100), 422, "cannot be read as Parquet"),
        (WIDE, 413, "100000 columns, but 50"),
        (csv(pd.concat([LOANS] * 200)), 413, "more than 5000 rows"),
        (csv().replace(b"approved", b"granted", 1), 422, "no label column 'approved'"),
        (csv(LOANS[LOANS.approved == "no"]), 422, "only one class"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_a_bad_table_is_refused_with_the_reason(service: Service, content: bytes, status: int, reason: str) -> None:
    answer = upload(service.analyst, content)
    assert (answer.status_code, reason in answer.json()["detail"]) == (status, True), answer.text
    assert service.viewer.get("/datasets").json()["items"] == [], "nothing is kept"


SAVINGS = [str(100 * n) for n in range(40)]
STRAY = {
    "12 EUR": "'12 EUR' in row 8; write it as a plain number",
    "n/a?": "'n/a?' in row 8; leave it empty if it is missing",
}


@pytest.mark.parametrize("parquet", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("label", ["approved", None])
@pytest.mark.parametrize("stray", STRAY)
def test_numbers_with_a_stray_text_are_refused(service: Service, stray: str, label: str | None, parquet: bool) -> None:
    frame = LOANS.assign(savings=[*SAVINGS[:7], stray, *SAVINGS[8:]])
    buffer = io.BytesIO(csv(frame))
    if parquet:
        frame.to_parquet(buffer := io.BytesIO())
    answer = upload(service.analyst, buffer.getvalue(), label)
    assert answer.status_code == 422, answer.text
    way_out = "or send the form field categories=savings if it is a category."
    assert answer.json()["detail"] == f"Column 'savings' holds numbers, but {STRAY[stray]}, {way_out}"


def test_dates_are_refused_unless_they_are_said_to_be_categories(service: Service) -> None:
    frame = LOANS.assign(month=["2024-01-01", "2024-02-01"] * 20)
    answer = upload(service.analyst, csv(frame))
    assert (answer.status_code, "'month' holds dates; replace it" in answer.text) == (422, True)
    for label in ("approved", None):
        answer = upload(service.analyst, csv(frame), label, categories=("month", "housing"))
        month = next(one for one in answer.json()["schema"]["features"] if one["name"] == "month")
        assert month["categories"] == ["2024-01-01", "2024-02-01"]


def test_only_columns_can_be_said_to_be_categories(service: Service) -> None:
    for label in ("approved", None):
        answer = upload(service.analyst, csv(), label, categories=("shoe_size",))
        assert (answer.status_code, "'shoe_size', which is no feature" in answer.text) == (422, True)


def test_a_parquet_bomb_is_refused_by_what_it_says_of_itself(service: Service) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": ["x" * 100_000] * 300}), buffer, compression="zstd", use_dictionary=False)
    answer = upload(service.analyst, buffer.getvalue())
    assert (answer.status_code, "when unpacked" in answer.text) == (413, True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.list_(pa.string())], ids=str)
def test_a_parquet_bomb_that_says_nothing_of_itself(service: Service, kind: pa.DataType) -> None:
    """A value that stands once in the file, and in hundreds of rows."""
    value = ["x" * 100_000] if pa.types.is_nested(kind) else "x" * 100_000
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([value] * 300, type=kind), "approved": ["yes", "no"] * 150}), buffer)
    assert len(buffer.getvalue()) < 120_000
    answer = upload(service.analyst, buffer.getvalue())
    assert answer.status_code in (413, 422), answer.text
    assert "when unpacked" in answer.text or "holds lists" in answer.text


def test_decimals_of_parquet_are_numbers(service: Service) -> None:
    buffer = io.BytesIO()
    savings = pa.array([Decimal(n) / 4 for n in range(40)])
    pq.write_table(pa.Table.from_pandas(LOANS).append_column("savings", savings), buffer)
    answer = upload(service.analyst, buffer.getvalue())
    assert answer.status_code == 201, answer.text
    found = answer.json()["schema"]["features"][-1]
    assert [found[key] for key in ("kind", "lower", "upper", "step")] == ["numeric", 0, 9.75, 0.25]


def test_parquet_keeps_what_columns_are(service: Service) -> None:
    """Texts and categories are read alike, missing values stay missing."""
    region = pd.Series(["north", "south", None, "north"] * 10)
    frame = LOANS.assign(housing=pd.Categorical(LOANS.housing), region=region)
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    answer = upload(service.analyst, buffer.getvalue()).json()
    kinds = {feature["name"]: (feature["kind"], feature["nullable"]) for feature in answer["schema"]["features"]}
    assert kinds == {"income": ("integer", False), "housing": ("categorical", False), "region": ("categorical", True)}


def test_an_upload_past_the_limit_is_refused(service: Service) -> None:
    assert upload(service.analyst, bytes(1_100_000)).status_code == 413


def test_a_strangers_upload_is_not_read(service: Service) -> None:
    answer = service.nobody.post("/datasets", content=b"x" * 500_000, headers={"Content-Type": "multipart/form-data"})
    assert answer.status_code == 401


def test_one_tenants_uploads_leave_room_for_others(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait without a thread, so that everything else is answered, and another tenant's table is read."""
    reading, go, read = Event(), Event(), reader.read_table

    def slowly(path: Path, limits: TableLimits) -> Table:
        if path.stat().st_size > len(csv()):
            reading.set()
            assert go.wait(BOUND)
        return read(path, limits)

    monkeypatch.setattr(description, "read_table", slowly)
    monkeypatch.setattr(service.resources.uploads, "_most", 60)
    long = csv(pd.concat([LOANS, LOANS]))
    with ThreadPoolExecutor(60) as pool:
        try:
            first = [pool.submit(upload, service.analyst, long) for _ in range(60)]
            assert reading.wait(BOUND)
            wait_until(lambda: service.resources.uploads._open[service.tenant_id] == 60)
            refused = upload(service.analyst, csv())
            assert (refused.status_code, "60 uploads are under way" in refused.text) == (503, True)
            assert service.nobody.get("/readyz", timeout=BOUND).status_code == 200
            assert service.stranger.get("/budgets", timeout=BOUND).status_code == 200
            assert upload(service.stranger, csv()).status_code == 201
        finally:
            go.set()
        assert {one.result().status_code for one in first} == {201}


def test_names_are_plain(service: Service) -> None:
    answer = upload(service.analyst, csv(), name="../../etc/\u202eloans.csv").json()
    assert answer["name"] == "loans.csv"


def test_another_tenant_sees_nothing(service: Service) -> None:
    made = upload(service.analyst, csv()).json()["id"]
    assert service.stranger.get(f"/datasets/{made}").status_code == 404
    assert service.stranger.get("/datasets").json()["items"] == []


@pytest.mark.parametrize("shared_database_url", ["sqlite"], indirect=True)
def test_an_upload_to_a_full_disk_is_one_sentence(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real one; the next upload, when there is space, is kept."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("only root may mount a disk")
    try:
        large = csv(pd.concat([LOANS] * 100))
        for store, temporary in ((tmp_path, None), (None, tmp_path)):
            with monkeypatch.context() as patched:
                if store is not None:
                    patched.setattr(service.resources.artifacts, "_local", store)
                patched.setattr(tempfile, "tempdir", temporary and str(temporary))
                answer = upload(service.admin, large)
            assert (answer.status_code, answer.json()["type"]) == (507, "/problems/storage-full"), answer.text
            assert answer.json()["detail"].startswith("no space is left")
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)
    assert upload(service.admin, large).status_code == 201
