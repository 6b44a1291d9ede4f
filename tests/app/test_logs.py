"""What goes wrong is in the log, what went into it is not."""

import json
from pathlib import Path
from typing import Literal

import pytest
import structlog
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from app import logs
from app.db.engine import Database
from app.settings import Settings


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_holds_no_values(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, log_format: Literal["console", "json"]
) -> None:
    before = structlog.get_config()
    try:
        logs.configure(Settings(var_dir=tmp_path, log_format=log_format))
        record = {"name": "Ada " + "Lovelace"}
        try:
            raise RuntimeError("it broke")
        except RuntimeError as error:
            structlog.get_logger().error("failed", request_id="r1", exc_info=error)
        assert record
    finally:
        structlog.configure(**before)
    told = capsys.readouterr().err
    assert "it broke" in told and "r1" in told and "test_logs.py" in told
    assert "Lovelace" not in told
    if log_format == "json":
        assert json.loads(told)["level"] == "error"


def test_an_error_of_the_database_tells_no_parameters(database: Database) -> None:
    with pytest.raises(SQLAlchemyError) as raised, database.writing() as connection:
        connection.execute(text("INSERT INTO nowhere VALUES (:name)"), {"name": "Lovelace"})
    assert "Lovelace" not in str(raised.value)
