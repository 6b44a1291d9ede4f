"""Protected attributes: which columns say of a person what nobody may be advised to change, whatever the models say.

Two tables decide: how such columns are called (`NAMES`), and what they hold (`VALUES`). A name is weak evidence and a
value still more so, so the mark is a default, not a legal opinion: the user is told of it and can lift it. Where there
is doubt the column is protected all the same, and the notice asks.

>>> find_protected("Familienstand")
Protected(kind='family', sure=True)
>>> find_protected("single", ("no", "yes"))
Protected(kind='family', sure=False)
>>> find_protected("single_payment_amount") is None
True
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .schema import Feature

NAMES: Mapping[str, Mapping[str, str]] = {
    "age": {
        "en": "age, birth, birthdate, birthday, birthyear, date of birth, dob, yob, elderly, years old, age group, "
        "agegrp, age band, age range, age bracket, age category, agecat, age class, customer age, applicant age, "
        "client age, borrower age, person age, custage",
        "de": "alter, lebensalter, kundenalter, eintrittsalter, altersgruppe, altersklasse, geburt, geburtsdatum, "
        "geburtsjahr, geburtstag, geb datum, geb dat, geb jahr",
        "fr": "âge, tranche d âge, naissance, date naissance, âge client",
        "es": "edad, nacimiento, fecha nacimiento, fecha nac",
        "it": "nascita, data nascita, data di nascita, anno nascita, fascia eta",
        "pt": "idade, nascimento, data nascimento, faixa etária",
        "nl": "leeftijd, leeftijdsgroep, geboorte, geboortedatum, geboortejaar",
        "pl": "wiek, urodzenia",
        "sv da no": "ålder, alder, aldersgruppe, födelsedatum, födelseår, fødselsdato, fødselsår, fødselsdag",
        "fi cs hu ro": "ikä, syntymäaika, syntymävuosi, věk, narození, életkor, születés, vârsta, naștere",
        "el ru uk bg": "ηλικία, γέννησης, возраст, рождения, вік, народження, възраст",
    },
    "sex": {
        "en": "sex, gender, male, female, pregnancy, pregnant, maternity, sexual, lgbt, transgender, gender code, "
        "gender id, sex code",
        "de": "geschlecht, geschl, weiblich, männlich, schwanger, schwangerschaft, mutterschutz, anrede",
        "fr": "sexe, civilité, homme, femme, enceinte, grossesse",
        "es": "sexo, género, hombre, mujer, embarazo, embarazada",
        "it": "sesso, maschio, femmina, gravidanza, incinta",
        "pt": "sexo, gênero, homem, mulher, gravidez, grávida",
        "nl": "geslacht, zwanger, zwangerschap",
        "pl": "płeć, ciąża, kobieta, mężczyzna",
        "sv da no": "kön, køn, kjønn, gravid, graviditet, kvinna, kvinde, kvinne",
        "fi cs hu ro": "sukupuoli, raskaus, pohlaví, těhotenství, neme, terhes, sarcină",
        "el ru uk bg": "φύλο, пол, стать",
    },
    "race or ethnicity": {
        "en": "race, racial, ethnicity, ethnic, skin, afam, hispanic, latino, latina, caucasian, tribe, caste, race "
        "code",
        "de": "rasse, ethnie, ethnisch, ethnische, hautfarbe, herkunft",
        "fr": "ethnie, ethnique, origine ethnique, couleur de peau, couleur peau",
        "es": "raza, etnia, étnico, étnica, color de piel, color piel",
        "it": "razza, etnia, etnico, etnica",
        "pt": "raça, etnia, cor da pele, cor raça",
        "nl": "etniciteit, etnisch, etnische, huidskleur, afkomst",
        "pl": "rasa, etniczność, etniczne, kolor skóry",
        "sv da no": "etnicitet, etnisitet, etnisk, hudfärg, hudfarve, hudfarge",
        "fi cs hu ro": "etnisyys, etnicita, etnikum, etnie",
        "el ru uk bg": "φυλή, εθνότητα, раса, этническая",  # noqa: RUF001
    },
    "origin": {
        "en": "nationality, citizenship, citizen, native, foreign, foreigner, immigrant, immigration, birthplace, "
        "national origin, mother tongue",
        "de": "nationalität, staatsangehörigkeit, staatsbürgerschaft, ausländer, migrationshintergrund, geburtsort, "
        "geburtsland, gastarbeiter, herkunftsland, staatsangeh, staatsbürger, muttersprache",
        "fr": "nationalité, citoyenneté, étranger, étrangère, immigré, pays d origine, langue maternelle",
        "es": "nacionalidad, ciudadanía, extranjero, extranjera, inmigrante, país de origen, lengua materna",
        "it": "nazionalità, cittadinanza, straniero, straniera, immigrato, paese di origine, lingua madre",
        "pt": "nacionalidade, cidadania, estrangeiro, estrangeira, imigrante, naturalidade",
        "nl": "nationaliteit, staatsburgerschap, buitenlander, migratieachtergrond, geboorteplaats, geboorteland",
        "pl": "narodowość, obywatelstwo, cudzoziemiec",
        "sv da no": "nationalitet, nasjonalitet, medborgarskap, statsborgerskab, statsborgerskap, födelseland, "
        "fødeland",
        "fi cs hu ro": "kansalaisuus, národnost, občanství, állampolgárság, nemzetiség, naționalitate, cetățenie",
        "el ru uk bg": "εθνικότητα, ιθαγένεια, υπηκοότητα, национальность, гражданство, національність, громадянство, "
        "националност",
    },
    "religion": {
        "en": "religion, religious, faith, church member",
        "de": "konfession, religionszugehörigkeit, religiös, kirchensteuer, glaube",
        "fr": "religieux, religieuse, confession",
        "es": "religión, religioso, religiosa",
        "it": "religione, religioso, religiosa",
        "pt": "religião, religioso, religiosa",
        "nl": "religie, geloof, godsdienst, kerkgenootschap",
        "pl": "religia, wyznanie",
        "sv da no": "trossamfund, trossamfunn, kyrkoavgift",
        "fi cs hu ro": "uskonto, náboženství, vallás, religie",
        "el ru uk bg": "θρησκεία, религия, релігія",
    },
    "family": {
        "en": "marital, marital status, married, marriage, divorced, widowed, widow, wife, husband, maiden name, "
        "children, kids, dependents, dependants, family status, personal status, civil status, familial status, "
        "relationship status, status sex",
        "de": "familienstand, familienstatus, zivilstand, personenstand, verheiratet, geschieden, verwitwet, ledig, "
        "kinder, kinderzahl, kinderanzahl, unterhaltspflichtige, famst, fam stand, familienst, ehestand, ehepartner, "
        "ehegatte, ehefrau, ehemann",
        "fr": "état civil, situation familiale, situation matrimoniale, situation famille, situation fam, sit fam, "
        "statut marital, statut "
        "matrimonial, matrimonial, marié, mariée, divorcé, divorcée, célibataire, veuf, veuve, enfants, personnes à "
        "charge",
        "es": "estado civil, est civil, casado, casada, divorciado, divorciada, soltero, soltera, viudo, viuda, hijos, "
        "dependientes",
        "it": "stato civile, coniugato, coniugata, sposato, sposata, divorziato, divorziata, celibe, nubile, "
        "vedovo, vedova, figli, familiari a carico",
        "pt": "estado civil, casado, casada, divorciado, divorciada, solteiro, solteira, viúvo, viúva, filhos, "
        "dependentes",
        "nl": "burgerlijke staat, gehuwd, getrouwd, gescheiden, ongehuwd, weduwe, kinderen, gezinssituatie",
        "pl": "stan cywilny, żonaty, zamężna, rozwiedziony, rozwiedziona, kawaler, panna, wdowiec, wdowa, dzieci",
        "sv da no": "civilstånd, civilstand, sivilstand, sivilstatus, civilstatus, skild, skilt, ogift, ugift, "
        "antal barn, antall barn, børn",
        "fi cs hu ro": "siviilisääty, rodinný stav, családi állapot, starea civilă, stare civilă, lapset, lasten "
        "lukumäärä, copii",
        "el ru uk bg": "οικογενειακή κατάσταση, τέκνα, семейное положение, дети, детей, сімейний стан, діти, "
        "семейно положение, деца",
    },
    "disability": {
        "en": "disability, disabled, handicap, handicapped, health status, veteran",
        "de": "behinderung, behindert, schwerbehindert, schwerbehinderung, schwerbeh, grad der behinderung, gdb, "
        "gesundheitszustand",
        "fr": "handicapé, handicapée, invalidité",
        "es": "discapacidad, discapacitado, minusvalía, invalidez",
        "it": "disabilità, disabile, invalidità",
        "pt": "deficiência, deficiente, invalidez",
        "nl": "handicaps, arbeidsongeschikt, gehandicapt",
        "pl": "niepełnosprawność, niepełnosprawny",
        "sv da no": "funktionsnedsättning, funktionshinder, handicappet, funksjonshemming, funksjonsnedsettelse",
        "fi cs hu ro": "vammaisuus, postižení, fogyatékosság, dizabilitate",
        "el ru uk bg": "αναπηρία, инвалидность, інвалідність, инвалидност",
    },
    "beliefs": {
        "en": "sexual orientation, political party, political opinion, political affiliation, trade union, union "
        "member",
        "de": "gewerkschaft, gewerkschaftsmitglied, parteizugehörigkeit, sexuelle orientierung",
        "fr": "syndicat, orientation sexuelle, opinion politique",
        "es it pt": "sindicato, sindacato, orientación sexual, orientamento sessuale, orientação sexual",
    },
}
"""How the columns are called, by language: words, or several in a row, which may also be written as one word; matched
without accents, never inside a word."""

DOUBTFUL: Mapping[str, str] = {
    "race or ethnicity": "black, white, asian, african, minority, schwarz, noir, noire, negro, negra, nero, nera, "
    "preto, preta, zwart, svart, ras",
    "family": "single, spouse, partner, bachelor, mother, father, gift",
    "sex": "man, woman, frau, mann, donna, uomo, vrouw",
    "origin": "migrant, expat, inländer",
    "age": "young, pensioner",
    "religion": "christian, muslim, jewish, hindu, catholic, protestant",
}
"""These say it only where they are all there is to the name, and the values are yes and no."""

ALONE: Mapping[str, str] = {
    "sex": "genre, genere",
    "origin": "nation",
    "religion": "church",
    "family": "family size, famrel",
}
"""Where they are all there is to the name, there is doubt, whatever the values are."""

ETA, ACCENTED = "eta", "età"
"""Italian for age, and without its accent much else: then there is doubt where the numbers are those of ages."""

ENDINGS = ("kinder", "enfants", "hijos", "figli", "filhos")
"""Short words that are also found at the end of a compound: `numhijos`."""

VALUES: Mapping[str, str] = {
    "sex": "male, female, man, woman, men, women, mann, frau, männlich, weiblich, divers, homme, femme, masculin, "
    "féminin, hombre, mujer, masculino, femenino, feminino, homem, mulher, uomo, donna, maschio, femmina, vrouw, "
    "mężczyzna, kobieta, kvinna, kvinde, kvinne, mand, nonbinary, non binary, mr, mrs, ms, herr, monsieur, madame",
    "race or ethnicity": "black, white, asian, hispanic, latino, latina, caucasian, african american, native "
    "american, amer indian eskimo, asian pac islander, pacific islander, african, schwarz, weiß, noir, blanc, "
    "negro, blanco, preto, pardo, branco, zwart, wit, mixed race, arab, roma",
    "family": "single, married, divorced, widowed, widow, widower, separated, unmarried, never married, husband, "
    "wife, cohabiting, ledig, verheiratet, geschieden, verwitwet, getrennt, célibataire, marié, mariée, divorcé, "
    "divorcée, veuf, veuve, pacsé, soltero, soltera, casado, casada, divorciado, divorciada, viudo, viuda, celibe, "
    "nubile, coniugato, coniugata, divorziato, divorziata, vedovo, vedova, solteiro, solteira, viúvo, viúva, "
    "gehuwd, ongehuwd, gescheiden, weduwe, kawaler, panna, żonaty, zamężna, rozwiedziony, rozwiedziona, wdowiec, "
    "wdowa, gift, ogift, ugift, skild, skilt",
    "religion": "christian, muslim, islam, jewish, hindu, buddhist, catholic, roman catholic, protestant, orthodox, "
    "evangelisch, katholisch, römisch katholisch, muslimisch, jüdisch, catholique, católico, cattolico",
}
"""What the columns hold: a value counts where it is one of these, or begins or ends with one of the longer words."""


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


CODES = ({"m", "f"}, {"m", "w"}, {"h", "f"}, {"m", "v"}, {"k", "m"}, {"m", "f", "x"}, {"m", "w", "d"}, {"b", "w"})
"""Codes of sex, and of race; they may stand for anything, so the notice asks."""

FLAGS = _listed(
    "0 1 yes no y n true false t f ja nein j nee nej oui non o si s sim nao tak nie nem igen ano ne da nu on off"
)
FILLERS = _listed(
    "is was has are applicant applicants borrower customer client person primary main co flag ind indicator yn "
    "status the a of ist hat kunde antragsteller est es e dummy var binary bin"
)
"""Words that leave a name what it is: `is_black`, `applicant_single_flag`."""

THINGS = _listed(
    "account accounts building business car card cards company credit debt employment file history home house job "
    "line loan mortgage property trade trades vehicle konto kontos kredit fahrzeug haus gebäude firma unternehmens "
    "vertrag compte crédit véhicule logement cuenta crédito coche vivienda conto credito auto casa conta carro "
    "krediet rekening woning konta kredytu"
)
"""Things with an age of their own, or that can be disabled: `account_age` is not the applicant's."""

