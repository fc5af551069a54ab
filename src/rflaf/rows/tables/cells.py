"""The cells of a table, as Arrow holds them: truth values, numbers, dates, texts by their levels, or nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError, MissingExtraError

from .text_views import without_views

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")  # texts that stand for nothing
MICROSECONDS_A_DAY = 86_400_000_000
_IDENTIFIER = re.compile(r"(?i:^(unnamed: \d+|index|rownames?|row|no\.?|nr\.?|#)$|(^|[_ .-])id$)|[a-z]I[dD]$")
_ONE_OF_MANY = re.compile(r"(?i:^nr\.?$|(^|[_ .-])id$)|[a-z]I[dD]$")
_SCALARS = (str, bytes, bool, int, float, np.generic)
_CODED = {b"rflaf": b"texts"}  # of a column of texts that is held as a dictionary, but was none
_FEWEST_CODED = 1000  # rows whose texts are worth it, and looked at to see whether they share them


def require_arrow() -> Any:
    """``pyarrow`` with its compute functions, or an error that names the extra to install."""
    try:
        import pyarrow as pa
        import pyarrow.compute
    except ImportError as error:
        raise MissingExtraError("tables of mixed columns", "pyarrow", "files") from error
    return pa


@dataclass(frozen=True, slots=True)
class Texts:
    """A column of texts: its different ones, trimmed, and for every row the number of its text, -1 where missing."""

    different: Any
    at: Array

    def __len__(self) -> int:
        return self.at.size

    def rows(self, start: int, stop: int) -> Texts:
        """Return some of the rows."""
        return Texts(self.different, self.at[start:stop])

    def spread(self, values: Array, missing: Any) -> Array:
        """Return the value of each row's text: (n_rows,)."""
        return np.append(values, missing)[self.at]


def as_table(table: Any, only: Collection[str] | None = None, coded: bool = False) -> Any:
    """An Arrow table of a frame of any library, or of an array of rows; column names are texts and differ.

    Taken are Arrow tables and batches, pandas frames (without their index), matrices, whose columns are called by
    number, and everything that offers ``__arrow_c_stream__`` or ``__dataframe__``. ``only`` are the columns wanted, as
    far as they are there; ``coded`` holds every text of many rows once, which saves time where texts are read at all.
    """
    pa = require_arrow()
    if isinstance(table, np.ndarray):
        table = _table_of_columns({str(at): table[:, at] for at in range(table.shape[1])})
    elif isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    elif hasattr(table, "iloc"):  # pandas: its index is no column
        refuse_repeated([str(name) for name in table.columns])
        chosen = [name for name in table.columns if only is None or str(name) in only]
        table = _table_of_columns({str(name): table[name] for name in chosen}, coded)
    elif not isinstance(table, pa.Table):
        table = _foreign(table)
    refuse_repeated(table.column_names)
    if only is not None and not set(table.column_names) <= set(only):
        table = table.select([name for name in table.column_names if name in only])
    table = without_views(table)
    return _coded(table) if coded and table.num_rows >= _FEWEST_CODED else table


def _coded(table: Any) -> Any:
    """Return a table whose columns of texts are dictionaries."""
    for at, field in enumerate(table.schema):
        if is_text(field.type):
            column = dictionary_of(table.column(at))
            table = table.set_column(at, field.with_type(column.type).with_metadata(_CODED), column)
    return table


def dictionary_of(texts: Any) -> Any:
    """Return a column of texts as a dictionary array."""
    pa = require_arrow()
    try:
        coded = texts.dictionary_encode()
    except pa.ArrowNotImplementedError:  # of views, before release 19
        coded = texts.cast(pa.string()).dictionary_encode()
    return coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded


