"""Tables of mixed columns as matrices: numbers, categories, truth values, dates and what is missing.

First every column is summarised (`summarise`): counts, means, levels. Summaries of chunks add up to that of the whole
table, exactly, so a file read in pieces and a frame in memory are encoded alike. From the summary follows a
`TableEncoding`, plain data that turns any table with these columns into an array:

| a column of | becomes |
| --- | --- |
| numbers, truth values | itself, its mean where missing; a second column says where, if anything was missing |
| two levels | 0 or 1; 0.5 where missing or unseen |
| more levels | the number of the level; the rarest beyond 500 share one, which also takes unseen levels |
| more than 500 levels | the same, and the target's mean by level, cross-fitted (`statistics`) |
| dates, in any of `readings` | days since 1970, day of the year, day of the week, and the hour where there are any |
| texts that hardly repeat and have words | ten numbers of the runs of letters in them (`free_text`) |
| one value, no value, identifiers, running numbers | nothing, with the reason in ``dropped`` |

A missing level has a number of its own.

With `rflaf.rows.indicators` this is scikit-learn's ``ColumnTransformer`` of ``SimpleImputer`` and ``OneHotEncoder``
and tested to be equal to it, but computed by Arrow: those take categories from arrays of Python objects, several times
slower, and learn them from all rows at once. Needs the extra ``files``.
"""

from .cells import MISSING, Texts, as_table, clean, find_column, is_number, refuse_repeated, require_arrow
from .columns import CategoryColumn, DateColumn, NumberColumn, Year
from .decisions import Decision
from .encoding import Dropped, TableEncoding, add_rows, level_sums, make_encoding
from .free_text import TextColumn
from .moments import Moments
from .statistics import LevelStatistic, LevelSums, target_parts
from .summaries import ColumnSummary, TableSummary, summarise
from .target import TargetEncoding, make_target, own_labels, unknown_target

__all__ = [
    "MISSING",
    "CategoryColumn",
    "ColumnSummary",
    "DateColumn",
    "Decision",
    "Dropped",
    "LevelStatistic",
    "LevelSums",
    "Moments",
    "NumberColumn",
    "TableEncoding",
    "TableSummary",
    "TargetEncoding",
    "TextColumn",
    "Texts",
    "Year",
    "add_rows",
    "as_table",
    "clean",
    "find_column",
    "is_number",
    "level_sums",
    "make_encoding",
    "make_target",
    "own_labels",
    "refuse_repeated",
    "require_arrow",
    "summarise",
    "target_parts",
    "unknown_target",
]
