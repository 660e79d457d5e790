"""Talking to the service.

To read a call from top to bottom: ``client`` (one method for each operation), ``calls`` (arguments
checked, sent, answer read), ``transport`` (tokens, retries, deadline, pace), ``connections`` (bytes
on the wire). Beside it: ``signing``, ``pages`` (how a list is walked, which filters were heeded),
``problems`` (errors), ``doctor``, and ``identity``: whether what a ``ref_id`` made before is the
same.
"""
