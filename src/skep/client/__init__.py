"""The SDK: the queue over HTTP, with the same words and errors as the broker."""
