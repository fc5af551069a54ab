"""Training directions, curves and activations together: encoded rows, trainer, ensemble, search."""
