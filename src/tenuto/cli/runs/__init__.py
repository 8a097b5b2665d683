"""`tenuto runs`: look at stored runs, follow them, and drive on what waits or was left.

Invariant: looking changes nothing and needs no agent; a run is driven only by the command that says so, never by the
background recovery of the app that is opened for it.
"""
