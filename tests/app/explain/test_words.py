"""What an applicant reads."""

import json

import pytest

from app.explain.words import LANGUAGES, Language, catalogue, in_order, sentence
from models.data.policy import Lever, Policy
from models.space.actions import Action, Change

POLICY = Policy.from_json(
    {
        "format": 1,
        "features": {
            "savings": {"label": "your savings", "say": {"en": {"up": "Save {difference} more"}}},
            "loan_months": {"label": "the term", "unit": "months"},
        },
        "rules": [],
    }
)


def change(feature: str, before: object, after: object, lever: Lever = Lever.APPLICANT) -> Action:
    return Action("change", lever, (Change(feature, before, after),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("action", "language", "words"),
    [
        (change("savings", 1400, 2800), "en", "Save 1,400 more"),
        (change("savings", 1400.5, 2800), "de", "Your savings von 1.400,5 auf 2.800 erhöhen"),
        (change("loan_months", 48, 36), "en", "Lower the term from 48 months to 36 months"),
        (change("debt_ratio", 0.36, 0.3), "de", "Debt ratio von 0,36 auf 0,3 senken"),
        (change("housing", "rent", "own"), "en", "Change housing from rent to own"),
        (change("income", None, 20000), "en", "State income: 20,000"),
        (
            change("loan_months", 48, 60, Lever.LENDER),
            "en",
            "The lender offers the term 60 months instead of 48 months",
        ),
        (Action("wait", Lever.TIME, (Change("age", 30, 31),), 8), "en", "Wait 8 months (age is 31 then)"),
        (Action("wait", Lever.TIME, (), 1), "de", "Einen Monat warten"),
    ],
)
def test_an_action_in_words(action: Action, language: Language, words: str) -> None:
    if action.kind == "wait":
        words = words.split(" (")[0]
    assert sentence(action, POLICY, language) == words


def test_what_follows_stands_behind_it() -> None:
    action = Action("change", Lever.APPLICANT, (Change("loan", 9000, 6000), Change("debt_ratio", 0.5, 0.4, True)))
    assert sentence(action, POLICY, "en") == "Lower loan from 9,000 to 6,000 (debt ratio is 0.4 then)"


def test_waiting_is_told_last_and_an_offer_first() -> None:
    wait, mine, offer = Action("wait", Lever.TIME, (), 3), change("savings", 1, 2), change("loan", 2, 1, Lever.LENDER)
    assert in_order([wait, mine, offer]) == [offer, mine, wait]


def test_every_language_has_every_phrase() -> None:
    keys = [set(catalogue(language)) for language in LANGUAGES]
    assert all(each == keys[0] for each in keys) and len(keys) >= 2
    assert json.dumps(catalogue("de"), ensure_ascii=False).count("ä") >= 1
