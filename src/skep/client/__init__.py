"""The SDK: the methods and errors of the broker, over HTTP."""
