"""Expressions of formulas and inequalities: + - * /, parentheses, min(...), max(...), numbers and features.

In an inequality, before(name) is the applicant's own value of a feature. A name that is no plain word stands in
backticks, as in `hours-per-week`. Where an expression cannot be read, the error is the tail of a sentence, because only
the caller knows the rule.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..arrays import Floats
from ..errors import SchemaError

MOST_TEXT = 500
MOST_DEPTH = 40
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|(?P<name>[^\W\d]\w*)|`(?P<quoted>[^`]+)`|(?P<sign><=|>=|[-+*/(),]))"
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One of + - * / negative min max before, and what it works on."""

    sign: str
    parts: "tuple[Expression, ...]"


Expression: TypeAlias = float | str | Operation
"""A number, a feature's name, or an operation."""


def parse_expression(text: str) -> Expression:
    """SchemaError in one sentence."""
    reader = _Reader(text)
    found = reader.sum()
    reader.end()
    return found


def parse_inequality(text: str) -> tuple[Expression, Expression]:
    """'a <= b' or 'b >= a' -> a, b"""
    reader = _Reader(text)
    left = reader.sum()
    sign = reader.take("<=", ">=")
    right = reader.sum()
    reader.end()
    return (left, right) if sign == "<=" else (right, left)


def names_of(expression: Expression) -> tuple[str, ...]:
    """The features that it names, each once, in order."""
    if isinstance(expression, str):
        return (expression,)
    found = [name for part in _parts(expression) for name in names_of(part)]
    return tuple(dict.fromkeys(found))


def asks_before(expression: Expression) -> bool:
    """Whether it reads the applicant's own values."""
    return isinstance(expression, Operation) and (
        expression.sign == "before" or any(map(asks_before, expression.parts))
    )


def _parts(expression: Expression) -> "tuple[Expression, ...]":
    return expression.parts if isinstance(expression, Operation) else ()


def evaluate(expression: Expression, value: Callable[[str], Floats], before: Callable[[str], Floats]) -> Floats:
    """What it is, element by element, from left to right; NaN or infinite where it cannot be computed.

    value, before  what a feature is in the candidate and in the applicant's record
    """
    if isinstance(expression, str):
        return value(expression)
    if not isinstance(expression, Operation):
        return np.asarray(expression, dtype=np.float64)
    if expression.sign == "before":
        return evaluate(expression.parts[0], before, before)
    first, *others = [evaluate(part, value, before) for part in expression.parts]
    if expression.sign == "negative":
        return -first
    work: dict[str, Callable[[Floats, Floats], Floats]] = {
        "+": np.add,
        "-": np.subtract,
        "*": np.multiply,
        "/": _divide,
        "min": np.minimum,
        "max": np.maximum,
    }
    for other in others:
        first = work[expression.sign](first, other)
    return first


def _divide(one: Floats, other: Floats) -> Floats:
    """NaN where the other is 0, so that no min(...) hides it."""
    return np.asarray(np.divide(one, np.where(other == 0, np.nan, other)))


def linear_terms(expression: Expression) -> dict[str, float] | None:
    """Of a sum of multiples, the factor of each feature, and the constant as that of ''; None for anything else."""
    if isinstance(expression, str):
        return {expression: 1.0}
    if not isinstance(expression, Operation):
        return {"": expression}
    terms = [linear_terms(part) for part in expression.parts]
    if any(term is None for term in terms) or expression.sign in ("min", "max", "before"):
        return None
    known = [term for term in terms if term is not None]
    if expression.sign in ("+", "-", "negative"):
        signs = {"+": (1.0, 1.0), "-": (1.0, -1.0), "negative": (-1.0,)}[expression.sign]
        names = dict.fromkeys(name for term in known for name in term)
        return {name: sum(s * term.get(name, 0.0) for s, term in zip(signs, known, strict=True)) for name in names}
    first, second = known
    if expression.sign == "*" and set(first) == {""}:
        first, second = second, first
    if set(second) != {""} or (expression.sign == "/" and second[""] == 0.0):
        return None
    factor = second[""]
    return {name: value * factor if expression.sign == "*" else value / factor for name, value in first.items()}


class _Reader:
    """Recursive descent over the words of an expression."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.depth = text, 0, 0
        self.words: list[tuple[str, str]] = []
        if len(text) > MOST_TEXT:
            raise SchemaError(f"the expression has {len(text)} characters; {MOST_TEXT} are the most")
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise SchemaError(f"'{text}' cannot be read from '{text[position:].strip()[:20]}' on")
            self.words.append((match.lastgroup or "", match[match.lastgroup or 0]))
            position = match.end()

    def peek(self) -> tuple[str, str]:
        return self.words[self.place] if self.place < len(self.words) else ("end", "its end")

    def take(self, *signs: str) -> str:
        kind, word = self.peek()
        if kind != "sign" or word not in signs:
            raise SchemaError(f"'{self.text}' needs {' or '.join(signs)} where it has {word}")
        self.place += 1
        return word

    def end(self) -> None:
        if self.peek()[0] != "end":
            raise SchemaError(f"'{self.text}' cannot be read from '{self.peek()[1]}' on")

    def sum(self) -> Expression:
        found = self.product()
        while self.peek() in (("sign", "+"), ("sign", "-")):
            sign = self.take("+", "-")
            found = Operation(sign, (found, self.product()))
        return found

    def product(self) -> Expression:
        found = self.factor()
        while self.peek() in (("sign", "*"), ("sign", "/")):
            sign = self.take("*", "/")
            found = Operation(sign, (found, self.factor()))
        return found

    def factor(self) -> Expression:
        kind, word = self.peek()
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise SchemaError(f"'{self.text[:40]}...' is nested deeper than {MOST_DEPTH}")
        self.place += 1
        found: Expression
        if kind == "number":
            found = float(word)
        elif kind == "quoted":
            found = word
        elif kind == "name":
            found = self.call(word) if self.peek() == ("sign", "(") else word
        elif (kind, word) == ("sign", "-"):
            found = Operation("negative", (self.factor(),))
        elif (kind, word) == ("sign", "("):
            found = self.sum()
            self.take(")")
        else:
            raise SchemaError(f"'{self.text}' needs a number or a feature where it has {word}")
        self.depth -= 1
        return found

    def call(self, word: str) -> Expression:
        if word not in ("min", "max", "before"):
            raise SchemaError(f"'{self.text}' calls {word}; only min, max and before can be called")
        self.take("(")
        if word == "before":
            name = self.factor()
            self.take(")")
            if not isinstance(name, str):
                raise SchemaError(f"'{self.text}' needs the name of a feature in before(...)")
            return Operation(word, (name,))
        parts = [self.sum()]
        while self.take(",", ")") == ",":
            parts.append(self.sum())
        return Operation(word, tuple(parts))
