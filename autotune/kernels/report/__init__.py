"""What a reader gets of a layer sweep: a table, a plot, a text; made from its records alone."""
