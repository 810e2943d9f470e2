"""Runs one script against two brokers and compares their answers field by field.

scripts/*     the requests: functions of a `Peer`, run unchanged against both brokers
peer.py       one broker for a script: sends requests and raw bytes, records outcomes
plain.py      answers as plain trees, with ids, times, paths and texts replaced
comparing.py  differences of two transcripts, and which of them are known
known_differences.py   every accepted difference, with its reason
"""
