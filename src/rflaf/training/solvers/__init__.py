"""The numerical problems: shared activation, one activation per component, convex losses, leverage, refinement.

A solver sees rows only through `rflaf.rows.executors`; it knows neither files nor Dask.
"""
