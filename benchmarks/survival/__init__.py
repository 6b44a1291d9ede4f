"""Do answers hold for models that nobody asked? The yardstick of the engine (METHOD.md, section 0)."""
