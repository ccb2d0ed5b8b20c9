"""Credentials become a principal here, and only here: tokens, API keys, allowed origins, where to
listen.
"""
