"""Answers as data: schemas, the ways to ask a model for them, and how what it wrote is read.

Invariant: what is called an object fits its schema; a model that cannot be held to one is told, read and checked.
"""
