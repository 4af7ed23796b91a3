"""Schedules of faults: drawn at random, written in JSON, run, shrunk."""
