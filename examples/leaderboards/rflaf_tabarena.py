"""rflaf on TabArena: the model, its search space and its entry, on one page.

TabArena takes subclasses of AutoGluon's `AbstractModel`; it bags, tunes and judges them. The model gets the frame as it
is: categories and gaps are read by the package itself. How to run and submit it is in docs/leaderboards.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from autogluon.common.space import Categorical
from autogluon.core.models import AbstractModel

KEY, NAME = "RFLAF", "RFLAF"
DEFAULTS = [{}]  # the first entry of a leaderboard: everything automatic
SEARCH_SPACE = {
    "n_components": Categorical(100, 30, 300),
    "curves": Categorical("auto", True, False),
    "activation": Categorical("per_component", "shared"),
    "density": Categorical("gaussian", "orthogonal"),
}
_TASKS = ["binary", "multiclass", "regression"]
_BYTES = 256 * 2**20  # blocks and sums of a fit, whatever the number of rows


class RFLAFModel(AbstractModel):
    """Random feature models with learned activation functions, behind AutoGluon's interface."""

    ag_key = KEY
    ag_name = NAME
    seed_name = "random_state"

    def _fit(
        self, X: pd.DataFrame, y: pd.Series, num_cpus: int = 1, sample_weight: Any = None, **kwargs: Any
    ) -> None:  # fmt: skip
        """Fit on all rows given; validation rows and time limits are not used, since the fit validates inside."""
        from rflaf import RFLAFClassifier, RFLAFRegressor

        kind = RFLAFRegressor if self.problem_type == "regression" else RFLAFClassifier
        settings = {"random_state": 0, **self._get_model_params(), "n_jobs": num_cpus if num_cpus != "auto" else None}
        weight = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        self.model = kind(**settings).fit(self.preprocess(X), np.asarray(y), sample_weight=weight)

    def _get_default_auxiliary_params(self) -> dict[str, Any]:
        """Numbers, categories and truth values; AutoGluon makes such columns from all others."""
        return {**super()._get_default_auxiliary_params(), "valid_raw_types": ["int", "float", "category", "bool"]}

    @classmethod
    def supported_problem_types(cls) -> list[str]:
        return _TASKS

    def _get_default_resources(self) -> tuple[int, int]:
        """One core and no graphics processor: bags run side by side."""
        return 1, 0

    def _estimate_memory_usage(self, X: pd.DataFrame, **kwargs: Any) -> int:
        """Bytes of a fit: three copies of the rows in double precision, and what does not depend on them."""
        return _BYTES + 3 * 8 * X.shape[0] * X.shape[1]


def generator() -> Any:
    """The configurations of TabArena: the default, then random ones."""
    from tabarena.utils.config_utils import ConfigGenerator

    return ConfigGenerator(model_cls=RFLAFModel, manual_configs=DEFAULTS, search_space=SEARCH_SPACE)


def info() -> Any:
    """The entry in the registry of TabArena: model, search space, metadata, packages to install."""
    from tabarena.models._method_metadata import MethodMetadata
    from tabarena.models._model_info import ModelInfo

    metadata = MethodMetadata(
        method=NAME,
        method_type="config",
        display_name="rflaf",
        compute="cpu",
        ag_key=KEY,
        config_default=f"{NAME}_c1_BAG_L1",
        can_hpo=True,
        is_bag=True,
        reference_url="https://arxiv.org/abs/2510.15327",
    )
    return ModelInfo(model_cls=RFLAFModel, search_space=generator, method_metadata=metadata, pip_extra=("rflaf",))
