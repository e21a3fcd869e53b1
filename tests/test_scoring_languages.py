"""Languages: every ISO 639 code of one is that one, and no script is thrown away or left whole without a word."""

import unicodedata

import pytest
import sacrebleu
from nltk.langnames import iso639short
from rouge_score.rouge_scorer import RougeScorer

from harness import score
from harness.errors import UsageError
from harness.scoring import score_with_intervals
from harness.scoring.languages import base_language
from harness.scoring.words import UNSPACED, is_unspaced, words

BIBLIOGRAPHIC = {  # ISO 639-2/B where it is another than 639-3
    **{"alb": "sq", "arm": "hy", "baq": "eu", "bur": "my", "chi": "zh", "cze": "cs", "dut": "nl", "fre": "fr"},
    **{"geo": "ka", "ger": "de", "gre": "el", "ice": "is", "mac": "mk", "mao": "mi", "may": "ms", "per": "fa"},
    **{"rum": "ro", "slo": "sk", "tib": "bo", "wel": "cy"},
}
# two sentences that differ in one word, without spaces between words
UNSPACED_PAIRS = {
    "th": ("ฉันกินข้าวที่บ้านทุกวัน", "ฉันกินปลาที่บ้านทุกวัน"),
    "lo": ("ຂ້ອຍກິນເຂົ້າຢູ່ເຮືອນທຸກມື້", "ຂ້ອຍກິນປາຢູ່ເຮືອນທຸກມື້"),
    "km": ("ខ្ញុំញ៉ាំបាយនៅផ្ទះរាល់ថ្ងៃ", "ខ្ញុំញ៉ាំត្រីនៅផ្ទះរាល់ថ្ងៃ"),
    "my": ("ကျွန်တော်အိမ်မှာထမင်းစားတယ်", "ကျွန်တော်အိမ်မှာငါးစားတယ်"),
    "bo": ("ངས་ཉིན་ལྟར་ཁྱིམ་ལ་ཟས་ཟ་གི་ཡོད", "ངས་ཉིན་ལྟར་ཁྱིམ་ལ་ཤ་ཟ་གི་ཡོད"),
    "zh": ("我每天在家里吃米饭", "我每天在家里吃面条"),
}


def one(output, reference, metric, language):
    return score([output], [[reference]], [metric], language)[metric]


def test_three_letter_codes_are_the_two_letter_languages():
    assert len(iso639short) > 180
    wrong = {code: two for code, two in {**iso639short, **BIBLIOGRAPHIC}.items() if base_language(code) != two}
    assert wrong in ({}, {"hbs": "sh"})  # Serbo-Croatian, whose code was withdrawn
    assert all(base_language(two) == two for two in set(iso639short.values()) - {"sh"})


@pytest.mark.parametrize(
    ("code", "two"),
    [
        ("cmn", "zh"),
        ("zho_Hans", "zh"),
        ("ZH-tw", "zh"),
        ("yue", "zh"),
        ("pes_Arab", "fa"),
        ("kmr", "ku"),
        ("nb", "nb"),
    ],
)
def test_members_of_a_macrolanguage_and_tags_with_scripts(code, two):
    assert base_language(code) == two


@pytest.mark.parametrize("code", ["xx", "xyz", "cn", "jp", "english", "e", "", None, 3, ["en"], "e1"])
def test_unknown_codes_are_refused_by_name(code):
    with pytest.raises(UsageError, match="language must be a code") as error:
        score(["a"], [["a"]], ["bleu"], language=code)
    assert repr(code) in str(error.value)


@pytest.mark.parametrize(
    ("code", "two", "text"),
    [
        ("zho", "zh", "我爱猫"),
        ("cmn", "zh", "我爱猫"),
        ("eng", "en", "dogs ran"),
        ("tha", "th", UNSPACED_PAIRS["th"][0]),
    ],
)
def test_every_code_of_a_language_gives_the_same_scores_and_signatures(code, two, text):
    metrics = ["bleu", "rouge1", "rougeLsum", "length_ratio", "nist", "cider", "repetition"]
    outputs, references = [text[:-1], text], [[text], [text + text]]
    assert score_with_intervals(outputs, references, metrics, code) == score_with_intervals(
        outputs, references, metrics, two
    )


@pytest.mark.parametrize("language", UNSPACED_PAIRS)
def test_unspaced_sentences_are_compared_by_characters(language):
    reference, output = UNSPACED_PAIRS[language]
    letters = [c for c in reference if unicodedata.category(c)[0] in "LM"]
    assert all(map(is_unspaced, letters))
    assert len([w for w in words(reference, language) if w in letters]) == len(letters)
    values = score([output], [[reference]], ["bleu", "rouge1", "rougeL", "rougeLsum"], language)
    assert all(30 < value < 100 for value in values.values()), values
    assert 0.7 < one(output, reference, "length_ratio", language) < 1.3