OTHERWISE = frozenset(
    {
        *(("race", "condition"), ("foreign", "currency"), ("foreign", "exchange"), ("foreign", "transaction")),
        *(("foreign", "transactions"), ("foreign", "trade"), ("native", "currency"), ("native", "app")),
        *(("good", "faith"), ("alter", "table"), ("citizen", "bank"), ("birth", "rate"), ("skin", "care")),
    }
)
"""Pairs of words of which one would be a name by itself."""

LEAST_JOINED = 6
LEAST_COMPOUND = 8
"""Words so long are also found at the end of a compound: `Kundengeschlecht`."""

_WORD = re.compile(r"[A-ZÄÖÜ]+(?![a-zäöüß])|[^\W\d_]?[^\W\d_A-Z]+|[A-Z]+")
_PLAIN = str.maketrans({"ß": "ss", "ł": "l", "ø": "o", "æ": "ae", "đ": "d", "œ": "oe"})
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "ß": "ss"})


@dataclass(frozen=True, slots=True)
class Protected:
    """What a column says of a person; `sure`: by its name, else there is doubt and somebody should be asked."""

    kind: str
    sure: bool


def find_protected(name: str, values: Sequence[str] = (), ages: bool = False) -> Protected | None:
    """What a column of this name, with these different values, would say of a person; None: nothing protected.

    ages: whether its numbers could be the ages of people
    """
    words = _words(name)
    if kind := _named(words):
        return Protected(kind, sure=True)
    accented = ACCENTED in re.findall(r"[^\W\d_]+", unicodedata.normalize("NFC", name).casefold())
    if ETA in words and (ages or accented) and _THINGS.isdisjoint(words):
        return Protected("age", sure=False)
    told = [text for text in map(_fold, values) if text]
    flags = bool(told) and set(told) <= FLAGS
    kind = _alone(words, _ALONE) or (_alone(words, _DOUBT_OF) if flags else None) or _held(told)
    return None if kind is None else Protected(kind, sure=False)


