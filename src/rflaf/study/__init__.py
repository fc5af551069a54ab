"""The experiments of the paper, repeated and compared with converged solvers and other models.

May import `rflaf.inspection` and the rooms below it; only the command line imports this room.
"""
