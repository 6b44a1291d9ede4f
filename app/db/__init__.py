"""The database: tables, and plain query functions, one file a table, that never commit."""
