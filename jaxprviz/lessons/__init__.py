"""What the notebooks use beyond the package itself: exercises, recordings, checks."""
