"""The cluster's metadata: records in a log, an image made by replaying them, and decisions.

A decision looks at the image and a request and answers with records and a response; `replay` is the
only code that changes an image; `metadata_log` keeps the records, in service and over restarts, and
tells the broker of what was committed.
"""
