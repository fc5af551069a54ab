"""The sections of the page, in their order: each is a function from the evidence to markup."""

from __future__ import annotations

from .columns import column_section
from .components import activation_section, width_section
from .evidence import Evidence
from .mistakes import classification_section, regression_section
from .model_facts import model_section, speed_section
from .pieces import Section
from .scores import data_section, quality_section


def write_sections(evidence: Evidence) -> list[Section]:
    """All sections, in the order of the page."""
    return [
        quality_section(evidence),
        data_section(evidence),
        regression_section(evidence) if evidence.classes is None else classification_section(evidence),
        column_section(evidence),
        activation_section(evidence),
        width_section(evidence),
        speed_section(evidence),
        model_section(evidence),
    ]
