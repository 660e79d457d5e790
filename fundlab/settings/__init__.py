"""How this user reaches a service: environment, profiles, secrets, and labels for what it has."""
