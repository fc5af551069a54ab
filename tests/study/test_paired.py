"""Paired differences and their intervals, and the records as they are shipped."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest
import scipy.stats

from rflaf.errors import InvalidParameterError
from rflaf.study import archive, paired, result_tables
from rflaf.study.trials import STUDY, Record, Score, Trial


def records_of(scheme, losses, pool=0, accuracy=None, **settings):
    values = {"data": "protein", "protocol": "paper", "basis": "rbf", "n_centres": 17, "width": 30, **settings}
    environment = {"study": STUDY, "numpy": "2"}
    return [
        Record(
            Trial(scheme=scheme, pool=pool, seed=seed, **values), Score(loss, accuracy, loss, accuracy), loss is None,
            30, 1.0, 2.0, 0.1, 4.0 * (pool > 0), f"2026-01-0{1 + seed}", environment,
        )
        for seed, loss in enumerate(losses)
    ]  # fmt: skip


def test_the_interval_is_that_of_a_paired_t_test():
    x, y = np.random.default_rng(0).uniform(0.2, 0.5, (2, 7))
    (one,) = paired.differences(records_of("leverage", x, 100) + records_of("plain", y))
    known = scipy.stats.ttest_rel(x, y).confidence_interval(0.95)
    assert (one.low, one.high) == pytest.approx((known.low, known.high))
    assert one.mean == pytest.approx(np.mean(x - y))
    logs = scipy.stats.ttest_1samp(np.log(x / y), 0).confidence_interval(0.95)
    assert (one.change_low, one.change_high) == pytest.approx((np.exp(logs.low) - 1, np.exp(logs.high) - 1))
    assert one.is_clear == (scipy.stats.ttest_rel(x, y).pvalue < 0.05)
    assert (one.scheme, one.against, one.seeds, one.spread) == ("leverage", "plain", 7, 4.0)


def test_only_seeds_that_both_have_and_that_did_not_diverge_are_paired():
    ours = records_of("leverage", [0.3, None, 0.5, 0.7], 100)
    theirs = records_of("plain", [0.4, 0.4, 0.4])
    (one,) = paired.differences(ours + theirs)
    assert one.seeds == 2
    assert one.mean == pytest.approx(0.0)
    (alone,) = paired.differences(ours[:1] + theirs)
    assert np.isnan(alone.low)
    assert not alone.is_clear
    assert paired.differences(ours[3:] + theirs) == []


def test_pools_are_compared_with_their_own_placebo_and_with_the_plain_arm():
    plain, small, large = (
        records_of("plain", [0.4]),
        records_of("leverage", [0.3], 10),
        records_of("leverage", [0.2], 20),
    )
    found = paired.differences(plain + small + large + records_of("placebo", [0.35], 20))
    pairs = {(one.scheme, one.against, one.pool): round(one.mean, 6) for one in found}
    assert pairs == {
        ("leverage", "plain", 10): -0.1, ("leverage", "plain", 20): -0.2, ("placebo", "plain", 20): -0.05,
        ("leverage", "placebo", 20): -0.15,
    }  # fmt: skip


def test_accuracies_have_differences_but_no_relative_change(tmp_path):
    both = records_of("leverage", [0.3, 0.3], 10, accuracy=0.9) + records_of("plain", [0.4, 0.4], accuracy=0.8)
    (one,) = paired.differences(both, "accuracy")
    assert one.mean == pytest.approx(0.1)
    assert one.change is None
    paired.write([one], tmp_path / "d.csv")
    with (tmp_path / "d.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["scheme"], row["mean"], row["change"]) == ("leverage", "0.1", "")
    assert "| leverage | plain | 0.9000, 0.8000 | +0.1000 |" in result_tables.paired_table([one])


def test_records_survive_packing_and_pack_to_the_same_bytes(tmp_path):
    records = records_of("leverage", [0.3, None], 10) + records_of("plain", [0.4])
    path, note = archive.pack(records, tmp_path / "some.jsonl.gz")
    assert (path.name, note.name) == ("some.jsonl.gz", "some.json")
    assert archive.unpack(path) == sorted(records, key=lambda record: record.trial)
    first = path.read_bytes(), note.read_bytes()
    archive.pack(reversed(records), path)
    assert (path.read_bytes(), note.read_bytes()) == first
    assert b'"numpy": "2"' in note.read_bytes()


def test_packed_records_that_were_changed_are_refused(tmp_path):
    path, _ = archive.pack(records_of("plain", [0.4]), tmp_path / "some.jsonl.gz")
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"0.4", b"0.3")))
    with pytest.raises(InvalidParameterError, match=r"some.jsonl.gz must have the SHA-256 of its note.*Fetch both"):
        archive.unpack(path)
