"""The lender's models: local or remote, and reached through the metered proxy only."""