@pytest.mark.parametrize("language", sorted(UNSPACED - {"zh", "ja"}))
def test_bleu_of_unspaced_languages_is_sacrebleus_over_characters(language):
    reference, output = UNSPACED_PAIRS.get(language, UNSPACED_PAIRS["my"])
    found = score_with_intervals([output], [[reference]], ["bleu"], language)["bleu"]
    assert found.value == pytest.approx(sacrebleu.corpus_bleu([output], [[reference]], tokenize="char").score)
    assert "tok:char" in found.signature


def test_zero_width_spaces_part_words_and_are_none():
    assert words("ខ្ញុំ\u200bបាយ", "km") == words("ខ្ញុំបាយ", "km") == list("ខ្ញុំបាយ")


# marks are letters' own
@pytest.mark.parametrize(
    ("language", "one_word", "another"),
    [
        ("hi", "कि", "का"),
        ("bn", "কি", "কা"),
        ("ta", "கி", "கா"),
        ("te", "కి", "కా"),
        ("th", "ป่า", "ป้า"),  # tone marks
        ("my", "ကိ", "ကာ"),
        ("he", "שָׁלוֹם", "שִׁלוּם"),
        ("ar", "كَتَبَ", "كُتِبَ"),
    ],
)
@pytest.mark.parametrize("metric", ["rouge1", "rougeL", "rougeLsum"])
def test_vowel_signs_and_tone_marks_tell_words_apart(metric, language, one_word, another):
    assert one(one_word, one_word, metric, language) == pytest.approx(100)
    assert one(one_word, another, metric, language) < 80


def test_a_sign_cuts_no_word_in_two():
    """Of three Hindi words two agree, whatever signs they hold."""
    assert one("राम घर गया", "राम घर आया", "rouge1", "hi") == pytest.approx(100 * 2 / 3)


def test_composed_and_decomposed_letters_are_equal():
    text = "Die Größe über alles"
    for metric in ("rouge1", "rougeL", "rougeLsum"):
        assert one(unicodedata.normalize("NFD", text), text, metric, "de") == pytest.approx(100)


# scripts other than the language's
CHINESE = "我们今天去公园散步吧好吗"
ENGLISH = (
    "A rather long English sentence among many short Chinese ones, with spaces, points, and commas: as much as that is."
)


@pytest.mark.parametrize("metric", ["rouge1", "bleu", "chrf"])
def test_references_are_weighed_by_their_number_not_their_length(metric):
    references = [[CHINESE]] * 10 + [[ENGLISH]]
    with pytest.raises(UsageError, match="language='zh'"):
        score([CHINESE] * 10 + [ENGLISH], references, [metric], "en")
    numbers = [["12345 67890 !!! " * 9]] * 20  # without letters there is nothing to weigh
    with pytest.raises(UsageError, match="language='zh'"):
        score([CHINESE] * 21, [[CHINESE], *numbers], [metric], "en")
    assert score([ENGLISH, CHINESE], [[ENGLISH], [CHINESE]], [metric], "en")[metric] == pytest.approx(100)


def test_an_unspaced_script_is_refused_for_any_language_with_spaces():
    for language in ("ru", "ar", "hi", "sr", "el"):
        with pytest.raises(UsageError, match="without spaces"):
            score([CHINESE], [[CHINESE]], ["bleu"], language)
    assert one("Привет мир", "Привет мир", "rougeL", "ru") == 100
    assert one("안녕 세상", "안녕 세상", "rougeL", "ko") == 100
    assert one("Tiếng Việt được viết thế này", "Tiếng Việt được viết thế này", "rougeL", "vi") == 100


@pytest.mark.parametrize("metric", ["rouge1", "rougeL", "rougeLsum", "e2e_rougeL"])
@pytest.mark.parametrize("text", ["да", "我爱狗", "!!!", "🙂 🙂", "Ω", "…"])
@pytest.mark.parametrize("language", ["en", "de", "zh", "hi"])
def test_no_text_is_silently_nothing(metric, text, language):
    """One odd reference among usual ones: equal to its output it scores 100, not 0."""
    outputs, references = ["yes it is", "so it is", text], [["yes it is"], ["so it is"], [text]]
    assert score(outputs, references, [metric], language, per_example=True)[metric] == pytest.approx([100, 100, 100])


@pytest.mark.parametrize("name", ["rouge1", "rouge2", "rougeLsum"])
def test_texts_of_which_rouge_score_keeps_words_score_as_there(name):
    """A line of dashes or an odd word among others is left out, as in the package."""
    reference = "The dogs ran.\n* * *\nНет, they walked home."
    output = "Dogs were running.\n---\nThey walked home, нет."
    expected = RougeScorer([name], use_stemmer=True).score(reference, output)[name].fmeasure
    assert one(output, reference, name, "en") == pytest.approx(100 * expected)
    assert one("...", reference, name, "en") == 0
