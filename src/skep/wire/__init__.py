"""The contract over HTTP, one copy for both ends; the only package with camelCase names."""
