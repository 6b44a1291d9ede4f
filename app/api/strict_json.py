"""JSON as its standard has it: Python also reads NaN, and text that no database and no answer could hold."""

import json
from typing import NoReturn

from fastapi import Request


class StrictRequest(Request):
    """What is wrong with a body is raised as JSONDecodeError, which becomes a 400 that names the place."""

    async def json(self) -> object:
        body = await self.body()
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise json.JSONDecodeError("the body is not UTF-8", "", error.start) from error
        value: object = json.loads(text, parse_constant=_refuse)
        if "\\u" in text:
            _check_text(value)
        return value


def _refuse(constant: str) -> NoReturn:
    raise json.JSONDecodeError(f"{constant} is no JSON number, send null", "", 0)


def _check_text(value: object) -> None:
    """An escape can name half of a character, which UTF-8 cannot write."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise json.JSONDecodeError("a text holds half of a surrogate pair", "", 0) from error
