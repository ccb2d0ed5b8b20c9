"""Turns credentials into a principal: tokens, API keys, allowed origins, listen addresses."""
