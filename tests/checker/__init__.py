"""The checker of a run: reads the history of every call and reply, and reports whether the server kept its rules.

It shares no code with the server and knows nothing of how the server works; it knows only what users were promised.
"""
