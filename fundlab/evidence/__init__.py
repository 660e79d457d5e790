"""What is kept about a store: observations and verdict, closes, anchors, backups, vanished rows.

``table_store`` is the store as an object; ``fl.Store``, with sync and journals, stands above it
(`fundlab.operate.store`). ``verify`` looks at all of it, ``repair`` mends what it finds.
"""
