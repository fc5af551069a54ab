"""What pandas writes beside the tables that it stores: which columns are its index, and which were categories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def index_columns(about: Mapping[bytes, bytes] | None) -> frozenset[str]:
    """Return the columns that pandas stored as its index."""
    return frozenset(name for name in _said_by_pandas(about, "index_columns") if isinstance(name, str))


def categorical_columns(about: Mapping[bytes, bytes] | None) -> frozenset[str]:
    """Return the columns that were categories in pandas, also those that a Parquet file holds as plain numbers."""
    columns = [column for column in _said_by_pandas(about, "columns") if isinstance(column, dict)]
    return frozenset(str(one.get("field_name")) for one in columns if one.get("pandas_type") == "categorical")


def _said_by_pandas(about: Mapping[bytes, bytes] | None, what: str) -> list[Any]:
    try:
        said = json.loads((about or {}).get(b"pandas", b"{}")).get(what)
    except (ValueError, AttributeError):
        return []
    return said if isinstance(said, list) else []
