"""One replica's side of the whole protocol: `Channel`, its message dispatch, its timers and its decisions."""
