"""The door: HTTP in Queen's words."""
