"""Calls that estimators must refuse, and stay as they were."""

from __future__ import annotations

import pickle

import pytest


def refusal(kind, estimators, call):
    """The error of a call, after checking that it leaves every one of the estimators exactly as it was."""
    for estimator in estimators:
        before, bytes_before = dict(vars(estimator)), pickle.dumps(estimator)
        with pytest.raises(kind) as caught:
            call(estimator)
        after = vars(estimator)
        assert list(after) == list(before)
        assert all(after[name] is before[name] for name in before)
        assert pickle.dumps(estimator) == bytes_before
    return caught.value
