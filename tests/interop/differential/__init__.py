"""One script, two brokers: what each answers, made comparable, compared field by field.

scripts/*     what is asked: functions of a `Peer`, run unchanged against both brokers
peer.py       one broker as a script sees it: requests and raw bytes out, outcomes noted down
plain.py      answers as plain trees, with what must differ (ids, times, paths, texts) replaced
comparing.py  two transcripts -> differences; which of them are known
known_differences.py   every difference that stays, with its reason
"""
