"""The nouns: frozen structures, no input or output."""
