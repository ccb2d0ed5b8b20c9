"""From DataFrames to DataFrames, a file for each subject."""
