"""What was found, as pages that stand alone."""
