"""Invented sentences of one pattern in four languages: who does what to which thing, where and when.

The languages order the parts differently (German moves the time forward, Chinese the time to the start and the verb
behind the place), so a translation is more than a word-by-word copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random

ROWS = {"train": 4000, "validation": 150, "test": 200}

# each entry: en, de, ro, zh
PEOPLE = (
    ("man", "Mann m", "bărbatul m", "男人"), ("woman", "Frau f", "femeia f", "女人"),
    ("boy", "Junge m", "băiatul m", "男孩"), ("girl", "Mädchen n", "fata f", "女孩"),
    ("teacher", "Lehrer m", "profesorul m", "老师"), ("cook", "Koch m", "bucătarul m", "厨师"),
    ("doctor", "Ärztin f", "doctorița f", "医生"), ("child", "Kind n", "copilul m", "孩子"),
)  # fmt: skip
LOOKS = (
    ("old", "alte", "bătrân bătrână", "年老的"), ("young", "junge", "tânăr tânără", "年轻的"),
    ("tired", "müde", "obosit obosită", "疲倦的"), ("happy", "fröhliche", "fericit fericită", "高兴的"),
    ("tall", "große", "înalt înaltă", "高大的"),
)  # fmt: skip
DEEDS = (
    ("carries", "trägt", "poartă", "拿着"), ("paints", "malt", "pictează", "画着"),
    ("sells", "verkauft", "vinde", "卖着"), ("cleans", "putzt", "curăță", "清洗"),
    ("looks for", "sucht", "caută", "寻找"), ("repairs", "repariert", "repară", "修理"),
)  # fmt: skip
THINGS = (
    ("basket", "Korb m", "coșul m", "篮子"), ("lamp", "Lampe f", "lampa f", "灯"),
    ("bicycle", "Fahrrad n", "bicicleta f", "自行车"), ("table", "Tisch m", "scaunul m", "桌子"),
    ("bag", "Tasche f", "geanta f", "包"), ("boat", "Boot n", "barca f", "小船"),
    ("hat", "Hut m", "pălăria f", "帽子"), ("ball", "Ball m", "mingea f", "球"),
)  # fmt: skip
COLOURS = (
    ("red", "rote", "roșu roșie", "红色的"), ("green", "grüne", "verde verde", "绿色的"),
    ("white", "weiße", "alb albă", "白色的"), ("black", "schwarze", "negru neagră", "黑色的"),
)  # fmt: skip
PLACES = (
    ("in the garden", "im Garten", "în grădină", "在花园里"),
    ("on the bridge", "auf der Brücke", "pe pod", "在桥上"),
    ("at the market", "auf dem Markt", "la piață", "在市场"),
    ("in front of the house", "vor dem Haus", "în fața casei", "在房子前面"),
    ("near the river", "am Fluss", "lângă râu", "在河边"),
    ("behind the school", "hinter der Schule", "în spatele școlii", "在学校后面"),
)
TIMES = (
    ("in the morning", "am Morgen", "dimineața", "早上"), ("in the evening", "am Abend", "seara", "晚上"),
    ("on Sunday", "am Sonntag", "duminică", "星期天"), ("today", "heute", "astăzi", "今天"),
    ("every day", "jeden Tag", "în fiecare zi", "每天"),
)  # fmt: skip
LANGUAGES = ("en", "de", "ro", "zh")
PARTS = (PEOPLE, LOOKS, DEEDS, THINGS, COLOURS, PLACES, TIMES)
NOMINATIVE, ACCUSATIVE = {"m": "der", "f": "die", "n": "das"}, {"m": "den", "f": "die", "n": "das"}


@lru_cache(maxsize=16)
def rows(source: str, target: str, split: str) -> list[dict[str, str]]:
    """Rows with the columns `source` and `target`, named by language; no sentence is in two splits."""
    random, seen = Random(f"stand-in translation {split}"), set()
    while len(seen) < ROWS[split]:
        choice = tuple(random.randrange(len(options)) for options in PARTS)
        if _split_of(choice) == split:
            seen.add(choice)
    chosen = sorted(seen)
    random.shuffle(chosen)
    return [{language: sentence(choice, language) for language in (source, target)} for choice in chosen]


def _split_of(choice: Sequence[int]) -> str:
    return {0: "validation", 1: "test"}.get(sum(choice) % 10, "train")


def sentence(choice: Sequence[int], language: str) -> str:
    """The sentence made of these parts in one language."""
    column = LANGUAGES.index(language)
    who, look, deed, thing, colour, place, time = (
        options[index][column] for options, index in zip(PARTS, choice, strict=True)
    )
    if language == "zh":
        return f"{time}{look}{who}{place}{deed}{colour}{thing}。"
    if language == "de":
        subject, gender = who.split()
        item, kind = thing.split()
        ending = "n" if kind == "m" else ""  # weak accusative, masculine only
        text = (
            f"{NOMINATIVE[gender]} {look} {subject} {deed} {time} {ACCUSATIVE[kind]} {colour}{ending} {item} {place}."
        )
    elif language == "ro":
        subject, item = _romanian(who, look), _romanian(thing, colour)
        text = f"{subject} {deed} {item} {place} {time}."
    else:
        text = f"the {look} {who} {deed} the {colour} {thing} {place} {time}."
    return text[0].upper() + text[1:]


def _romanian(noun: str, adjective: str) -> str:
    word, gender = noun.split()
    return f"{word} {adjective.split()[gender == 'f']}"
