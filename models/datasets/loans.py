"""Our own loans: seeded, realistic, mixed-type applications whose rules are known.

The lender's policy (annual rate 8 %; `burden` is the debt ratio with the new instalment added):

refused without exception
    burden above 0.65; five late payments or more; unemployed with savings below half of the loan
approved with probability sigmoid(2 * score), where score is the sum of
    burden        (0.36 - burden) / 0.10, at most +2
    history       log(1 + months / 24) - 1.2
    late          -0.6 for each late payment
    tenure        0.15 for each year in the job, at most eight
    cushion       0.5 * log((savings + 500) / (0.15 * loan)), within -1 and +1
    employment, housing, purpose: the tables below

Age, sex, dependents and education are never looked at; they matter only as far as income, history and the rest go with
them. A few values are missing at random, after the decision.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

from .dataset import Dataset

POLICY_FILE = Path(__file__).with_name("loans_policy.json")
"""What can be done about a made-up application: an action policy (docs/POLICY.md)."""

RATE = 0.08
INFLATION, STRICTER = 1.04, 0.15
"""A year: prices grow by this factor, and the score has to be so much higher."""
EMPLOYMENT = {"salaried": 0.4, "self-employed": -0.1, "contract": -0.3, "retired": 0.2, "unemployed": -1.2}
HOUSING = {"own": 0.4, "mortgage": 0.2, "parents": 0.0, "rent": -0.1}
PURPOSE = {"car": 0.0, "home": 0.2, "education": 0.1, "medical": 0.0, "consolidation": -0.2, "business": -0.4}
EDUCATION = ["primary", "secondary", "bachelor", "master"]

OVERRIDES = {
    "features": {
        "age": {"protected": True, "lower": 18, "upper": 99},
        "sex": {"protected": True},
        "dependents": {"protected": True},
        "education": {"categories": EDUCATION, "ordered": True, "direction": "up"},
        "income": {"step": 100},
        "savings": {"step": 100, "lower": 0},
        "credit_history_months": {"direction": "up"},
        "late_payments": {"direction": "down"},
        "purpose": {"immutable": True},
        "loan_amount": {"step": 500},
        "loan_months": {"step": 6},
    }
}


def loans(rows: int = 6000, seed: int = 0, years: float = 0.0) -> Dataset:
    """`rows` applications; the label is `decision`, approved or refused.

    years  so many years later: incomes, savings and loans have grown with prices, and the lender has become stricter
    """
    random = np.random.default_rng(seed)
    frame = _applicants(random, rows)
    frame = frame.assign(**_loan_terms(random, frame))
    for name, step in {"income": 100, "savings": 100, "loan_amount": 500}.items():
        frame[name] = _round_to(frame[name].to_numpy() * INFLATION**years, step)
    chance = approval_probability(frame, stricter=STRICTER * years)
    approved = ~policy_refuses(frame) & (random.random(rows) < chance)
    frame["decision"] = np.where(approved, "approved", "refused")
    return Dataset("loans", _with_missing(random, frame), "decision", OVERRIDES)


def burden(frame: pd.DataFrame) -> NDArray[np.float64]:
    """The share of income that goes to debt once this loan is paid off in equal instalments.   (n,)"""
    monthly = RATE / 12
    instalment = frame["loan_amount"] * monthly / (1 - (1 + monthly) ** -frame["loan_months"])
    total = frame["debt_ratio"] + instalment / (frame["income"] / 12)
    return total.to_numpy(dtype=np.float64)


def policy_refuses(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """The rules without exception.   (n,)"""
    bare = (frame["employment"] == "unemployed") & (frame["savings"] < 0.5 * frame["loan_amount"])
    return (burden(frame) > 0.65) | (frame["late_payments"] >= 5).to_numpy() | bare.to_numpy()


def approval_probability(frame: pd.DataFrame, stricter: float = 0.0) -> NDArray[np.float64]:
    """The chance of the applications that no rule refuses.   frame without missing values (n rows) -> (n,)"""
    cushion = 0.5 * np.log((frame["savings"] + 500) / (0.15 * frame["loan_amount"]))
    score = (
        np.minimum((0.36 - burden(frame)) / 0.10, 2.0)
        + np.log1p(frame["credit_history_months"] / 24)
        - 1.2
        - 0.6 * frame["late_payments"]
        + 0.15 * frame["employment_years"].clip(upper=8)
        + cushion.clip(-1, 1)
        + frame["employment"].map(EMPLOYMENT)
        + frame["housing"].map(HOUSING)
        + frame["purpose"].map(PURPOSE)
    )
    probability: NDArray[np.float64] = 1 / (1 + np.exp(-2 * (score.to_numpy(dtype=np.float64) - stricter)))
    return probability


def _applicants(random: Generator, rows: int) -> pd.DataFrame:
    """Who applies: age first, then what goes with it.   -> frame of `rows` rows"""
    age = np.clip(18 + random.gamma(3.2, 7.5, rows), 18, 80).round()
    schooling = random.choice(4, rows, p=[0.12, 0.45, 0.30, 0.13])
    employment = _employment(random, age)
    working = np.isin(employment, ["salaried", "self-employed", "contract"])
    years = np.where(working, np.minimum(random.exponential(5.5, rows), age - 17), 0.0)
    earned = 21_000 * np.exp(0.22 * schooling + 0.022 * years + random.normal(0, 0.38, rows))
    income = np.where(working, earned, earned * np.where(employment == "retired", 0.65, 0.35))
    history = np.clip((age - 18) * 12 * random.beta(2.0, 2.2, rows), 0, 480)
    saved = income * np.exp(random.normal(-1.6, 1.1, rows)) * (0.4 + age / 60)
    return pd.DataFrame(
        {
            "age": age.astype(int),
            "sex": random.choice(["female", "male"], rows),
            "dependents": random.choice(5, rows, p=[0.42, 0.22, 0.22, 0.10, 0.04]),
            "education": np.array(EDUCATION)[schooling],
            "employment": employment,
            "employment_years": years.round(1),
            "income": _round_to(np.clip(income, 6_000, 250_000), 100),
            "savings": _round_to(np.clip(saved, 0, 400_000), 100),
            "housing": _housing(random, age, income),
            "credit_history_months": history.round().astype(int),
            "late_payments": np.minimum(random.poisson(random.gamma(0.7, 1.3, rows)), 12),
        }
    )


def _employment(random: Generator, age: NDArray[np.float64]) -> NDArray[np.str_]:
    """age (n,) -> (n,)"""
    drawn = random.choice(["salaried", "self-employed", "contract", "unemployed"], len(age), p=[0.64, 0.14, 0.15, 0.07])
    retired = random.random(len(age)) < np.clip((age - 57) / 10, 0, 0.97)
    return np.where(retired, "retired", drawn)


def _housing(random: Generator, age: NDArray[np.float64], income: NDArray[np.float64]) -> NDArray[np.str_]:
    """Owners are older and earn more.   age (n,), income (n,) -> (n,)"""
    standing = random.normal(0, 1, len(age)) + (age - 38) / 14 + np.log(income / 28_000)
    return np.select([standing > 1.6, standing > 0.2, standing > -1.9], ["own", "mortgage", "rent"], "parents")


def _loan_terms(random: Generator, frame: pd.DataFrame) -> dict[str, NDArray[np.generic]]:
    """What they ask for and owe already: four columns (n,)"""
    rows, income = len(frame), frame["income"].to_numpy(dtype=np.float64)
    purpose = random.choice(list(PURPOSE), rows, p=[0.30, 0.18, 0.10, 0.10, 0.20, 0.12])
    appetite = np.where(np.isin(purpose, ["home", "business"]), 0.75, 0.45)
    amount = np.clip(income * appetite * np.exp(random.normal(-0.35, 0.6, rows)), 1_000, 90_000)
    return {
        "debt_ratio": np.clip(random.beta(1.8, 7.0, rows), 0, 0.9).round(2),
        "loan_amount": _round_to(amount, 500),
        "loan_months": random.choice(np.arange(12, 85, 6), rows),
        "purpose": purpose,
    }


def _round_to(values: NDArray[np.float64], step: int) -> NDArray[np.int64]:
    """values (n,) -> multiples of step (n,)"""
    return np.rint(values / step).astype(np.int64) * step


def _with_missing(random: Generator, frame: pd.DataFrame) -> pd.DataFrame:
    """Some applicants leave a field empty, whoever they are."""
    for name, share in {"savings": 0.05, "employment_years": 0.03, "housing": 0.03}.items():
        frame[name] = frame[name].mask(random.random(len(frame)) < share)
    return frame