def protected_of(feature: Feature) -> Protected | None:
    """The same for a feature, whose categories are its values; a number from 0 to 1 in whole steps is a flag."""
    if feature.is_categorical:
        return find_protected(feature.name, feature.categories)
    flag = (feature.lower, feature.upper, feature.step) == (0.0, 1.0, 1.0)
    ages = feature.lower >= 14 and 40 <= feature.upper <= 125
    return find_protected(feature.name, ("0", "1") if flag else (), ages)


def protected_notice(name: str, found: Protected) -> str:
    """The notice about such a column for the owner of the table."""
    lift = f'{{"features": {{"{name}": {{"protected": false}}}}}}'
    rule = "it is never suggested as something to change"
    if found.sure:
        fact = f"Column '{name}' looks like a protected attribute ({found.kind}): {rule}."
        return f"{fact} If it is none, say so in the schema's overrides: {lift}."
    fact = f"Does column '{name}' tell a protected attribute ({found.kind})? Its name and values suggest so"
    fact = f"{fact}; until you say no, {rule}."
    return f"{fact} To say no, put this into the schema's overrides: {lift}."


def _fold(text: str) -> str:
    """The text in small letters, without accents and marks: "Amer-Indian" is "amer indian"."""
    decomposed = unicodedata.normalize("NFKD", text.casefold().translate(_PLAIN))
    letters = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return " ".join(re.findall(r"[^\W_]+", letters))


