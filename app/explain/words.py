"""What an applicant reads: each action as a sentence in the applicant's own units, in the language of the request.

The sentences are a catalogue, one JSON file a language in catalogues/. A policy names features (`label`, `unit`), and
may have phrases of its own (`say`), such as "Save {difference} more" for a feature that goes up.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from models.data.policy import Lever, Policy
from models.data.records import Value
from models.space.actions import Action, Change

CATALOGUES = Path(__file__).parent / "catalogues"
Language = Literal["en", "de"]
LANGUAGES: tuple[Language, ...] = ("en", "de")
FIRST = (Lever.LENDER, Lever.APPLICANT, Lever.TIME)
"""In this order actions are told: what can be done today first, waiting last."""


@cache
def catalogue(language: Language) -> Mapping[str, str]:
    words: dict[str, str] = json.loads((CATALOGUES / f"{language}.json").read_text(encoding="utf-8"))
    return words


def in_order(actions: Sequence[Action]) -> list[Action]:
    """The order in which somebody would do them"""
    return sorted(actions, key=lambda action: FIRST.index(action.lever))


def sentence(action: Action, policy: Policy, language: Language) -> str:
    """One action in words; what follows from it stands behind it"""
    words = catalogue(language)
    if action.kind == "wait":
        return words["wait_one"] if action.months == 1 else words["wait"].format(months=action.months)
    first, *others = action.changes
    follows = [words["follows"].format(**_parts(other, policy, words)) for other in others]
    return _capital(_change(first, action.lever, policy, language)) + "".join(f" ({each})" for each in follows)


def _change(change: Change, lever: Lever, policy: Policy, language: Language) -> str:
    words, way = catalogue(language), _way(change)
    way = "lender" if lever is Lever.LENDER and change.before is not None else way
    phrase = policy.of(change.feature).say.get(language, {}).get(way) or words[way]
    return phrase.format(**_parts(change, policy, words))


def _way(change: Change) -> str:
    before, after = change.before, change.after
    if before is None:
        return "fill"
    if isinstance(before, str) or isinstance(after, str) or after is None:
        return "to"
    return "up" if after > before else "down"


def _parts(change: Change, policy: Policy, words: Mapping[str, str]) -> dict[str, str]:
    """What a phrase may name: label, before, after, difference"""
    entry, before, after = policy.of(change.feature), change.before, change.after
    unit = f" {entry.unit}" if entry.unit else ""
    numbers = isinstance(before, int | float) and isinstance(after, int | float)
    difference = abs(after - before) if numbers else None  # type: ignore[operator]
    return {
        "label": entry.label or change.feature.replace("_", " "),
        "before": _shown(before, words) + (unit if isinstance(before, int | float) else ""),
        "after": _shown(after, words) + (unit if isinstance(after, int | float) else ""),
        "difference": _shown(difference, words) + unit,
    }


def _shown(value: Value, words: Mapping[str, str]) -> str:
    """A value as the language writes it: 1,400 or 1.400"""
    if value is None:
        return words["missing"]
    if isinstance(value, str | bool):
        return str(value)
    text = f"{value:,.10g}" if abs(value) >= 1000 else f"{value:.10g}"
    return "".join({",": words["thousands"], ".": words["decimal"]}.get(letter, letter) for letter in text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
