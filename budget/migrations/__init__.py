"""The ledger's schema, version by version: 01.sql makes it, each further file changes the one before."""
