"""What the estimators share: parameters become settings, training runs in a temporary folder, the pickle is a bundle.

A constructor stores its parameters and does nothing else; they are checked in `fit`. A parameter that is None has the
default of the training command, and `settings` holds those that have no parameter of their own.
"""

import numbers
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError, SettingError, listed
from headswap.core.keyword_arguments import sort_into_sections
from headswap.core.settings import Recipe
from headswap.data.rows_in_memory import cached_rows, write_rows
from headswap.estimator.columns import NotTextError, TextsError
from headswap.estimator.messages import as_warnings
from headswap.estimator.pickled_bundle import bundle_bytes, load_without_path, restored
from headswap.training.run_folder import RunFolder

OWN = frozenset({"random_state", "out", "verbose", "settings"})
"""Parameters that are not settings of a training."""
LARGEST_SEED = 2**31 - 1
Rows = list[dict[str, Any]]


class ParameterError(SettingError, ValueError):
    """A parameter of an estimator is not allowed. scikit-learn expects a ValueError."""


class BundleEstimator(BaseEstimator):
    """An estimator whose fitted state is a bundle, `bundle_`."""

    bundle_: Bundle
    device: Any
    verbose: Any
    settings: Any
    random_state: Any
    out: Any
    not_settings: frozenset[str] = OWN

    def __sklearn_tags__(self) -> Any:
        """X is a column of texts."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """The parameters and the files of the bundle; tensors are not pickled."""
        state = dict(super().__getstate__())
        if (bundle := state.pop("bundle_", None)) is not None:
            state["bundle_files"] = bundle_bytes(bundle)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The estimator with its bundle on the device that it asks for."""
        state = dict(state)
        files = state.pop("bundle_files", None)
        super().__setstate__(state)
        if files is not None:
            self.bundle_ = restored(files, self.device or "auto")

    @contextmanager
    def _fitted(self) -> Iterator[Bundle]:
        """The bundle of a fitted estimator; what is logged about its use becomes warnings."""
        check_is_fitted(self)
        with value_errors(), as_warnings(verbose=bool(self.verbose)):
            yield self.bundle_

    def _train(
        self, train: Callable[..., RunFolder], recipe: type[Recipe], rows: Rows, settings_of: Callable[[str], Any]
    ) -> dict[str, Any]:
        """Train with the parameters and the settings for the file of the rows; return what `result.json` has."""
        self._forget()
        if self.out is not None and _is_taken(Path(self.out)):
            raise ParameterError(
                f"out is {str(self.out)!r}, which exists and is not empty. Give a new folder, or None."
            )
        with TemporaryDirectory(prefix="headswap-") as temporary, value_errors(temporary), _threads_kept():
            with as_warnings(verbose=bool(self.verbose)):
                # A run that is kept reads rows that are kept too, so that its recipe can be used again.
                kept = self.out is not None
                file = cached_rows(rows) if kept else write_rows(rows, Path(temporary) / "rows.jsonl")
                sections = sort_into_sections(given_settings(self) | settings_of(file), recipe)
                run = train(out=Path(self.out) if kept else Path(temporary) / "run", sections=sections)
            self.bundle_ = load_without_path(run.path / "bundle", self.device or "auto")
            return run.result

    def _forget(self) -> None:
        """Remove what an earlier fit left, so that a fit that fails leaves no fitted estimator."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)


def _is_taken(path: Path) -> bool:
    """Whether a path is a file, or a folder with files."""
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def given_settings(estimator: BundleEstimator) -> dict[str, Any]:
    """The settings that the parameters of an estimator give, with the seed; those that are None are left out."""
    parameters = estimator.get_params(deep=False)
    more = parameters["settings"] or {}
    if not isinstance(more, Mapping):
        raise ParameterError(f"settings is {more!r}, but must be a dictionary, such as {{'lora_rank': 4}}.")
    refused = [name for name in more if name in parameters or name in ("seed", "train", "corpus", "task")]
    if refused:
        raise ParameterError(
            f"settings has {listed(refused)}, which cannot be given there: parameters of the estimator are given in "
            "its constructor, the seed is random_state, and the data are X and y."
        )
    own = {
        name: value for name, value in parameters.items() if name not in estimator.not_settings and value is not None
    }
    every = own | dict(more) | {"seed": seed_of(parameters["random_state"])}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in every.items()}


def seed_of(random_state: Any) -> int:
    """An integer is the seed itself; None and a RandomState draw one, as everywhere in scikit-learn."""
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(LARGEST_SEED))
    except ValueError as problem:
        raise ParameterError(str(problem)) from None


@contextmanager
def value_errors(temporary: str | None = None) -> Iterator[None]:
    """Raise errors about data and settings as ValueErrors; a file that the user did not write has no name in them."""
    try:
        yield
    except (TextsError, NotTextError, ParameterError):
        raise
    except InputError as problem:
        message = str(problem)
        raise TextsError(message.replace(f"{temporary}/rows.jsonl", "X and y") if temporary else message) from problem
    except SettingError as problem:
        raise ParameterError(str(problem)) from problem


@contextmanager
def _threads_kept() -> Iterator[None]:
    """Restore PyTorch's number of threads, which a training sets for the whole process."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
