"""Reads only, in small steps. Nothing here writes."""