def _words(name: str) -> tuple[str, ...]:
    return tuple(_fold(word) for word in _WORD.findall(unicodedata.normalize("NFC", name)))


def _phrases(table: Iterable[str]) -> set[tuple[str, ...]]:
    """The entries as rows of words, each as a person writes it without accents: "koen" and "kon" for "kön".

    Longer ones also as one word: "estadocivil".
    """
    entries = [entry.strip() for texts in table for entry in texts.split(",")]
    rows = {tuple(_fold(form).split()) for entry in entries for form in (entry, entry.translate(_UMLAUTS))}
    return rows | {(joined,) for row in rows if len(joined := "".join(row)) >= LEAST_JOINED}


_KIND_OF = {phrase: kind for kind, table in NAMES.items() for phrase in _phrases(table.values())}
_DOUBT_OF = {phrase: kind for kind, texts in DOUBTFUL.items() for phrase in _phrases([texts])}
_ALONE = {phrase: kind for kind, texts in ALONE.items() for phrase in _phrases([texts])}
_HELD_OF = {" ".join(phrase): kind for kind, texts in VALUES.items() for phrase in _phrases([texts])}
_THINGS = frozenset(map(_fold, THINGS))
_LONGEST = max(map(len, _KIND_OF))
_COMPOUNDS = {
    phrase[0]: kind
    for phrase, kind in _KIND_OF.items()
    if len(phrase) == 1 and (len(phrase[0]) >= LEAST_COMPOUND or phrase[0] in ENDINGS)
}


