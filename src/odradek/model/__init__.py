"""Words everybody shares: the environment seam, identifiers, error codes, units. Imports nothing of
Odradek.
"""
