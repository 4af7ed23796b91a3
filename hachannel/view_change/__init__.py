"""From one view to the next: founding, election, the choice of a log, installation."""