def _foreign(table: Any) -> Any:
    pa = require_arrow()
    rule, remedy = "rows must be a table with named columns", "Pass a pandas or polars frame, or an Arrow table."
    try:
        if not hasattr(table, "__arrow_c_stream__") and hasattr(table, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            return from_dataframe(table)
        return pa.table(table)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise InvalidParameterError(rule, type(table).__name__, remedy) from error
    except (ValueError, NotImplementedError) as error:  # of the interchange protocol, which knows few types
        raise InvalidParameterError(rule, str(error), remedy) from error


def _table_of_columns(columns: dict[str, Any], coded: bool = False) -> Any:
    pa = require_arrow()
    arrays, fields = [], []
    for name, values in columns.items():
        of_objects = coded and values.dtype == object and len(values) >= _FEWEST_CODED
        texts = _shared_texts(values) if of_objects else None
        arrays.append(_arrow_column(name, values) if texts is None else texts)
        fields.append(pa.field(name, arrays[-1].type, metadata=None if texts is None else _CODED))
    return pa.table(arrays, pa.schema(fields))


def _shared_texts(values: Any) -> Any:
    """Return a column of pandas that holds texts as Python objects as a dictionary array; None if it is another."""
    pa = require_arrow()
    objects = values.to_numpy()
    some = objects[:: len(objects) // _FEWEST_CODED]
    if not any(isinstance(value, str) for value in some):
        return None
    try:
        if 2 * len({id(value) for value in some}) > len(some):
            codes, different = values.factorize()
            known = pa.array(different)
        else:
            codes, first = _by_object(objects)
            once = pa.array(objects[first], from_pandas=True).dictionary_encode()
            codes, known = once.indices.fill_null(-1).to_numpy(zero_copy_only=False)[codes], once.dictionary
    except (TypeError, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeError):
        return None  # values of several kinds, or texts that are none
    if not pa.types.is_string(known.type):
        return None
    indices = pa.array(codes.astype(np.int32, copy=False))
    if codes.min() < 0:
        indices = pa.compute.if_else(pa.compute.less(indices, 0), None, indices)
    return pa.DictionaryArray.from_arrays(indices, known)


def _by_object(objects: Array) -> tuple[Array, Array]:
    """Return for every row the number of its object, told by where it lies in memory, and the first row of each."""
    addresses = np.asarray(_Addresses(objects))
    codes = require_arrow().array(addresses).dictionary_encode().indices.to_numpy()
    return codes, np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))


class _Addresses:
    """The addresses of the objects of an array, which NumPy holds as whole numbers."""

    def __init__(self, objects: Array) -> None:
        self._objects = objects  # kept as long as its memory is read
        about = objects.__array_interface__
        self.__array_interface__ = {**about, "typestr": np.dtype(np.intp).str, "descr": [("", np.dtype(np.intp).str)]}


def _arrow_column(name: str, values: Any) -> Any:
    """Return an Arrow array; Python objects of several plain kinds become texts, as in a CSV file."""
    pa = require_arrow()
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "fiub":
        # Not copied unless Arrow has no such numbers; a NaN stays one, which clean takes for missing.
        wide = values.dtype.kind == "f" and values.dtype.itemsize > 8
        with np.errstate(over="ignore"):  # then infinite, which later steps refuse by the name of the column
            return pa.array(np.asarray(values, np.float64 if wide else values.dtype.newbyteorder("=")))
    try:
        held = getattr(values, "array", values)
        return pa.Array.from_pandas(held if hasattr(held, "__arrow_array__") else values)
    except UnicodeError as error:
        raise InvalidParameterError(f"texts of column {name!r} must be Unicode", str(error), "Decode them.") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        objects = np.asarray(values, object)
        known = np.array([value is not None and value == value for value in objects], bool)
        odd = next((value for value in objects[known] if not isinstance(value, _SCALARS)), None)
        if odd is not None:
            raise InvalidParameterError(
                f"column {name!r} must hold numbers, texts, truth values or dates", odd, "Drop or convert it."
            ) from error
        return pa.array([str(value) if there else None for value, there in zip(objects, known, strict=True)])


