"""One module per command: parse, call the client, print."""
