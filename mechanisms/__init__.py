"""Mechanisms: from true counts to what may leave, by the names of the papers, with a proof sheet beside each."""
