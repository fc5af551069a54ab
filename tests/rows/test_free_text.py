"""Free text: texts that hardly repeat become a few numbers, the same by every door, with no look at the target."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rflaf
from rflaf import InvalidParameterError, RFLAFRegressor
from rflaf.rows.files import Table
from rflaf.rows.tables import TableEncoding, TextColumn, make_encoding, summarise
from rflaf.rows.tables.free_text import TextComponents, has_words, learn_components, text_sample

WORTH = {"wool": 0.0, "silk": 3.0, "paper": -2.0, "gold": 5.0, "straw": -4.0, "linen": 1.0}


def titles(n_rows, seed=0):
    """Titles that never repeat; one of their words says what the target is."""
    rng = np.random.default_rng(seed)
    material, what = rng.choice(list(WORTH), n_rows), rng.choice(["hat", "coat", "shoe", "bag"], n_rows)
    texts = [f"{a} {b} no. {number}" for a, b, number in zip(material, what, rng.permutation(10**6), strict=False)]
    y = np.array([WORTH[a] for a in material]) + 0.3 * rng.standard_normal(n_rows)
    return pd.DataFrame({"title": texts, "x": rng.standard_normal(n_rows)}), y


@pytest.fixture(scope="module")
def fitted():
    frame, y = titles(700)
    frame.loc[::50, "title"] = None
    return RFLAFRegressor(20, random_state=0, n_jobs=1).fit(frame, y), frame, y


def test_titles_are_learned_from_though_none_repeats(fitted):
    model, _, _ = fitted
    frame, y = titles(500, seed=1)
    assert model.score(frame, y) > 0.9
    line = model.table_encoding_.decisions[0]
    assert line.read_as == "free text, 10 columns, 14 missing"
    assert "have words" in line.why
    assert line.change == "--drop title"
    assert list(model.feature_names_in_) == ["title", "x"]


@pytest.mark.slow
def test_a_random_target_is_not_learned_from_texts():
    frame, _ = titles(600)
    y = np.random.default_rng(5).standard_normal(1100)
    model = RFLAFRegressor(20, random_state=0, n_jobs=1).fit(frame, y[:600])
    later, _ = titles(500, seed=3)
    error = np.mean((model.predict(later) - y[600:]) ** 2)
    assert error < 1.02 * np.mean((y[:600].mean() - y[600:]) ** 2)


@pytest.mark.slow
def test_free_text_stays_by_every_door_and_in_files(fitted, tmp_path):
    model, frame, y = fitted
    expected = model.predict(frame)
    rflaf.save(model, tmp_path / "m.rflaf")
    np.testing.assert_array_equal(rflaf.load(tmp_path / "m.rflaf").predict(frame), expected)
    frame.assign(y=y).to_csv(tmp_path / "a.csv", index=False)
    frame.assign(y=y).to_parquet(tmp_path / "a.parquet", row_group_size=100)
    for path in (tmp_path / "a.csv", tmp_path / "a.parquet"):
        np.testing.assert_array_equal(model.predict(Table(path)), expected)
    by_file = RFLAFRegressor(20, random_state=0, n_jobs=1).fit(Table(tmp_path / "a.parquet"), "y")
    assert by_file.table_encoding_ == model.table_encoding_
    np.testing.assert_array_equal(model.predict(pa.Table.from_pandas(frame)), expected)


@pytest.mark.parametrize("language", ["c", "js", "java", "go", "rust", "sql"])
def test_exports_refuse_free_text_and_say_what_to_do(fitted, language):
    with pytest.raises(InvalidParameterError, match=r"free text in \['title'\].*--drop title"):
        rflaf.to_source(fitted[0], language=language)


def test_onnx_refuses_free_text(fitted):
    pytest.importorskip("skl2onnx")
    with pytest.raises(InvalidParameterError, match=r"free text in \['title'\]"):
        rflaf.to_onnx(fitted[0])


def test_codes_are_no_words_but_may_be_read_as_text():
    table = pa.table({"code": [f"AX{number:06d}" for number in range(200)], "x": np.arange(200) % 7})
    encoding = make_encoding(summarise(table))
    assert [left.name for left in encoding.dropped] == ["code"]
    assert encoding.decisions[0].change == "--read code=text"
    assert isinstance(make_encoding(summarise(table), read={"code": "text"}).columns[0], TextColumn)
    assert not has_words([])
    assert not has_words([f"flat number {at}" for at in range(9)])
    assert has_words(["Braund, Mr. Owen", "Heikkinen, Miss. Laina"])


COMPONENTS = learn_components(titles(60)[0]["title"])
texts = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), min_size=1, max_size=30, unique=True)


@pytest.mark.slow
@given(words=texts, cuts=st.lists(st.integers(0, 30), max_size=3))
def test_columns_of_a_text_do_not_depend_on_the_others(words, cuts):
    components = COMPONENTS
    whole = components.of(pa.array(words))
    parts = np.split(np.array(words, object), sorted({min(cut, len(words)) for cut in cuts}))
    rows = [components.of(pa.array(part, pa.string())) for part in parts if len(part)]
    np.testing.assert_array_equal(np.vstack(rows), whole)
    assert np.isfinite(whole).all()


def test_components_are_those_of_a_plain_loop():
    """A slow reference: count the runs of three bytes one by one, with the same buckets."""
    words = [f"{a} {b}" for a in WORTH for b in ("hat", "Coat")] + ["hat  hat hat"]
    components = learn_components(words)
    padded = [f" {' '.join(text.lower().split())} ".encode() for text in words]
    runs = [[text[k : k + 3] for k in range(len(text) - 2)] for text in padded]
    buckets = [[_bucket(run) for run in of_text] for of_text in runs]
    having = np.array([sum(b in of_text for of_text in buckets) for b in range(1024)])
    weight = 1 + np.log((1 + len(words)) / (1 + having))
    counts = np.array([[of_text.count(b) for b in range(1024)] for of_text in buckets])
    V = np.log1p(counts) * weight
    V /= np.linalg.norm(V, axis=1)[:, None]
    np.testing.assert_allclose(components.weight, weight, rtol=1e-6)
    centred = V - V.mean(axis=0)
    found = components.of(pa.array(words))
    np.testing.assert_allclose(found, centred @ components.axes, atol=1e-6)
    variances = np.linalg.svd(centred, compute_uv=False)[:10] ** 2
    np.testing.assert_allclose(np.sum(found**2, axis=0), variances, rtol=1e-4)


def _bucket(run):
    mixed = 0
    for letter, factor in zip(run, (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35), strict=True):
        mixed ^= letter * factor % 2**32
    mixed = (mixed ^ mixed >> 15) * 0x2C1B3C6D % 2**32
    return (mixed >> 12) % 1024


def test_samples_of_chunks_are_the_sample_of_all():
    frame, _ = titles(400)
    table = pa.Table.from_pandas(frame[["title"]])
    for most in (50, 1000):
        whole = summarise(table, most=most)
        first, second, third = (summarise(part, most=most) for part in (table[:30], table[30:200], table[200:]))
        pieces = first + second + third
        assert whole == pieces
        assert make_encoding(whole) == make_encoding(pieces)
    assert len(text_sample(frame["title"])) == 400


def test_components_survive_json():
    assert TextComponents.from_dict(json.loads(json.dumps(COMPONENTS.to_dict()))) == COMPONENTS


def test_what_are_no_components_is_refused():
    frame, _ = titles(60)
    plain = make_encoding(summarise(frame)).to_dict()
    plain["columns"][0]["components"]["axes"] = "AAAA"
    with pytest.raises(InvalidParameterError, match="an encoding must be"):
        TableEncoding.from_dict(plain)
