"""The keyword arguments that editors complete."""

import ast

from api.write_signatures import FILE, text


def test_the_options_that_editors_complete_are_those_of_the_settings() -> None:
    written, wanted = (ast.dump(ast.parse(content)) for content in (FILE.read_text(encoding="utf-8"), text()))
    assert written == wanted, "run python tests/api/write_signatures.py"
