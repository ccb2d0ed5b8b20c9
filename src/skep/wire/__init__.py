"""Queen's contract over HTTP, one copy for both ends; the only folder that speaks camelCase."""
