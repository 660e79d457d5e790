"""Out of the service: ``run`` brings a store up to date, ``loaders`` gives typed DataFrames.

Both read the pages of a list by ``table_pages``.
"""
