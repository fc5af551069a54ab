"""Where rows come from and how sums over them run: blocks, executors, progress, checkpoints; tables, files, Dask.

May import `rflaf.errors` only.
"""
