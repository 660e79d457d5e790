"""Talking to the service.

To read a call from top to bottom: ``client`` (one method for each operation), ``calls`` (arguments
checked, sent, answer read), ``transport`` (retries, deadline, pace), ``http`` (bytes on the wire).
Beside it: ``signing``, ``pages`` (how a list is walked), ``problems`` (errors), ``doctor``. Tokens
are in ``transport``; whether what a ``ref_id`` made before is the same, in ``calls``.
"""
