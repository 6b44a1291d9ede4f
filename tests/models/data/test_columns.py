"""Which names are taken for protected attributes, from the tables that lenders use."""

import pytest

from models.data.columns import protected_kind, protected_notice

NAMES = {
    "age": ("age", "AGE", "age_cat", "ApplicantAge", "age-years", "DAYS_BIRTH", "dob", "customer age"),
    "sex": ("sex", "SEX", "CODE_GENDER", "Gender", "is_female", "personal_sex"),
    "race or ethnicity": ("race", "Ethnicity", "ethnic_group"),
    "origin": ("native-country", "nationality", "foreign_worker", "national_origin"),
    "religion": ("religion",),
    "family": ("marital-status", "MARRIAGE", "NAME_FAMILY_STATUS", "personal_status", "CNT_CHILDREN", "num_dependents"),
    "disability": ("disability",),
}
OTHERS = (
    "income", "savings", "account_age", "AverageMInFile", "credit_age_months", "age_of_oldest_trade", "average_balance",
    "mortgage", "usage", "percentage", "stage", "wage", "email", "Essex", "x1", "employment_years", "relationship", "",
)  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_protected_attributes_are_known_by_name(kind: str, name: str) -> None:
    assert protected_kind(name) == kind


@pytest.mark.parametrize("name", OTHERS)
def test_other_columns_are_left_alone(name: str) -> None:
    assert protected_kind(name) is None


def test_the_notice_says_how_to_lift_it() -> None:
    notice = protected_notice("age_cat", "age")
    assert "'age_cat'" in notice and '{"features": {"age_cat": {"protected": false}}}' in notice
