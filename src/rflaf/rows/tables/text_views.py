"""Views of texts, which polars hands on and Arrow of release 16 can hardly do anything with."""

from __future__ import annotations

from functools import cache
from typing import Any


def without_views(table: Any) -> Any:
    """Return a table with plain texts for views of texts where Arrow, as release 16, can do next to nothing with them.

    >>> import pyarrow as pa
    >>> without_views(pa.table({"a": pa.array(["b", None], pa.string_view())}))["a"].to_pylist()
    ['b', None]
    """
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        coded = pa.types.is_dictionary(field.type)
        if pa.types.is_string_view(field.type.value_type if coded else field.type) and not _casts_views():
            kind = pa.dictionary(field.type.index_type, pa.string(), field.type.ordered) if coded else pa.string()
            plain = pa.chunked_array([_plain_texts(chunk) for chunk in table.column(at).chunks], kind)
            table = table.set_column(at, field.with_type(kind), plain)
    return table


def _plain_texts(values: Any) -> Any:
    import pyarrow as pa

    if not pa.types.is_dictionary(values.type):
        return pa.array(values.to_pylist(), pa.string())
    levels, ordered = _plain_texts(values.dictionary), values.type.ordered
    return pa.DictionaryArray.from_arrays(values.indices, levels, ordered=ordered)


@cache
def _casts_views() -> bool:
    import pyarrow as pa

    try:
        pa.array(["a"], pa.string_view()).cast(pa.string())
    except pa.ArrowNotImplementedError:
        return False
    return True
