"""Spark sessions: of Sail, which needs no Java, of classic Spark, and of Spark's own Connect."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

import pytest
from extra_packages import needs

ENGINES = ("sail", "classic", "connect")
_ZONE = "America/New_York"


@contextmanager
def spark_session(engine: str) -> Iterator[Any]:
    """Skips where Spark's own is asked for and Java or PySpark's Java archives are absent."""
    spark = needs("pyspark.sql").SparkSession
    with ExitStack() as stack:
        if engine == "sail":
            os.environ.setdefault("SAIL_SPARK__SESSION_TIMEOUT_SECS", "86400")  # a slow machine's
            server = needs("pysail.spark").SparkConnectServer(ip="127.0.0.1", port=0)
            server.start(background=True)
            stack.callback(server.stop)
            host, port = server.listening_address
            # PySpark takes a worker of pytest-xdist, whose main module has no file, for a doctest.
            main = sys.modules["__main__"]
            main.__file__ = getattr(main, "__file__", __file__)
            builder = spark.builder.remote(f"sc://{host}:{port}")
        else:
            if shutil.which("java") is None:
                pytest.skip("Spark needs Java; none on the PATH")
            if find_spec("py4j") is None:
                pytest.skip("pyspark-client has no Spark of its own; install pyspark")
            builder = spark.builder.config("spark.ui.enabled", "false")
            builder = builder.config("spark.driver.host", "127.0.0.1")
            builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
            builder = builder.config("spark.sql.shuffle.partitions", "2")
            builder = builder.config("spark.pyspark.python", sys.executable)
            builder = builder.config("spark.driver.memory", "3g")
            local = "local[2]"
            builder = builder.remote(local) if engine == "connect" else builder.master(local)
        # Of Sail another one each time: a session of another test may still be there.
        session: Any = builder.create() if engine == "sail" else builder.getOrCreate()
        stack.callback(session.stop)
        session.conf.set("spark.sql.session.timeZone", _ZONE)
        if engine == "classic":
            session.sparkContext.setLogLevel("OFF")
        yield session
