"""The producer, without I/O."""
