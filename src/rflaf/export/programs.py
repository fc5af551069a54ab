"""Fitted estimators for other programs: ONNX, and, without dependencies, C99, JavaScript, Java, Go, Rust and SQL.

All are generated from one formula (`rflaf.export.formula`), ONNX and C in single or double precision, the others in
double. Single precision agrees
with Python within 1e-5 of the spread of the predictions, whatever the means of the columns. Files are written
atomically.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import InvalidParameterError
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.files.outputs import replacing

from .c_header import check_name, write_header
from .formula import formula_of
from .languages import DIALECTS, write_program
from .onnx_graph import convert, register_onnx_converters
from .precision import precision_of
from .sql import write_select
from .table_form import TableForm, form_of
from .table_graph import convert_table, encoded_columns

LANGUAGES = ("c", *DIALECTS, "sql")

__all__ = ["LANGUAGES", "Source", "register_onnx_converters", "to_c", "to_onnx", "to_source"]


class Source(str):
    """The text of a program; in notebooks it shows its size instead of megabytes of numbers.

    >>> Source("int one = 1;\\n")
    <source of 1 lines, 0.0 KB: print shows it, a path writes it>
    """

    __slots__ = ()

    def __repr__(self) -> str:
        size = len(self.encode()) / 1024
        return f"<source of {self.count(chr(10)):,} lines, {size:,.1f} KB: print shows it, a path writes it>"


def to_onnx(
    estimator: Any, path: str | os.PathLike[str] | None = None, *, dtype: DTypeLike = np.float32, sample: Any = None
) -> Any:
    """Return the ONNX model (opset 18) of a fitted estimator or pipeline; write it to ``path`` if given.

    Parameters
    ----------
    estimator : an estimator of this package, a pipeline whose other steps skl2onnx knows, or a `RandomFeatureModel`. An
        estimator fitted to a table of mixed columns becomes one graph with its encoding, whose inputs
        `rflaf.export.table_graph` lists
    path : where to write the model
    dtype : float32 or float64, the precision of numeric inputs and of the arithmetic
    sample : a few rows of a data frame, for a pipeline whose steps select columns by name: every column becomes an
        input (n_rows, 1), numbers in ``dtype`` and all else as strings. By default there is one input "X".

    Returns
    -------
    An ``onnx.ModelProto``. A regressor has one output (n_rows, n_outputs), a transformer the features; a classifier has
    "label" (n_rows,) and "probabilities" (n_rows, n_classes), or scores for a loss without probabilities.
    Missing and infinite values are not checked.
    """
    dtype = precision_of(dtype, usual="float32")
    if not isinstance(estimator, RandomFeatureModel):
        check_is_fitted(estimator)
    if getattr(estimator, "table_encoding_", None) is not None:
        model = convert_table(estimator, dtype)
    else:
        model = convert(estimator, _inputs(estimator, dtype, sample))
    if path is not None:
        _write(path, model.SerializeToString(deterministic=True))
    return model


def to_c(
    estimator: Any, path: str | os.PathLike[str] | None = None, *, name: str = "rflaf", dtype: DTypeLike = np.float32
) -> Source:
    """Return a C99 header with one function of one row, ``NAME_predict(x, out)``; write it to ``path`` if given.

    Its arrays are static and constant, it takes no memory but a little stack and calls nothing, but ``exp`` where
    probabilities or counts are predicted. ``out`` holds the prediction, or the features of a transformer, or, of a
    classifier, a number for every class and then the number of the label; the comment on top of the header lists
    columns and classes. ``name`` is the prefix of every name, ``dtype`` float32 (``float``) or float64 (``double``),
    or "int16" for tables and arithmetic of whole numbers, see `rflaf.export.c_fixed`; rows and answers are ``float``.
    Of an estimator fitted to a table of mixed columns this function takes encoded rows, and ``NAME_predict_row`` a
    struct of the columns themselves, see `rflaf.export.table_form`.

    >>> from rflaf import RFLAFRegressor
    >>> X = np.random.default_rng(0).standard_normal((100, 2))
    >>> header = to_c(RFLAFRegressor.paper(5, pool_size=20, random_state=0).fit(X, X[:, 0]), name="tiny")
    >>> "void tiny_predict(const float *x, float *out)" in header
    True
    """
    fixed = isinstance(dtype, str) and dtype == "int16"
    formula = formula_of(estimator, np.float64 if fixed else precision_of(dtype, usual="float32"))
    text = write_header(formula, name, _described(estimator), _form(estimator), fixed)
    if path is not None:
        _write(path, text.encode("ascii"))
    return Source(text)


def to_source(
    estimator: Any, path: str | os.PathLike[str] | None = None, *, language: str, name: str = "rflaf"
) -> Source:
    """Return a fitted estimator as the source of a program without dependencies; write it to ``path`` if given.

    Parameters
    ----------
    estimator : an estimator of this package, or a `RandomFeatureModel`
    path : where to write the source
    language : {"c", "js", "java", "go", "rust", "sql"}
        "c" is `to_c`. "js" is a script for browsers and Node, an object ``NAME`` with ``predict(x)``; "java" a class
        ``NAME``, whose file is ``NAME.java``; "go" a package and "rust" a module ``NAME``, each with a function of one
        row. "sql" is one SELECT from the table ``NAME``, whose columns are called as in the fit, or x0, x1, ...
    name : an identifier of letters, digits and underscores

    Returns
    -------
    Text. A function takes a row of numbers and returns the prediction, or a number for every class and last the number
    of the label. Of an estimator fitted to a table of mixed columns there is a second function, which takes the columns
    of the table, see `rflaf.export.table_form`; SQL takes them only.
    Answers agree with Python within 1e-8 of their spread. The functions keep no state: threads may share them.

    >>> from rflaf import RFLAFRegressor
    >>> X = np.random.default_rng(0).standard_normal((100, 2))
    >>> model = RFLAFRegressor.paper(5, pool_size=20, random_state=0).fit(X, X[:, 0])
    >>> "function predict(x)" in to_source(model, language="js", name="tiny")
    True
    """
    if language not in LANGUAGES:
        raise InvalidParameterError(f"language must be one of {', '.join(LANGUAGES)}", language, "Use 'js'.")
    if language == "c":
        return to_c(estimator, path, name=name)
    check_name(name)
    formula = formula_of(estimator, np.float64)
    if language == "sql":
        names = getattr(estimator, "feature_names_in_", None)
        columns = [f"x{i}" for i in range(formula.n_features)] if names is None else names
        text = write_select(formula, name, columns, _form(estimator))
    else:
        described = _described(estimator)
        text = write_program(formula, language, name, [] if described is None else list(described), _form(estimator))
    if path is not None:
        _write(path, text.encode())
    return Source(text)


def _described(estimator: Any) -> Any:
    """Return what the columns of a row are, or None."""
    encoding = getattr(estimator, "table_encoding_", None)
    return getattr(estimator, "feature_names_in_", None) if encoding is None else encoded_columns(encoding)


def _form(estimator: Any) -> TableForm | None:
    """Return the form of the table that an estimator was fitted to, or None."""
    encoding = getattr(estimator, "table_encoding_", None)
    return None if encoding is None else form_of(encoding)


def _write(path: str | os.PathLike[str], data: bytes) -> None:
    with replacing(Path(path)) as partial:
        partial.write_bytes(data)


def _inputs(estimator: Any, dtype: np.dtype[Any], sample: Any) -> list[tuple[str, np.dtype[Any], int]]:
    if sample is None:
        n_features = estimator.n_features if isinstance(estimator, RandomFeatureModel) else estimator.n_features_in_
        return [("X", dtype, int(n_features))]
    if not hasattr(sample, "columns"):
        rule = "sample must be rows of a data frame, whose columns have names"
        remedy = "Leave it out for a pipeline that takes an array."
        raise InvalidParameterError(rule, type(sample).__name__, remedy)
    numbers = {str(name): np.asarray(sample[name]).dtype.kind in "biuf" for name in sample.columns}
    return [(name, dtype if numeric else np.dtype(object), 1) for name, numeric in numbers.items()]
