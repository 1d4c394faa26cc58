"""The source of PySpark."""
