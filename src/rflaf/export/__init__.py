"""A fitted estimator outside this process: the model file, ONNX, C."""
