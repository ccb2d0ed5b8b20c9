"""Bodies of bulk reading and writing: journal, sink, Arrow."""
