"""Invented forum posts with a one-sentence summary. The facts stand near the start, small talk fills the rest."""

from __future__ import annotations

from functools import lru_cache
from random import Random

ROWS = {"train": 2000, "validation": 150, "test": 200}
WORDS = (180, 340)  # least and most in a post; the real median is near 260

FORUMS = ("smalltalk", "housemates", "officelife", "familymatters", "gardenfence", "studentlife")
PEOPLE = (
    "sister", "brother", "roommate", "boss", "neighbour", "cousin", "uncle", "landlord", "colleague", "teammate",
    "teacher", "grandmother",
)  # fmt: skip
# (how the post says it, how the summary says it)
EVENTS = (
    ("borrowed my bicycle without asking and brought it back with a broken wheel", "took my bicycle and broke a wheel"),
    ("promised to help me move house and then did not show up at all", "did not come to help me move house"),
    ("told everybody at the party a secret that I had only told one person", "told my secret at a party"),
    ("keeps eating the food I label and put in the back of the fridge", "keeps eating my food from the fridge"),
    ("plays the trumpet every single night until well after midnight", "plays the trumpet until midnight"),
    ("sold my old guitar online and kept every bit of the money", "sold my guitar and kept the money"),
    ("invited twelve guests to stay in my flat while I was travelling", "let twelve guests stay in my flat"),
    ("painted the whole kitchen bright orange while I was at work", "painted our kitchen bright orange"),
    ("lost the only key to our garage somewhere on the beach", "lost our garage key on the beach"),
    ("gave my cat to a friend because of a sudden allergy", "gave my cat away because of an allergy"),
)
REACTIONS = (
    ("stayed calm at first and wrote a long and polite letter", "wrote a long polite letter"),
    ("got really angry and shouted for about ten minutes", "got angry and shouted"),
    ("said nothing and went for a very long walk in the rain", "walked in the rain without a word"),
    ("called my mother and asked her what she would do", "called my mother for help"),
    ("packed a bag and slept on a friend's sofa for a week", "slept at a friend's for a week"),
    ("asked for the money back twice and got no answer", "asked twice for the money"),
)
QUESTIONS = (
    ("I do not know whether I should forgive this or not", "should this be forgiven?"),
    ("I am thinking about moving out before the end of the month", "is it time to move out?"),
    ("I wonder whether I am the unreasonable one in all of this", "am I the unreasonable one?"),
    ("I would like to find a way to talk about it without a fight", "how can we talk without a fight?"),
    ("I am afraid that the same thing will happen again next year", "will it all happen again?"),
)
SUMMARIES = (
    "My {p} {e}; I {r}. Now {q}",
    "{e}, that is what my {p} did. I {r}, but {q}",
    "I {r} after my {p} {e}: {q}",
)
FILLER = (
    "For some background, we have known each other for {n} years now.",
    "The weather had been {mood} for days and I was tired.",
    "We live in a {size} house with a {size} garden and one bathroom.",
    "I work most evenings, so I am only at home in the {time}.",
    "Everybody I asked in the {time} had a different opinion about it.",
    "My friends think that the whole thing is {mood} and told me so.",
    "It has been like this for about {n} weeks, maybe a bit longer.",
    "On the way home I bought {n} apples and a {size} loaf of bread.",
    "I know that this sounds {mood}, but please bear with me.",
    "There is also a dog, but the dog has nothing to do with it.",
)
SLOTS = {
    "n": ("two", "three", "four", "five", "six", "ten"),
    "mood": ("strange", "terrible", "quite funny", "rather sad", "a bit odd"),
    "size": ("small", "large", "tiny", "long"),
    "time": ("morning", "afternoon", "evening"),
}


@lru_cache(maxsize=4)
def rows(split: str) -> list[dict[str, str]]:
    """Rows with the columns `subreddit`, `title`, `post` and `summary`."""
    random = Random(f"stand-in reddit_tldr {split}")
    return [_row(random) for _ in range(ROWS[split])]


def _row(random: Random) -> dict[str, str]:
    person, (event, short_event) = random.choice(PEOPLE), random.choice(EVENTS)
    (reaction, short_reaction), (question, short_question) = random.choice(REACTIONS), random.choice(QUESTIONS)
    facts = [f"Last week my {person} {event}.", f"I {reaction}.", f"Now {question}."]
    opening = [filler(random), *facts]
    post = " ".join(opening)
    wanted = random.randint(*WORDS)
    while len(post.split()) < wanted:
        post += random.choice((" ", " ", " ", "\n\n")) + filler(random)
    return {
        "subreddit": random.choice(FORUMS),
        "title": random.choice(
            (f"I need some advice about my {person} and what happened", f"What would you do if your {person} did this?")
        ),
        "post": post,
        "summary": random.choice(SUMMARIES).format(p=person, e=short_event, r=short_reaction, q=short_question),
    }


def filler(random: Random) -> str:
    """One sentence that carries no fact."""
    return random.choice(FILLER).format(**{name: random.choice(options) for name, options in SLOTS.items()})
