"""What the door answers, one file per subject."""
