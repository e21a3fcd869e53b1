"""Invented news: three facts among the first five sentences of an article, and as highlights, one a line."""

from __future__ import annotations

from functools import lru_cache
from random import Random

ROWS = {"train": 1000, "validation": 100, "test": 150}
WORDS = (380, 760)  # least and most in an article; the real median is near 560

TOWNS = ("Marlow Bay", "Dunverton", "Ostrava Heath", "Kelpington", "Saint Orrin", "Velmark", "Tressing", "Holm Quay")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
NUMBERS = ("two", "three", "five", "seven", "nine", "twelve", "twenty", "forty")
PEOPLE = (
    "Ada Thornquist", "Bram Ellery", "Cora Vint", "Dario Meckle", "Elsa Prowse", "Finn Oakhurst", "Greta Lomm",
    "Hugo Starling",
)  # fmt: skip
# (article, highlight)
EVENTS = (
    ("a fire broke out in a warehouse near the old harbour", "Fire breaks out in a warehouse near the old harbour"),
    ("a train left the rails on the bridge outside the town", "Train leaves the rails on the bridge outside the town"),
    (
        "the river rose over its banks and ran through the market",
        "River rises over its banks and runs through the market",
    ),
    ("a storm tore the roof from the new sports hall", "Storm tears the roof from the new sports hall"),
    ("a painting that was thought lost turned up in an attic", "Painting that was thought lost turns up in an attic"),
    ("a power cut left most of the shops without light", "Power cut leaves most of the shops without light"),
    (
        "a bear walked into the town and sat down in the library",
        "Bear walks into the town and sits down in the library",
    ),
)
EFFECTS = (
    (
        "{n} people were taken to hospital, and all of them are expected to recover",
        "{n} people taken to hospital, all expected to recover",
    ),
    (
        "{n} families had to leave their homes and spend the night in a school",
        "{n} families leave home and spend the night in a school",
    ),
    (
        "{n} roads around the centre were closed until the next morning",
        "{n} roads around the centre closed until morning",
    ),
    (
        "{n} volunteers helped to clear the streets for most of the day",
        "{n} volunteers clear the streets for most of the day",
    ),
)
ROLES = ("the mayor", "the chief of police", "a spokeswoman", "a local teacher")
PLANS = (
    ("the town would pay for every repair before the end of the year", "the town will pay for every repair this year"),
    ("an inquiry into the causes would begin as soon as possible", "an inquiry into the causes will begin soon"),
    ("nobody could have seen this coming and nobody was to blame", "nobody saw it coming and nobody is to blame"),
    ("the annual fair would take place in spite of everything", "the annual fair will take place in spite of it"),
)
FILLER = (
    "Residents who spoke to reporters in the {time} said that they had {verb} nothing unusual.",
    "The last time that something of the kind was {verb} here was about {n} years ago.",
    "A group of {n} neighbours met in the {place} to talk about what should happen next.",
    "Shops near the {place} opened later than usual, but most of them were busy by the {time}.",
    "Experts from the region have {verb} the reports and are expected to return in the {time}.",
    "The {place} was built more than {n} decades ago and has been repaired many times since then.",
    "Photographs taken in the {time} show a crowd of people standing in front of the {place}.",
    "Schools in the area stayed open, and buses between the {place} and the station ran every hour.",
    "In a short statement the council thanked everybody who had {verb} or helped in the {time}.",
)
SLOTS = {
    "n": NUMBERS,
    "time": ("morning", "afternoon", "evening", "early hours"),
    "verb": ("seen", "heard", "noticed", "recorded"),
    "place": ("town hall", "market square", "old harbour", "church", "library"),
}


@lru_cache(maxsize=4)
def rows(split: str) -> list[dict[str, str]]:
    """Rows with the columns `article` and `highlights`."""
    random = Random(f"stand-in cnn_dm {split}")
    return [_row(random) for _ in range(ROWS[split])]


def _row(random: Random) -> dict[str, str]:
    town, day, person, role = (random.choice(options) for options in (TOWNS, DAYS, PEOPLE, ROLES))
    (event, short_event), (effect, short_effect) = random.choice(EVENTS), random.choice(EFFECTS)
    (plan, short_plan), number = random.choice(PLANS), random.choice(NUMBERS)
    sentences = [
        filler(random),
        f"{town} was a quiet place until {day}, when {event}, officials have confirmed.",
        filler(random),
        f"According to the first reports, {effect.format(n=number)}.",
        f"Speaking outside the town hall, {person}, {role}, said that {plan}.",
    ]
    article = " ".join(sentences)
    wanted = random.randint(*WORDS)
    while len(article.split()) < wanted:
        article += " " + filler(random)
    count = short_effect.format(n=number)
    highlights = (
        f"{short_event} in {town} on {day} .",
        f"{count[0].upper()}{count[1:]} .",
        f"{person}, {role}: {short_plan} .",
    )
    return {"article": article, "highlights": "\n".join(highlights)}


def filler(random: Random) -> str:
    """One sentence that carries no fact."""
    return random.choice(FILLER).format(**{name: random.choice(options) for name, options in SLOTS.items()})
