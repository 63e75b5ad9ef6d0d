"""Mechanisms: from true counts to releases, by the names of the papers, with a proof sheet for each."""
