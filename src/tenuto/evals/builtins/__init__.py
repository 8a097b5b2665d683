"""The scorers that are shipped.

Invariant: each says its scale, which end of it is the good one, and where its method comes from; prompts are our own
words, and a score is computed here from what a judge said, never by the judge.
"""
