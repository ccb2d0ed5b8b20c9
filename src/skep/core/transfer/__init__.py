"""Offline copies between stores, without a broker."""
