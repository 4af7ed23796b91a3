"""The trace of a replica: one row for each reaction, written as Parquet files."""
