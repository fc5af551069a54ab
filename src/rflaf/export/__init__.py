"""Fitted estimators for other processes and programs: the model file, ONNX, C.

May import `rflaf.estimators` and the rooms below it.
"""
