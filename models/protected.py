"""Columns that name a protected attribute: what nobody may be advised to change, whatever the models would say.

Names are all that can be seen here, so this is a default, told to the user and open to be lifted, not a legal opinion.
"""

import re
from itertools import pairwise

KINDS = {
    "age": ("age", "birth", "birthdate", "birthday", "birthyear", "dob", "elderly"),
    "sex": ("sex", "gender", "male", "female", "pregnancy", "pregnant", "sexual"),
    "race or ethnicity": ("race", "racial", "ethnicity", "ethnic", "skin"),
    "origin": ("nationality", "citizenship", "citizen", "native", "foreign", "immigrant", "birthplace"),
    "religion": ("religion", "religious"),
    "family": ("marital", "married", "marriage", "divorced", "widowed", "children", "dependents", "dependants"),
    "disability": ("disability", "disabled", "handicap"),
}
PAIRS = {("family", "status"): "family", ("personal", "status"): "family", ("national", "origin"): "origin"}
AGEING = {
    *("account", "accounts", "building", "business", "car", "card", "cards", "company", "credit", "debt", "employment"),
    *("file", "history", "home", "house", "job", "line", "loan", "mortgage", "property", "trade", "trades", "vehicle"),
}
"""Things with an age of their own: `account_age` is not the applicant's."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_KIND_OF = {word: kind for kind, words in KINDS.items() for word in words}


def protected_kind(name: str) -> str | None:
    """What a column of this name would say of a person, as 'age' or 'sex'; None if nothing that is protected."""
    words = [word.lower() for word in _WORD.findall(name)]
    for pair in pairwise(words):
        if pair in PAIRS:
            return PAIRS[pair]
    for word in words:
        if word == "age" and not AGEING.isdisjoint(words):
            continue
        if word in _KIND_OF:
            return _KIND_OF[word]
    return None


def protected_notice(name: str, kind: str) -> str:
    """What the owner of a table is told of such a column."""
    lift = f'{{"features": {{"{name}": {{"protected": false}}}}}}'
    return (
        f"Column '{name}' looks like a protected attribute ({kind}): it is never suggested as something to change. "
        f"If it is none, say so in the schema's overrides: {lift}."
    )
