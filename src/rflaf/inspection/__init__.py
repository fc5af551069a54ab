"""Views of a fitted model: effects of columns, matplotlib displays, the HTML report.

May import `rflaf.estimators` and the rooms below it.
"""
