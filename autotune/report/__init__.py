"""What a person reads of a run: Markdown to paste into a pull request, and plots."""

from autotune.report.write import write_report

__all__ = ["write_report"]
