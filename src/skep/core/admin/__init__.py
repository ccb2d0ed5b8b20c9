"""What operators change, one module per noun."""
