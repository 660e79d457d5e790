"""Where a deployment and the sandbox part: its answers recorded, its document compared."""
