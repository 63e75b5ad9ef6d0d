"""The values that flow between the rewriter's rooms: relations, measures, parameters; and their types."""
