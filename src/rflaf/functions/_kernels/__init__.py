"""Compiled loops (numba), private as one thing.

Every loop has a plain NumPy reference next to its caller, and a test that holds the two equal. Imports nothing of
rflaf.
"""
