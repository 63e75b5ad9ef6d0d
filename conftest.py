"""What cannot be collected where an optional engine is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyspark") else ["dpproxy/backends/spark*.py", "tests/oracle/spark.py"]
