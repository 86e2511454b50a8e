"""Read a corpus in one call: documents, texts, or the error; and what was logged."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from headswap.core.errors import InputError
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.data.records import Document

SAME_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")


def read(*sources: object, **values: str) -> list[Document]:
    return list(read_documents([str(source) for source in sources], ReadSettings(**values)))  # type: ignore[arg-type]


def texts(*sources: object, **values: str) -> list[str]:
    return [document.text for document in read(*sources, **values)]


def problem(*sources: object, **values: str) -> str:
    with pytest.raises(InputError) as raised:
        read(*sources, **values)
    return str(raised.value)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "headswap"]