def _named(words: tuple[str, ...]) -> str | None:
    if any(pair in OTHERWISE for pair in pairwise(words)):
        return None
    for start in range(len(words)):
        for length in range(min(_LONGEST, len(words) - start), 0, -1):
            kind = _KIND_OF.get(words[start : start + length])
            if kind is not None and not (kind in ("age", "disability") and not _THINGS.isdisjoint(words)):
                return kind
    found = (kind for word in words for ending, kind in _COMPOUNDS.items() if word != ending and word.endswith(ending))
    return next(found, None)


def _alone(words: tuple[str, ...], table: Mapping[tuple[str, ...], str]) -> str | None:
    """What the name says if these words are all there is to it."""
    return table.get(tuple(word for word in words if word not in FILLERS))


def _held(values: Sequence[str]) -> str | None:
    """The attribute that at least two, and half, of the folded values stand for."""
    if any(set(values) == codes for codes in CODES):
        return "race or ethnicity" if set(values) == {"b", "w"} else "sex"
    kinds = [kind for kind in map(_held_by, values) if kind is not None]
    for kind in VALUES:
        if kinds.count(kind) >= max(2, len(values) / 2):
            return kind
    return None


def _held_by(value: str) -> str | None:
    if value in _HELD_OF:
        return _HELD_OF[value]
    words = value.split()
    ends = (words[0], words[-1]) if len(words) > 1 else ()
    long = (word for word in ends if len(word) >= 4 and word not in ("single", "mixed", "white", "black", "gift"))
    return next((_HELD_OF[word] for word in long if word in _HELD_OF), None)
