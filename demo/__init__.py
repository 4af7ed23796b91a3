"""The demonstration: real data, a killed master, three equal totals."""
