"""What a reviewer asks of decisions and runs: what changed, what is there, and does it hold?"""
