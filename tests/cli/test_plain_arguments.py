"""Arguments in plain form mean without the parser what they mean with it; all others are left to the parser."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rflaf.cli import app as cli
from rflaf.cli.commands import in_plain_form
from rflaf.cli.predict_command import PredictCommand

WORDS = [
    "m.rflaf", "new.csv", "-", "", "--", "-o",
    "--out", "a.csv", "--json", "--as-json", "--std", "--probabilities", "--encoding",
    "latin-1", "--header", "--no-header", "--interval", "0.9", "--out=b.csv", "-ob.csv", "--help", "--outt", "-1",
]  # fmt: skip


def parsed(arguments: list[str]) -> PredictCommand | None:
    """The command that the parser makes of the arguments, or None where it makes none."""
    made = []
    with mock.patch.object(PredictCommand, "run", lambda command: made.append(command)):
        try:
            cli.application(["predict"])(["predict", *arguments], standalone_mode=False)
        except Exception as mistake:
            if not hasattr(mistake, "format_message"):
                raise
    return made[0] if made else None


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), max_size=4).map(lambda more: ["m.rflaf", "new.csv", *more])
    | st.permutations(WORDS[:3])
)
@example(["new.csv"])
@example(["--out", "--json", "m.rflaf", "new.csv"])
def test_plain_arguments_mean_what_they_mean_to_the_parser(arguments):
    found = in_plain_form(PredictCommand, arguments)
    if found is not None:
        assert found == parsed(arguments)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("m.rflaf -", {"data": Path("-")}),
        ("--out a.csv m.rflaf new.csv", {"out": Path("a.csv")}),
        ("m.rflaf new.csv -o - --json", {"out": Path("-"), "as_json": True}),
        ("m.rflaf --no-header new.csv --encoding latin-1", {"header": False, "encoding": "latin-1"}),
        ("m.rflaf new.csv --probabilities --std --header", {"probabilities": True, "std": True, "header": True}),
    ],
)
def test_usual_arguments_are_plain(arguments, options):
    expected = PredictCommand(**{"model": Path("m.rflaf"), "data": Path("new.csv"), **options})
    assert in_plain_form(PredictCommand, arguments.split()) == parsed(arguments.split()) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        "", "m.rflaf", "m.rflaf a b", "-- m.rflaf a", "--help", "m.rflaf a --interval 0.9", "m.rflaf a --out",
        "m.rflaf a --out=b", "m.rflaf a --out --json", "m.rflaf a --json --json",
    ],
)  # fmt: skip
def test_other_arguments_are_left_to_the_parser(arguments):
    assert in_plain_form(PredictCommand, arguments.split()) is None
