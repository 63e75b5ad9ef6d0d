"""What the proxy, its relay, its ledger and its noise cost, and what attackers cost others."""
