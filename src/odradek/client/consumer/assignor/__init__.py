"""Assignors: how a group's leader shares out partitions among the members."""
