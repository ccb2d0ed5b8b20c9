"""The HTTP server: Queen's API and Skep's additions to it."""
