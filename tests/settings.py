"""Arguments that several test modules fit estimators with."""

from __future__ import annotations

PAPER = {"directions": "random", "activation": "shared"}  # with plain or leverage sampling
CONVEX = {"directions": "random", "activation": "per_component"}
