"""Names of other tools lead to settings of ours."""

from itertools import chain

from headswap.cli.app import VERBS, make_app
from headswap.cli.help_page import entries_of
from headswap.core.other_names import ELSEWHERE, meant_setting, settings_called

ALLOWED = ["learning_rate", "max_length", "norm", "threads"]


def test_every_setting_of_the_table_is_a_flag_and_no_name_leads_to_itself() -> None:
    flags = {entry.name for verb in VERBS for entry in entries_of(make_app(), verb)}
    assert set(ELSEWHERE) <= flags
    assert not [ours for ours, others in ELSEWHERE.items() if ours in others.split()]
    for others in map(str.split, ELSEWHERE.values()):
        assert len(set(others)) == len(others)


def test_a_name_of_another_tool_precedes_a_similar_one() -> None:
    assert meant_setting("lr", ALLOWED) == " Did you mean 'learning_rate'?"
    assert meant_setting("Block_Size", ALLOWED) == " Did you mean 'max_length'?"
    assert meant_setting("num_workers", ALLOWED) == " Did you mean 'threads'?"
    assert meant_setting("learning_rat", ALLOWED) == " Did you mean 'learning_rate'?"


def test_a_setting_that_is_not_allowed_here_gets_no_similar_name() -> None:
    assert settings_called("model", ["metric_for_best_model"]) == []
    assert meant_setting("model", ["metric_for_best_model"]) == ""
    assert meant_setting("colour", ALLOWED) == ""


def test_no_name_is_a_setting_of_a_command_that_has_the_one_it_leads_to() -> None:
    for verb in VERBS:
        flags = {entry.name for entry in entries_of(make_app(), verb)}
        for name in set(chain.from_iterable(map(str.split, ELSEWHERE.values()))) & flags:
            assert not settings_called(name, flags), (verb, name)
