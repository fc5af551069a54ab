"""The sections of the page in order; each is a function from the findings to markup."""

from __future__ import annotations

from .column_section import column_section
from .component_section import activation_section, width_section
from .findings import Findings
from .mistakes import classification_section, regression_section
from .model_facts import model_section, speed_section
from .pieces import Section
from .scores import data_section, quality_section


def write_sections(findings: Findings) -> list[Section]:
    """Return all sections in the order of the page."""
    return [
        quality_section(findings),
        data_section(findings),
        regression_section(findings) if findings.classes is None else classification_section(findings),
        column_section(findings),
        activation_section(findings),
        width_section(findings),
        speed_section(findings),
        model_section(findings),
    ]