def refuse_repeated(names: Sequence[str]) -> None:
    """Refuse column names that occur twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidParameterError("column names must differ", repeated, "Rename or drop the repeated columns.")


def find_column(name: str, names: Sequence[str]) -> str:
    """The column called ``name``, or else the one of that number, counted from 0 or, if negative, from the end.

    >>> find_column("-1", ["a", "b"])
    'b'
    """
    if name in names:
        return name
    try:
        return names[int(name)]
    except (ValueError, IndexError):
        raise InvalidParameterError(
            f"the table must have the column {name!r}", list(names), "Give a name or a number, counted from 0."
        ) from None


def names_identifier(name: str) -> bool:
    """Return whether a column has the name of an index or of identifiers.

    >>> [name for name in ("Unnamed: 0", "row_id", "userId", "paid", "hybrid") if names_identifier(name)]
    ['Unnamed: 0', 'row_id', 'userId']
    """
    return _IDENTIFIER.search(name) is not None


def names_one_of_many(name: str) -> bool:
    """Return whether a column has the name of identifiers that may repeat, as those of shops; an index does not.

    >>> [name for name in ("shop_id", "shopId", "nr", "row", "Unnamed: 0", "index", "grid") if names_one_of_many(name)]
    ['shop_id', 'shopId', 'nr']
    """
    return _ONE_OF_MANY.search(name) is not None


def reading_of_type(kind: Any) -> str:
    """Return the reading of the texts that stand for values of an Arrow type; empty where they are plain."""
    types = require_arrow().types
    tests = {"truth": types.is_boolean, "time": types.is_time, "duration": types.is_duration}
    return next((reading for reading, test in tests.items() if test(kind)), "")


def is_declared(field: Any) -> bool:
    """Return whether an Arrow field says that its values are categories, as those of pandas and polars do."""
    return bool(require_arrow().types.is_dictionary(field.type)) and field.metadata != _CODED


def clean(name: str, column: Any, missing: Sequence[str] = MISSING) -> Any:
    """Return a column as one Arrow array of truth values, numbers or dates, null where missing, or as `Texts`.

    Times of the day are hours, durations seconds; dates with a zone are those of Greenwich.
    """
    pa = require_arrow()
    types = pa.types
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = values.type
    if types.is_null(kind):
        return values.cast(pa.float64())
    if types.is_boolean(kind):
        return values
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _without_nan(values if types.is_integer(kind) else as_floats(values))
    if types.is_time(kind) or types.is_duration(kind):
        return _as_numbers(values)
    if types.is_temporal(kind) and not types.is_interval(kind):
        zone = kind.tz if types.is_timestamp(kind) else None
        return values.cast(pa.timestamp("us", tz=zone), safe=False).cast(pa.timestamp("us"))
    if types.is_dictionary(kind) and _is_plain_kind(kind.value_type):
        known = values.dictionary
        texts = known if is_text(known.type) else as_texts(clean(name, known, missing))
        return _texts(values.indices, texts.cast(pa.string()), missing, True)
    if is_text(kind):
        coded = dictionary_of(values)
        return _texts(coded.indices, coded.dictionary.cast(pa.string()), missing, False)
    raise InvalidParameterError(
        f"column {name!r} must hold numbers, texts, truth values or dates", str(kind), "Drop or convert it."
    )


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is one of texts."""
    types = require_arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_plain_kind(kind: Any) -> bool:
    types = require_arrow().types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    return bool(is_text(kind) or number or types.is_date(kind) or types.is_timestamp(kind))


def _as_numbers(values: Any) -> Any:
    """Times of the day in hours, durations in seconds."""
    pa = require_arrow()
    if pa.types.is_time(values.type):
        micro = as_floats(values.cast(pa.time64("us"), safe=False).cast(pa.int64()))
        return pa.compute.divide(micro, 3.6e9)
    return pa.compute.divide(as_floats(values.cast(pa.duration("us"), safe=False).cast(pa.int64())), 1e6)


