"""State transfer: a donor sends the state and the log to a learner until it can join the view."""
