"""The bodies of requests and answers; pydantic lives here and in the settings only."""
