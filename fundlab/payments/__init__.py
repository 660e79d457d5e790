"""What changes something at the service: planned, confirmed, journalled, sent, waited for.

``actions`` is what people call, ``fl.actions``.
"""
