"""The paper's experiments, repeated and then done fairly; nothing in the rest of the package imports this."""
