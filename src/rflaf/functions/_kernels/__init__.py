"""Compiled loops (numba), private as a whole.

Every loop has a NumPy reference, and a test that compares the two. Imports nothing of rflaf.
"""
