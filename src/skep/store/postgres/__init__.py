"""PostgreSQL: one store for several servers."""
