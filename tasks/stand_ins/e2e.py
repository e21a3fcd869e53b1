"""Invented restaurants: a meaning representation and several ways of saying it, in the shape of the E2E data."""

from __future__ import annotations

from functools import lru_cache
from random import Random

INSTANCES = {"train": 1500, "validation": 150, "test": 200}
REFERENCES = {"train": (2, 5), "validation": (3, 9), "test": (3, 9)}  # least and most a meaning representation

NAMES = (
    "The Brambly Kettle", "Quillon House", "Zambrosa", "The Copper Wren", "Fennimoor", "The Tin Otter", "Larkendale",
    "Osterby Rooms", "The Mossy Anchor", "Pellucine", "Vintrosa", "The Paper Heron", "Dunmarrow", "The Velvet Newt",
    "Thistlecombe", "The Idle Magpie", "Corvantes", "The Salted Plum", "Ombrellino", "Wexhollow",
)  # fmt: skip
PLACES = ("Harrowby Mill", "the Old Glassworks", "Tamsin Gate", "Pondering Hall", "Skylark Wharf", "Bellows Yard")
FOODS = ("Italian", "French", "Indian", "Chinese", "Japanese", "English", "Fast food")
KINDS = ("restaurant", "pub", "coffee shop")
PRICES = {
    "cheap": "cheap prices",
    "moderate": "moderate prices",
    "high": "high prices",
    "less than £20": "meals for less than £20",
    "£20-25": "meals for £20-25",
    "more than £30": "meals for more than £30",
}
RATINGS = ("low", "average", "high", "1 out of 5", "3 out of 5", "5 out of 5")
AREAS = {"riverside": "by the riverside", "city centre": "in the city centre"}


@lru_cache(maxsize=4)
def rows(split: str) -> list[dict[str, str]]:
    """Rows with the columns `mr` and `ref`; no meaning representation is in two splits."""
    random, seen = Random(f"stand-in e2e {split}"), set()
    least, most = REFERENCES[split]
    result = []
    while len(seen) < INSTANCES[split]:
        slots = _slots(random, split)
        mr = ", ".join(f"{key}[{value}]" for key, value in slots.items())
        if mr in seen:
            continue
        seen.add(mr)
        wanted = random.randint(least, most)
        references = {_text(random, slots): None for _ in range(3 * wanted)}  # ordered, without repeats
        result += [{"mr": mr, "ref": text} for text in list(references)[:wanted]]
    return result


def _slots(random: Random, split: str) -> dict[str, str]:
    """Slot values of one instance. Each split has pairs of name and place of its own, so no instance is shared."""
    name = random.randrange(len(NAMES))
    place = random.choice([p for p in range(len(PLACES)) if _split_of(name, p) == split])
    optional = {
        "food": random.choice(FOODS),
        "priceRange": random.choice(list(PRICES)),
        "customer rating": random.choice(RATINGS),
        "area": random.choice(list(AREAS)),
        "familyFriendly": random.choice(("yes", "no")),
    }
    kept = set(random.sample(sorted(optional), random.choice((1, 2, 2, 3, 3, 4, 5))))
    slots = {"name": NAMES[name], "eatType": random.choice(KINDS)}
    return slots | {key: value for key, value in optional.items() if key in kept} | {"near": PLACES[place]}


def _split_of(name: int, place: int) -> str:
    return {0: "validation", 1: "test"}.get((name + place) % len(PLACES), "train")


def _text(random: Random, slots: dict[str, str]) -> str:
    """One reference: an opening that may go many ways, then the remaining facts in the order of the slots."""
    food = f"{slots['food']} " if "food" in slots else ""
    near, area = f"near {slots['near']}", AREAS.get(slots.get("area"))
    where = random.choice((near, f"{area} {near}", f"{near} {area}") if area else (near,))
    opening = random.choice(
        (
            "{name} is a {food}{kind} {where}.",
            "{Where}, there is a {food}{kind} called {name}.",
            "There is a {food}{kind} {where} called {name}.",
            "The {food}{kind} {name} is {where}.",
            "{name}, {where}, is a {food}{kind}.",
        )
    )
    kind = slots["eatType"]
    first = opening.format(name=slots["name"], food=food, kind=kind, where=where, Where=where[0].upper() + where[1:])
    return " ".join([first, *_facts(random, slots)]).replace("a English", "an English").replace("a I", "an I")


def _facts(random: Random, slots: dict[str, str]) -> list[str]:
    clauses = []
    if "priceRange" in slots:
        clauses.append(random.choice(("offers {}", "has {}")).format(PRICES[slots["priceRange"]]))
    if "customer rating" in slots:
        rating = slots["customer rating"]
        clauses.append(random.choice((f"has a customer rating of {rating}", f"is rated {rating} by customers")))
    if "familyFriendly" in slots:
        no = "not " if slots["familyFriendly"] == "no" else ""
        clauses.append(
            random.choice((f"is {no}family friendly", f"does {no}welcome children" if no else "is for kids"))
        )
    if len(clauses) > 1 and random.random() < 0.6:
        return [f"It {', '.join(clauses[:-1])} and {clauses[-1]}."]
    return [f"It {clause}." for clause in clauses]
