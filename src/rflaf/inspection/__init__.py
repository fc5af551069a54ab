"""What a model has learned: effects of columns, plots, the HTML report."""
