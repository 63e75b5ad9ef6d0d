"""Names resolved; every row keeps its unit and its bounds: the stability calculus."""
