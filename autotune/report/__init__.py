"""What a person reads of a run: tables, Markdown to paste into a pull request, and plots."""
