"""Which columns are taken for protected attributes: by the names that lenders use in Europe, and by what they hold."""

import pytest

from models.data.protected import NAMES, VALUES, Protected, find_protected, protected_notice, protected_of
from models.data.schema import Feature, FeatureKind

SURE = {
    "age": "age AGE age_cat ApplicantAge age-years DAYS_BIRTH dob|Alter|ALTER|Kundenalter|âge|date_naissance|"
    "customer age|edad|fecha_nacimiento|fascia_eta|idade|leeftijd|wiek|ålder|alder|Födelseår|ikä|"
    "dateofbirth|yob|agegroup|CustomerAge|Geb_Datum|GebDat|datanascita|возраст|ηλικία",
    "sex": "sex SEX CODE_GENDER Gender is_female personal_sex|geschlecht|Kundengeschlecht|sexe|sexo|género|sesso|"
    "genero|geslacht|płeć|plec|kön|koen|køn|kjonn|is_pregnant|schwangerschaft|Geschl|пол",
    "race or ethnicity": "race Ethnicity ethnic_group afam|hautfarbe|ethnie|raza|razza|raça|etniciteit|rasa|"
    "couleur_peau",
    "origin": "native-country nationality foreign_worker national_origin|Staatsangehörigkeit|"
    "staatsangehoerigkeit|nationalité|extranjero|cittadinanza|nacionalidade|nationaliteit|obywatelstwo|medborgarskap|Herkunftsland|mother_tongue|гражданство",
    "religion": "religion|Konfession|religión|religione|godsdienst|wyznanie",
    "family": "marital-status MARRIAGE NAME_FAMILY_STATUS personal_status CNT_CHILDREN num_dependents|Familienstand|"
    "FAMILIENSTAND|zivilstand|état civil|etat_civil|situation_familiale|estado_civil|EstadoCivil|stato_civile|"
    "burgerlijke_staat|stan_cywilny|civilstånd|sivilstatus|siviilisääty|anzahl_kinder|estadocivil|statocivile|etatcivil|maritalstatus|burgerlijkestaat|FamStand|sitfam|"
    "number_of_kids|numhijos|nb_enfants|husband|семейное_положение",
    "disability": "disability|schwerbehindert|discapacidad|disabilità|niepełnosprawność",
}
OTHERS = (
    "income|savings|account_age|AverageMInFile|credit_age_months|age_of_oldest_trade|average_balance|mortgage|usage|percentage|"
    "stage|wage|email|Essex|x1|employment_years|relationship||page|language|race_condition|single_payment_amount|blacklisted|"
    "white_goods|foreign_currency_loan|kontoalter|alter_des_kontos|gift_card|account_disabled|birth_rate|grace_period|trace|"
    "car_age_group|account_age_band|house_years_old|native_app|foreign_trade_loans|genre_bien|alternative|sextile|Zinssatz|kredithöhe|verwendungszweck|in_good_faith|eta"
)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in SURE.items() for name in names.split("|")])
def test_protected_attributes_are_known_by_name(kind: str, name: str) -> None:
    each = name.split() if name.startswith(("age ", "sex ", "race ", "native", "marital")) else [name]
    for one in each:
        found = find_protected(one)
        assert found is not None and (found.kind, found.sure) == (kind, True), one


@pytest.mark.parametrize("name", OTHERS.split("|"))
def test_other_columns_are_left_alone(name: str) -> None:
    """Whole words count, never parts of them; a yes and no beside a harmless name says nothing."""
    assert find_protected(name) is None
    assert find_protected(name, ("no", "yes")) is None


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("black", ("no", "yes"), "race or ethnicity"),
        ("is_black", ("0", "1"), "race or ethnicity"),
        ("single", ("nein", "ja"), "family"),
        ("applicant_single_flag", ("False", "True"), "family"),
        ("x3", ("Female", "Male"), "sex"),
        ("kz1", ("m", "w"), "sex"),
        ("kz1", ("männlich", "weiblich", "divers"), "sex"),
        ("personal", ("male single", "female div/dep/mar", "male mar/wid"), "sex"),
        ("group", ("black", "white"), "race or ethnicity"),
        ("status", ("married", "single", "widow"), "family"),
        ("relationship", ("Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife"), "family"),
        ("stand", ("ledig", "verheiratet", "geschieden"), "family"),
        ("k7", ("katholisch", "evangelisch", "keine"), "religion"),
        ("genre", ("1", "2"), "sex"),
        ("family_size", (), "family"),
    ],
)
def test_where_values_say_it_there_is_doubt_and_the_notice_asks(name: str, values: tuple[str, ...], kind: str) -> None:
    found = find_protected(name, values)
    assert found is not None and (found.kind, found.sure) == (kind, False)
    notice = protected_notice(name, found)
    assert notice.startswith(f"Does column '{name}' tell a protected attribute ({kind})?")
    assert f'{{"features": {{"{name}": {{"protected": false}}}}}}' in notice


@pytest.mark.parametrize(
    "values",
    [("rent", "own"), ("single family", "multi family", "condo"), ("A", "B"), ("fixed", "freelance"), ("no", "yes")],
)
def test_other_values_say_nothing(values: tuple[str, ...]) -> None:
    assert find_protected("x3", values) is None


def test_numbers_are_read_with_the_name() -> None:
    assert protected_of(Feature("black", FeatureKind.INTEGER, 0, 1)) is not None
    assert protected_of(Feature("black", FeatureKind.INTEGER, 0, 9)) is None
    ages, hours = Feature("Età", FeatureKind.INTEGER, 18, 90), Feature("eta", FeatureKind.NUMERIC, 0, 3)
    found = protected_of(ages)
    assert found is not None and not found.sure and protected_of(hours) is None
    assert find_protected("età cliente", ("18-25", "26-40", "41+")) == Protected("age", sure=False)
    assert find_protected("età del conto") is None


def test_the_tables_are_readable_and_each_entry_is_found() -> None:
    for kind, languages in NAMES.items():
        for entries in languages.values():
            for entry in entries.split(","):
                found = find_protected(entry.strip().replace(" ", "_"))
                assert found is not None, entry
                assert found.kind == kind or found.kind in NAMES
    for kind, values in VALUES.items():
        for value in values.split(","):
            found = find_protected("x", (value.strip(), values.split(",")[0].strip(), values.split(",")[1].strip()))
            assert found is not None and found.kind == kind, value


def test_the_notice_says_how_to_lift_it() -> None:
    found = find_protected("age_cat")
    assert found is not None
    notice = protected_notice("age_cat", found)
    assert "'age_cat'" in notice and '{"features": {"age_cat": {"protected": false}}}' in notice
