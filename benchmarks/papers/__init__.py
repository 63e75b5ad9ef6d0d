"""The papers' figures beside ours."""
