"""The cheap checks report each problem of a labelled set."""

from doctor_data import clean, found
from headswap.data.checks import cheap_issues, shortcuts
from headswap.data.records import Answer, Example, SpanExample, TaggedExample


def test_exact_duplicates_are_counted_with_their_lines() -> None:
    examples = clean(50)
    examples.append(Example(f"  {examples[4].text.upper()} ", examples[4].label, "set.csv", 99))
    (issue,) = found(cheap_issues("train", examples), "duplicates")
    assert "1 of 51 texts repeats an earlier one (line 99 repeats line 6)" in issue.message


def test_one_text_with_two_labels_is_a_problem() -> None:
    examples = clean(50)
    examples.append(Example(examples[4].text, "no" if examples[4].label == "yes" else "yes", "set.csv", 99))
    (issue,) = found(cheap_issues("train", examples), "label conflicts")
    assert issue.level == "problem"
    assert "line 6: 'yes', line 99: 'no'" in issue.message
    assert issue.details["lines"] == [[6, 99]]


def test_pairs_conflict_only_if_both_texts_are_equal() -> None:
    class Pair:
        def __init__(self, text: str, text_pair: str, label: str, line: int) -> None:
            self.text, self.text_pair, self.label, self.source, self.line = text, text_pair, label, "set.csv", line

    pairs = [Pair("a b", "c", "yes", 1), Pair("a b", "d", "no", 2), Pair("x", "y", "no", 3), Pair("z", "y", "yes", 4)]
    assert found(cheap_issues("train", pairs), "label conflicts") == []
    assert found(cheap_issues("train", [*pairs, Pair("a b", "c", "no", 5)]), "label conflicts")


def test_sorted_labels_are_noticed_and_shuffled_ones_are_not() -> None:
    examples = clean(90)
    (issue,) = found(cheap_issues("train", sorted(examples, key=lambda one: one.label)), "sorted labels")
    assert "1 label changes in 90 texts" in issue.message
    assert found(cheap_issues("train", examples), "sorted labels") == []


def test_rare_labels_and_a_dominant_label_are_reported() -> None:
    examples = [*clean(100), Example("a rare thing", "rare", "set.csv", 500)]
    (issue,) = found(cheap_issues("train", examples, is_train=True), "label counts")
    assert "1 label with fewer than 5 texts ('rare')" in issue.message
    most = [Example(f"text number {number}", "no" if number < 6 else "yes", "set.csv", number) for number in range(100)]
    (issue,) = found(cheap_issues("train", most, is_train=True), "label counts")
    assert "94% of the texts are 'yes'" in issue.message


def test_a_word_that_gives_the_label_away_is_named() -> None:
    examples = [
        Example(f"{one.text} {'XPOS' if one.label == 'yes' else ''}", one.label, one.source, one.line)
        for one in clean(100)
    ]
    (issue,) = shortcuts("train", examples)
    assert "the word 'xpos' predicts the label: it occurs in 100% of the texts labelled 'yes'" in issue.message
    assert issue.details["precision"] == 1.0


def test_texts_that_were_decoded_wrongly_are_counted() -> None:
    examples = [*clean(30), Example("cafÃ© au lait", "yes", "set.csv", 40), Example("na\ufffdve", "no", "set.csv", 41)]
    (issue,) = found(cheap_issues("train", examples), "encoding")
    assert issue.message.startswith("2 of 32 texts contain signs")
    assert found(cheap_issues("train", [*clean(30), Example("café Âme ñ", "yes", "s", 1)]), "encoding") == []


def test_numbers_are_not_taken_for_classes() -> None:
    examples = [Example(f"text {number}", str(number / 7), "set.csv", number) for number in range(40)]
    assert cheap_issues("train", examples, is_train=True) == []


def test_texts_without_a_label_are_named_as_such() -> None:
    examples = [
        Example(f"{one.text} {'spam' if one.label == 'no' else ''}", one.label.replace("no", ""), one.source, one.line)
        for one in clean(100)
    ]
    (issue,) = shortcuts("train", examples)
    assert "of the texts without a label, and" in issue.message
    most = [Example(f"text number {number}", "yes" if number < 6 else "", "set.csv", number) for number in range(100)]
    (issue,) = found(cheap_issues("train", most, is_train=True), "label counts")
    assert "94% of the texts have no label" in issue.message
    conflict = [*clean(9), Example("a b", "yes", "set.csv", 90), Example("a b", "", "set.csv", 91)]
    (issue,) = found(cheap_issues("train", conflict), "label conflicts")
    assert "line 90: 'yes', line 91: no label" in issue.message


def test_issues_use_the_word_of_the_task() -> None:
    pairs = [Example("a b", "yes", "set.csv", 1, "c"), Example("a b", "yes", "set.csv", 2, "c")]
    (issue,) = found(cheap_issues("train", pairs), "duplicates")
    assert issue.message.startswith("1 of 2 pairs repeats an earlier one")
    tagged = [TaggedExample(("a", "b"), ("O", tag), "set.conll", line) for line, tag in ((1, "O"), (4, "B-x"))]
    (issue,) = found(cheap_issues("train", tagged), "label conflicts")
    assert issue.message.startswith("1 sentence with different tags (lines 1 and 4).")
    asked = [SpanExample("who?", "Ann came.", (Answer("Ann", 0),), "set.json", line) for line in (1, 2, 3)]
    (issue,) = found(cheap_issues("train", asked), "duplicates")
    assert issue.message.startswith("2 of 3 questions repeat an earlier one")


def test_numbers_are_no_classes() -> None:
    """Values repeat in a set of ratings, and some are rare."""
    values = [float(number % 4) for number in range(40)] + [7.5]
    examples = [Example(f"word{line}", f"{value}", "set.csv", line, value=value) for line, value in enumerate(values)]
    assert cheap_issues("train", sorted(examples, key=lambda one: one.value), is_train=True) == []
    again = Example("word1", "3.0", "set.csv", 99, value=3.0)
    (issue,) = cheap_issues("train", [*examples, again], is_train=True)
    assert issue.message.startswith("1 text with different values (line 1: '1.0', line 99: '3.0').")


def test_labels_that_are_missing_values_elsewhere_are_noticed() -> None:
    labels = ["pos", "neg", "NaN", "null"] * 10
    examples = [Example(f"text {row}", label, "train.csv", row) for row, label in enumerate(labels)]
    (found,) = [issue for issue in cheap_issues("train", examples, is_train=True) if issue.check == "missing labels"]
    assert found.message.startswith("'NaN', 'null' are labels of 20 texts.")
    kept = [one for one in examples if one.label in ("pos", "neg")]
    assert not [issue for issue in cheap_issues("train", kept, is_train=True) if issue.check == "missing labels"]
