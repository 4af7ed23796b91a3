"""Servers as child processes of a Python program, for tests and for programs that bring their servers."""
