"""Settings of the machine: bounds."""

import pytest

from headswap.core.errors import SettingError
from headswap.core.settings import validate
from headswap.training.config import MOST_THREADS, MachineSettings


def test_a_number_of_threads_with_which_pytorch_crashes_is_refused() -> None:
    assert validate(MachineSettings, {"threads": MOST_THREADS}).threads == MOST_THREADS
    with pytest.raises(SettingError, match=r"threads.*less than or equal to 1024"):
        validate(MachineSettings, {"threads": 100_000})
