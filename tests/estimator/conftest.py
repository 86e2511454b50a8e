"""Fitted estimators that tests share and must not change."""

from typing import Any

import pytest

from estimator.estimators import KINDS, X, Y, make


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of estimator."""
    return request.param


@pytest.fixture(scope="session")
def all_fitted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One fitted estimator of each kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(tmp_path_factory.mktemp("cache")))
        return {kind: make(kind).fit(X, Y[kind]) for kind in KINDS}


@pytest.fixture
def fitted(kind: str, all_fitted: dict[str, Any]) -> Any:
    """The fitted estimator of a kind."""
    return all_fitted[kind]
