"""The public interface of the rewriter, in the order in which the planner calls it, from text to the backend's SQL.

`split_query` reads a private statement and splits it into a logical plan: aggregate nodes, which the backend computes,
and what remains above them, which `present` writes as SQL over released arrays. Before that `types_query` and its
constants are put to the front, which is PostgreSQL. `known_cells` says which cells a node has; the functions that end
in `_query` write the backend's SQL, the last stage of which bounds what one unit contributes.
"""

from __future__ import annotations

from collections.abc import Callable

from rewriter.binder.constants import MAX_ELEMENTS, Constant, in_utc
from rewriter.binder.contribution_bounds import groups_per_unit, one_row_per_unit
from rewriter.binder.group_by import same_with_values
from rewriter.binder.names import resolve
from rewriter.binder.views import ordered_columns, stored_text
from rewriter.canonical.normalize import canonical
from rewriter.canonical.order import tied
from rewriter.emit.cells_query import ALL, NONE, CellsQuery, cells_query
from rewriter.emit.clipped_totals import Vectors, averages_query, clipped_query, lengths_query
from rewriter.emit.enforcement import held
from rewriter.emit.histogram import (
    Scanned,
    check_dialect,
    histogram_query,
    node_text,
    shown_text,
    types_query,
)
from rewriter.emit.other_queries import QueryContext, bins_query, items_query, running_query, weights_query
from rewriter.emit.outline import Measured, Outline, Part, Role, of_units, outline, outlines_apart
from rewriter.emit.readable import readable
from rewriter.logical.empty import has_no_rows, is_empty, probe, without_rows
from rewriter.logical.key_domains import MAX_CELLS, domain_queries, known_cells
from rewriter.logical.lasting_streams import lasting, public_tables, running, within_horizon
from rewriter.logical.measures import undeclared_end
from rewriter.logical.presentation import ReleasedColumn, ReleasedColumns, node_columns, present
from rewriter.logical.split import split_query
from rewriter.logical.views import view_table
from rewriter.scalar.array_literal import array_text
from rewriter.scalar.blanks import without_blanks
from rewriter.scalar.typecheck import type_of
from rewriter.statements.classify import classify
from rewriter.syntax.allowlist import position
from rewriter.syntax.desugar import plain
from rewriter.syntax.differences import Stretch, stretches
from rewriter.syntax.parse import parse_query

__all__ = [
    "ALL",
    "MAX_CELLS",
    "MAX_ELEMENTS",
    "NONE",
    "PASSES",
    "CellsQuery",
    "Constant",
    "Measured",
    "Outline",
    "Part",
    "QueryContext",
    "ReleasedColumn",
    "ReleasedColumns",
    "Role",
    "Scanned",
    "Stretch",
    "Vectors",
    "array_text",
    "averages_query",
    "bins_query",
    "cells_query",
    "check_dialect",
    "clipped_query",
    "domain_queries",
    "groups_per_unit",
    "has_no_rows",
    "held",
    "histogram_query",
    "in_utc",
    "is_empty",
    "items_query",
    "known_cells",
    "lasting",
    "lengths_query",
    "node_columns",
    "node_text",
    "of_units",
    "one_row_per_unit",
    "ordered_columns",
    "outline",
    "outlines_apart",
    "position",
    "present",
    "probe",
    "public_tables",
    "readable",
    "running",
    "running_query",
    "same_with_values",
    "shown_text",
    "split_query",
    "stored_text",
    "stretches",
    "tied",
    "type_of",
    "types_query",
    "undeclared_end",
    "view_table",
    "weights_query",
    "within_horizon",
    "without_blanks",
    "without_rows",
]

PASSES: tuple[Callable[..., object], ...] = (
    classify,  # a text            -> what kind of statement it is
    parse_query,  # a text            -> its tree, of allowed structure
    plain,  # an expression     -> one without alternative spellings
    resolve,  # an expression     -> one over the columns of sources
    groups_per_unit,  # rows and keys     -> in how many groups one unit is
    split_query,  # a text            -> a logical plan: nodes, and the statement above them
    domain_queries,  # rows and keys     -> queries of public rows, whose rows are the cells
    canonical,  # an expression     -> one text for equal questions
    present,  # a logical plan    -> the presentation
    histogram_query,  # a node            -> the SQL of an engine
)
"""The passes that a private statement goes through, a module each, which begins with an example of what goes in and
what comes out; tests/rewriter/passes has more. `split_query` parses, and calls desugaring, binding and analysis for
each query from the inside out (docs/decisions/the-plan-keeps-the-clients-statement.md). Between two passes the planner
asks the front, and `mechanisms.choose` chooses, by the bounds and the domain, before SQL is emitted.
"""
