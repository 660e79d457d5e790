"""Talking to the service.

To read a call from top to bottom: ``client`` (one method for each operation), ``calls`` (arguments
checked, sent, answer read), ``transport`` (retries, deadline, pace), ``http`` (bytes on the wire).
Beside it: ``tokens``, ``signing``, ``pages`` (how a list is walked), ``existing`` (is what a
``ref_id`` made before the same), ``problems`` (errors), ``doctor``.
"""
