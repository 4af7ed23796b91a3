"""The log on disk: a file of frames beside an SQLite database, their recovery and their damage."""
