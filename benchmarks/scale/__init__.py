"""Large data on DuckDB and Spark, against what they may take."""
