"""Random feature models with learnable activation functions: small, fast, non-linear models for tables.

Implements Z. Ma, J. Yang and Y. Yang, "On the Generalization Properties of Learning the Random Feature Models with
Learnable Activation Functions", arXiv 2510.15327 (2025), and the model's first paper, arXiv 2411.19468.

>>> from rflaf import RFLAFRegressor
>>> RFLAFRegressor(n_components=30)
RFLAFRegressor(n_components=30)
"""

import os
import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any


def _end_quietly(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Say in one line that the command was interrupted, if it was."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # more of them would end in a traceback
    sys.stderr.write("rflaf: interrupted\n")
    sys.stderr.flush()
    os._exit(130)


_command = os.path.basename(sys.argv[0]).partition(".")[0] if sys.argv else ""
if _command == "rflaf" or sys.orig_argv[1:3] == ["-m", "rflaf"]:  # the imports below take seconds
    sys.excepthook = _end_quietly

if TYPE_CHECKING:
    from . import theory
    from .errors import InvalidParameterError, MemoryBudgetError, UnreadableModelFile
    from .estimators import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
    from .estimators.choices import GreedySelection, LeverageSampling, SharedActivation
    from .estimators.distillation import distil
    from .estimators.width_plan import WidthPlan, plan
    from .export.model_file import load, load_predictor, save
    from .export.predictor import Predictor
    from .export.programs import to_c, to_onnx, to_source
    from .export.smaller import simplify
    from .functions.bases import BSplineBasis, RBFBasis
    from .functions.smooth_bases import FixedActivation, PolynomialBasis
    from .model.random_feature_model import Activation, RandomFeatureModel

__version__ = "0.1.0"

# Where every public name lives; it is imported on first use, so that the package itself costs nothing to import.
_PLACES = {
    "Activation": "model.random_feature_model",
    "BSplineBasis": "functions.bases",
    "FixedActivation": "functions.smooth_bases",
    "GreedySelection": "estimators.choices",
    "InvalidParameterError": "errors",
    "LeverageSampling": "estimators.choices",
    "MemoryBudgetError": "errors",
    "PolynomialBasis": "functions.smooth_bases",
    "Predictor": "export.predictor",
    "RBFBasis": "functions.bases",
    "RFLAFClassifier": "estimators.classifier",
    "RFLAFRegressor": "estimators.regressor",
    "RandomActivationFeatures": "estimators.transformer",
    "RandomFeatureModel": "model.random_feature_model",
    "SharedActivation": "estimators.choices",
    "UnreadableModelFile": "errors",
    "WidthPlan": "estimators.width_plan",
    "distil": "estimators.distillation",
    "load": "export.model_file",
    "load_predictor": "export.model_file",
    "plan": "estimators.width_plan",
    "save": "export.model_file",
    "simplify": "export.smaller",
    "to_c": "export.programs",
    "to_onnx": "export.programs",
    "to_source": "export.programs",
}
__all__ = [
    "Activation",
    "BSplineBasis",
    "FixedActivation",
    "GreedySelection",
    "InvalidParameterError",
    "LeverageSampling",
    "MemoryBudgetError",
    "PolynomialBasis",
    "Predictor",
    "RBFBasis",
    "RFLAFClassifier",
    "RFLAFRegressor",
    "RandomActivationFeatures",
    "RandomFeatureModel",
    "SharedActivation",
    "UnreadableModelFile",
    "WidthPlan",
    "__version__",
    "datasets",
    "distil",
    "load",
    "load_predictor",
    "plan",
    "plots",
    "report",
    "save",
    "simplify",
    "theory",
    "to_c",
    "to_onnx",
    "to_source",
]

# Public modules, likewise imported on first use.
_PUBLIC = {"datasets": "rflaf.study.datasets", "plots": "rflaf.inspection.plots", "report": "rflaf.inspection.report"}
_ROOMS = ("errors", "estimators", "export", "functions", "model", "rows", "theory", "training")
# Former places of documented modules; importing from them warns for one release.
_MOVED = {
    "bases": "rflaf.functions.bases",
    "files": "rflaf.rows.files",
    "losses": "rflaf.functions.losses",
    "spectral": "rflaf.functions.densities",
    "tables": "rflaf.rows.tables",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        found = globals()[name] = getattr(import_module(f"rflaf.{_PLACES[name]}"), name)
        return found
    if name in _PUBLIC:
        return import_module(_PUBLIC[name])
    if name in _ROOMS:  # with all that is public in it, as in rflaf.functions.losses
        for place in sorted(set(_PLACES.values())):
            import_module(f"rflaf.{place}")
        return import_module(f"rflaf.{name}")
    raise AttributeError(f"module 'rflaf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _OtherNames:  # without the base classes of importlib.abc, which are slow to import
    """Let ``from rflaf.plots import ...`` find the one module that lives in a room, under its other name."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        known = package == "rflaf" and (name in _PUBLIC or name in _MOVED)
        return ModuleSpec(fullname, self) if known else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        name = spec.name.rpartition(".")[2]
        place = _PUBLIC.get(name) or _MOVED[name]
        if name in _MOVED:
            warnings.warn(f"{spec.name} is now {place}; change the import", FutureWarning, stacklevel=2)
        module = import_module(place)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The import system has put its spec on the module, which is another's: put the module's own back."""
        alias = module.__spec__
        module.__spec__ = None if alias is None else alias.loader_state


sys.meta_path.append(_OtherNames())