def as_floats(values: Any) -> Any:
    """Return an Arrow array as float64; whole numbers beyond 2^53, such as keys, are rounded as in any array.

    Decimals are rounded once, as their text is; Arrow's own cast is off by a bit in one of ten.
    """
    pa = require_arrow()
    return (values.cast(pa.string()) if pa.types.is_decimal(values.type) else values).cast(pa.float64(), safe=False)


def as_texts(values: Any) -> Any:
    """Return cleaned values as an Arrow array of texts; whole numbers have no point."""
    pa = require_arrow()
    if isinstance(values, Texts):
        at = pa.array(values.at, mask=values.at < 0)
        return values.different.take(at)
    if pa.types.is_floating(values.type):
        known = values.drop_null().to_numpy()
        if np.all(known == np.floor(known)) and np.all(np.abs(known) < 2**53):
            values = values.cast(pa.int64())
    return values.cast(pa.string())


def by_level(values: Any) -> Texts:
    """Return cleaned values that are no texts as texts."""
    coded = values.dictionary_encode()
    return Texts(as_texts(coded.dictionary), coded.indices.fill_null(-1).to_numpy(zero_copy_only=False))


def _texts(indices: Any, dictionary: Any, missing: Sequence[str], declared: bool) -> Texts:
    """Return texts trimmed, each once, without those that stand for nothing."""
    pa = require_arrow()
    signed = indices if pa.types.is_signed_integer(indices.type) else indices.cast(pa.int64())
    at = (signed.fill_null(-1) if signed.null_count else signed).to_numpy(zero_copy_only=False)
    trimmed = pa.compute.utf8_trim_whitespace(dictionary)
    absent = pa.compute.is_in(trimmed, _absent(tuple(missing))).to_numpy(zero_copy_only=False)
    if not declared and not absent.any() and trimmed.equals(dictionary):
        return Texts(dictionary, at)
    once = trimmed.filter(pa.array(~absent)).dictionary_encode() if absent.any() else trimmed.dictionary_encode()
    different, where = once.dictionary, np.full(len(trimmed) + 1, -1, np.int32)
    where[np.flatnonzero(~absent)] = once.indices.to_numpy(zero_copy_only=False)
    if not np.array_equal(where[:-1], np.arange(len(trimmed))):
        at = where[at]
    if not declared:
        return Texts(different, at)
    seen = np.zeros(len(different) + 1, bool)
    seen[at] = True  # the last one of those missing
    seen = seen[:-1]
    if seen.all():
        return Texts(different, at)
    renumbered = np.append(np.cumsum(seen) - 1, -1)  # levels of a category that do not occur are none
    return Texts(different.filter(pa.array(seen)), renumbered[at])


@lru_cache(8)
def _absent(missing: tuple[str, ...]) -> Any:
    """Return texts that stand for nothing as an Arrow array, nothing itself among them."""
    pa = require_arrow()
    return pa.array([*missing, None], pa.string())


def _without_nan(values: Any) -> Any:
    pa = require_arrow()
    if not pa.types.is_floating(values.type):
        return values
    gaps = pa.compute.is_nan(values)
    return pa.compute.if_else(gaps, None, values) if pa.compute.any(gaps).as_py() else values


def valid(values: Any) -> Array:
    """Return where there is a value: (n_rows,)."""
    if isinstance(values, Texts):
        return values.at >= 0
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), bool)


def n_missing(values: Any) -> int:
    """Return how many values are missing."""
    return int(np.sum(values.at < 0)) if isinstance(values, Texts) else int(values.null_count)


def days_of(dates: Any) -> Array:
    """Days since 1970 with their fractions, of an array of dates without gaps."""
    return np.asarray(dates.cast("int64").to_numpy() / MICROSECONDS_A_DAY, np.float64)


def is_number(text: str) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
