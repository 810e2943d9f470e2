"""The consumer without I/O: group membership, positions, fetching."""
