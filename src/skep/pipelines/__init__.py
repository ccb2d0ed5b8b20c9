"""Pipelines over queues: each reads, takes a few steps, and writes. The engine is Spark.

Steps are functions from DataFrames to DataFrames, without anything else, for anybody to use.
"""
