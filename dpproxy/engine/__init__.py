"""The way of an answer: plan, choose, reserve, fetch, release, settle."""
