"""How soon `fast` trains to the validity of `paper`, and how fast the search is."""
