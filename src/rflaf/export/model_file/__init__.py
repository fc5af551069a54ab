"""Model files: a fitted estimator, with the encodings of its columns and its target, as data.

One file in the safetensors format: arrays as they are, and in its metadata a JSON header with the format number, the
version of the library, the class, its parameters, feature names, classes and provenance. No pickle, no code: reading
builds a few classes that are listed, from values that were checked before. A file that is damaged, forged or foreign
ends in `UnreadableModelFile` before more memory is taken than a model of its size needs.

Format numbers only grow, and readers of all of them stay. Needs the extra ``save``.

>>> import numpy as np, rflaf, tempfile, pathlib
>>> X = np.linspace(0, 1, 200)[:, None]
>>> model = rflaf.RFLAFRegressor.convex(5, random_state=0).fit(X, np.sin(6 * X[:, 0]))
>>> path = pathlib.Path(tempfile.mkdtemp()) / "sine.rflaf"
>>> rflaf.save(model, path)
>>> bool(np.all(rflaf.load(path).predict(X) == model.predict(X)))
True
>>> describe_file(path)["class"]
'RFLAFRegressor'
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from rflaf.errors import InvalidParameterError, UnreadableModelFile
from rflaf.export.precision import precision_of
from rflaf.rows.files.outputs import check_output, replacing

from .envelope import FORMAT, pack, present, refuse_large, require_safetensors, unpack
from .reading import build

if TYPE_CHECKING:
    from rflaf.export.predictor import Predictor

__all__ = [
    "FORMAT", "check_output", "describe_file", "load", "load_predictor", "replacing", "require_safetensors", "save",
]  # fmt: skip


def save(
    model: Any, path: str | Path, *, provenance: Mapping[str, Any] | None = None, dtype: DTypeLike = np.float64
) -> None:
    """Write a fitted estimator to ``path``.

    ``provenance`` is any JSON about how it came about. The file takes its place only when it is whole and can be read.
    Not kept: what the candidates in ``trials_`` predicted, and a ``random_state`` that is a generator, which becomes
    None.

    With ``dtype="float32"`` the file is for predictions and a fraction of its size: curves and activations are in
    single precision, which moves answers by less than 1e-5 of their spread, and so are the ends of intervals, rounded
    outwards. Left out are ``trials_`` and the sums from which `partial_fit`, `prune` and ``return_std`` of a model
    without intervals, or of probabilities, go on.
    """
    from .writing import header_of

    path = Path(path)
    header, arrays = header_of(model, provenance, precision_of(dtype, usual="float64") == np.float32)
    refuse_large(path, header)
    with replacing(path) as temporary:
        temporary.write_bytes(pack(header, arrays))
        try:
            build(*unpack(temporary))
        except UnreadableModelFile as error:
            rule = "a model must be finite and of one piece to be saved"
            raise InvalidParameterError(rule, str(error), "Fit it anew.") from None


def load(path: str | Path) -> Any:
    """Return the estimator in a file that `save` wrote, of any version; else raise `UnreadableModelFile`."""
    return build(*unpack(Path(path)))


def load_predictor(path: str | Path) -> Predictor:
    """Return what predicts of the regressor or classifier in a file, with the checks of `load`.

    It needs NumPy only: neither scikit-learn nor the compiler is imported for a few rows.
    """
    return build(*unpack(Path(path)), light=True)


def describe_file(path: str | Path) -> dict[str, Any]:
    """Return the contents of a model file in plain values; nothing is built and no array is read.

    Besides the header: ``arrays``, the dtype and shape of each, and ``bytes``, the size of the file.
    """
    header, arrays, size = unpack(Path(path))
    header = present(header, arrays.path)
    shapes = {name: {"dtype": dtype, "shape": list(shape)} for name, (dtype, shape) in arrays.shapes.items()}
    return {**header, "arrays": shapes, "bytes": size}
