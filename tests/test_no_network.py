"""Importing, fitting, predicting, saving and loading open no connection, start no process and read no foreign code."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
banned = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.bind", "urllib.Request",
          "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "ftplib.connect", "smtplib.connect",
          "pickle.find_class")
seen = []
def watch(event, arguments):
    if event in banned and not (event == "pickle.find_class" and fitting == 0):
        seen.append((event, str(arguments)[:200]))
fitting = 0
sys.addaudithook(watch)
import numpy as np
import rflaf
X = np.random.default_rng(0).standard_normal((120, 3))
y = np.sin(X[:, 0])
for model in (rflaf.RFLAFRegressor(3, random_state=0), rflaf.RFLAFRegressor.convex(3, random_state=0),
              rflaf.RFLAFClassifier(3, random_state=0)):
    model.fit(X, y if isinstance(model, rflaf.RFLAFRegressor) else y > 0).predict(X)
fitting = 1
rflaf.save(model, sys.argv[1])
rflaf.load(sys.argv[1]).predict(X)
print(seen)
"""


@pytest.mark.slow
def test_no_connection_and_no_process_from_import_to_load(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "m.rflaf")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
