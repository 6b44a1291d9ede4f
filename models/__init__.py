"""The method: schema, encoding, networks, training, search and ensembles."""
