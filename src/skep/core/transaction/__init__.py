"""Several operations, all or nothing, once."""
