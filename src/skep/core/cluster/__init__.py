"""What other servers of the same store did."""
