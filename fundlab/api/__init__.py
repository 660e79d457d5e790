"""Talking to the service: signing, tokens, sending, paging, and one method for each operation."""
