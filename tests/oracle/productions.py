"""The productions of PostgreSQL's grammar that statements are derived from: nonterminals and rules named as in gram.y.

A nonterminal of expressions stands once for each type. In a rule's text {int} is an a_expr of that type, {int_column}
a column, {int_constant} a constant; other names in braces are nonterminals. How much a rule is drawn at first is its
weight; what the rewriter accepts and where it goes decide from then on (derivation.py).
"""

from __future__ import annotations

from dataclasses import dataclass

BOOL, INT, FLOAT, TEXT, DATE, TIME, COPY = "bool", "int", "float", "text", "date", "time", "copy"
TYPES = (BOOL, INT, FLOAT, TEXT, DATE, TIME)


@dataclass(frozen=True)
class Rule:
    """An alternative of a nonterminal: its right side in gram.y, and how it is written. `leaf`: it ends a branch."""

    name: str
    text: str = ""
    weight: float = 1
    leaf: bool = False


def _rules(
    *rules: tuple[str, str] | tuple[str, str, float] | tuple[str, str, float, bool],
) -> tuple[Rule, ...]:
    return tuple(Rule(*rule) for rule in rules)


def _of_any(of: str) -> tuple[Rule, ...]:
    """What an expression of every type may be."""
    return _rules(
        ("columnref", f"{{{of}_column}}", 8, True),
        ("AexprConst", f"{{{of}_constant}}", 1, True),
        (
            "case_expr: CASE when_clause_list case_default",
            f"CASE WHEN {{bool}} THEN {{{of}}} ELSE {{{of}}} END",
        ),
        (
            "case_expr: no case_default",
            f"CASE WHEN {{bool}} THEN {{{of}}} WHEN {{bool}} THEN {{{of}}} END",
            0.5,
        ),
        (
            "case_expr: case_arg",
            f"CASE {{text_column}} WHEN {{text_constant}} THEN {{{of}}} ELSE {{{of}}} END",
            0.5,
        ),
        ("COALESCE '(' expr_list ')'", f"COALESCE({{{of}}}, {{{of}}})"),
        ("NULLIF '(' a_expr ',' a_expr ')'", f"NULLIF({{{of}}}, {{{of}_constant}})", 0.5),
        ("'(' a_expr ')'", f"({{{of}}})", 0.3),
        ("c_expr: select_with_parens", f"{{{of}_subquery}}", 0.4),
    )


def _compared(of: str) -> tuple[Rule, ...]:
    """What compares two values of a type."""
    one, other = f"{{{of}}}", f"{{{of}_constant}}"
    return _rules(
        (f"a_expr '=' a_expr: {of}", f"{one} = {other}", 2),
        (f"a_expr '=' a_expr: two columns of {of}", f"{{{of}_column}} = {{{of}_column}}"),
        (f"a_expr NOT_EQUALS a_expr: {of}", f"{one} <> {other}"),
        (f"a_expr '<' a_expr: {of}", f"{one} < {other}"),
        (f"a_expr GREATER_EQUALS a_expr: {of}", f"{one} >= {other}"),
        (f"a_expr IS DISTINCT FROM a_expr: {of}", f"{one} IS DISTINCT FROM {other}", 0.5),
        (f"a_expr IS NOT DISTINCT FROM a_expr: {of}", f"{{{of}_column}} IS NOT DISTINCT FROM {{{of}}}", 0.5),
        (f"a_expr IS NULL_P: {of}", f"{one} IS NULL"),
        (f"a_expr IS NOT NULL_P: {of}", f"{one} IS NOT NULL"),
        (f"a_expr BETWEEN b_expr AND a_expr: {of}", f"{one} BETWEEN {other} AND {other}", 0.5),
        (f"a_expr NOT_LA BETWEEN SYMMETRIC: {of}", f"{one} NOT BETWEEN SYMMETRIC {other} AND {other}", 0.2),
        (f"a_expr IN_P '(' expr_list ')': {of}", f"{one} IN ({other}, {other}, {other})"),
        (f"a_expr NOT_LA IN_P '(' expr_list ')': {of}", f"{one} NOT IN ({other}, {other})", 0.5),
        (f"a_expr subquery_Op sub_type '(' a_expr ')': {of}", f"{one} = ANY (ARRAY[{other}, {other}])", 0.5),
        (f"a_expr subquery_Op ALL '(' a_expr ')': {of}", f"{one} <> ALL (ARRAY[{other}, {other}])", 0.3),
        (f"a_expr subquery_Op ANY select_with_parens: {of}", f"{one} = ANY {{{of}_list}}", 0.3),
        (f"a_expr subquery_Op ALL select_with_parens: {of}", f"{one} > ALL {{{of}_list}}", 0.2),
        (f"a_expr IN_P select_with_parens: {of}", f"{one} IN {{{of}_list}}", 0.4),
    )


EXPRESSIONS: dict[str, tuple[Rule, ...]] = {
    BOOL: (
        *_rules(
            ("columnref", "{bool_column}", 1, True),
            ("a_expr IS NULL_P: leaf", "{any_column} IS NULL", 3, True),
            ("a_expr IS NOT NULL_P: leaf", "{any_column} IS NOT NULL", 2, True),
            ("a_expr '=' a_expr: leaf", "{text_column} = {text_constant}", 2, True),
            ("a_expr '>' a_expr: leaf", "{int_column} > {int_constant}", 2, True),
            ("a_expr IS NULL_P: copy", "{copy_column} IS NULL", 3, True),
            ("a_expr IS NOT NULL_P: copy", "{copy_column} IS NOT NULL", 2, True),
            ("a_expr '=' a_expr: copy", "{copy_column} = {unit}", 0.5, True),
            ("a_expr AND a_expr", "({bool} AND {bool})"),
            ("a_expr OR a_expr", "({bool} OR {bool})"),
            ("NOT a_expr", "NOT {bool}"),
            ("a_expr IS TRUE_P", "({bool}) IS TRUE", 0.3),
            ("a_expr IS NOT FALSE_P", "({bool}) IS NOT FALSE", 0.3),
            ("a_expr IS UNKNOWN", "({bool}) IS UNKNOWN", 0.3),
            ("a_expr LIKE a_expr", "{text} LIKE '%a%'"),
            ("a_expr NOT_LA LIKE a_expr", "{text} NOT LIKE 'C%'", 0.5),
            ("a_expr ILIKE a_expr", "{text} ILIKE 'ca%'", 0.5),
            ("a_expr SIMILAR TO a_expr", "{text} SIMILAR TO '(a|b)%'", 0.2),
            ("a_expr qual_Op a_expr", "{text} ~ '^[a-c]'", 0.3),
            ("row OVERLAPS row", "({date}, {date}) OVERLAPS ({date_constant}, {date_constant})", 0.1),
            (
                "a_expr '=' a_expr: row",
                "({text_column}, {int_column}) = ({text_constant}, {int_constant})",
                0.3,
            ),
            ("a_expr IN_P select_with_parens: unit", "{unit} IN {unit_list}", 2),
            ("a_expr NOT_LA IN_P select_with_parens: unit", "{unit} NOT IN {unit_list}"),
            ("EXISTS select_with_parens", "EXISTS {correlated}", 2),
            ("NOT EXISTS select_with_parens", "NOT EXISTS {correlated}"),
            ("a_expr '<' a_expr: select_with_parens", "{int_constant} < {int_of_unit}"),
            ("a_expr COLLATE any_name", '{text} COLLATE "C" < {text_constant}', 0.2),
        ),
        *_of_any(BOOL)[2:],
        *(rule for of in (INT, FLOAT, TEXT, DATE, TIME) for rule in _compared(of)),
    ),
    INT: (
        *_of_any(INT),
        *_rules(
            ("a_expr '+' a_expr", "({int} + {int})"),
            ("a_expr '-' a_expr", "({int} - {int_constant})"),
            ("a_expr '*' a_expr", "({int} * {int_constant})", 0.5),
            ("a_expr '/' a_expr", "({int} / 3)", 0.5),
            ("a_expr '%' a_expr", "({int} % 3)", 2),
            ("'-' a_expr", "(- {int})", 0.5),
            ("func_application: abs", "abs({int})", 0.5),
            ("func_application: length", "length({text})"),
            ("func_application: strpos", "strpos({text}, 'a')", 0.3),
            ("EXTRACT '(' extract_list ')': date", "EXTRACT(dow FROM {date})::int"),
            ("EXTRACT '(' extract_list ')': time", "CAST(EXTRACT(hour FROM {time}) AS int)"),
            ("POSITION '(' position_list ')'", "POSITION('a' IN {text})", 0.3),
            ("a_expr TYPECAST Typename", "({float})::int", 0.3),
            ("a_expr TYPECAST Typename: bool", "({bool})::int", 0.5),
            ("GREATEST '(' expr_list ')'", "GREATEST({int}, {int_constant})"),
            ("LEAST '(' expr_list ')'", "LEAST({int}, {int_constant})"),
            ("a_expr '-' a_expr: date", "({date} - {date_constant})", 0.5),
            ("c_expr: select_with_parens, of the unit", "{int_of_unit}", 0.7),
        ),
    ),
    FLOAT: (
        *_of_any(FLOAT),
        *_rules(
            ("a_expr '+' a_expr", "({float} + {int})"),
            ("a_expr '*' a_expr", "({float} * 2)", 0.5),
            ("a_expr TYPECAST Typename", "({int})::float8"),
            ("CAST '(' a_expr AS Typename ')'", "CAST({int} AS double precision)"),
            ("func_application: abs", "abs({float})", 0.5),
            ("func_application: round", "round({float})", 0.5),
            ("func_application: floor", "floor({float})", 0.5),
            ("func_application: sqrt", "sqrt(abs({int}))", 0.2),
            ("GREATEST '(' expr_list ')'", "GREATEST({float}, 0)", 0.5),
        ),
    ),
    TEXT: (
        *_of_any(TEXT),
        *_rules(
            ("a_expr qual_Op a_expr", "({text} || {text_constant})"),
            ("func_application: lower", "lower({text})"),
            ("func_application: upper", "upper({text})"),
            ("TRIM '(' trim_list ')'", "TRIM({text})"),
            ("TRIM '(' LEADING trim_list ')'", "TRIM(LEADING 'c' FROM {text})", 0.3),
            ("SUBSTRING '(' substr_list ')'", "SUBSTRING({text} FROM 1 FOR 2)"),
            ("func_application: left", "left({text}, 2)", 0.5),
            ("func_application: replace", "replace({text}, 'a', 'b')", 0.3),
            ("a_expr TYPECAST Typename", "({int})::text"),
            ("CAST '(' a_expr AS Typename ')'", "CAST({date} AS text)", 0.5),
            ("func_application: concat", "concat({text}, {int})", 0.2),
        ),
    ),
    DATE: (
        *_of_any(DATE),
        *_rules(
            ("a_expr TYPECAST Typename", "({time})::date", 2),
            ("CAST '(' a_expr AS Typename ')'", "CAST({time} AS date)"),
            ("a_expr '+' a_expr", "({date} + 1)", 0.5),
        ),
    ),
    TIME: (
        *_of_any(TIME),
        *_rules(
            ("func_application: date_trunc", "date_trunc('month', {time})", 2),
            ("func_application: date_trunc, date", "date_trunc('week', {date}::timestamp)"),
            ("a_expr TYPECAST Typename", "({date})::timestamp"),
            ("a_expr '+' a_expr", "({time} + interval '1 day')", 0.5),
            ("a_expr AT TIME ZONE a_expr", "(({time} AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')", 0.1),
        ),
    ),
}
"""a_expr by type."""

CONSTANTS: dict[str, tuple[str, ...]] = {
    BOOL: ("TRUE", "FALSE"),
    INT: ("0", "1", "3", "5", "-5", "20", "1990"),
    FLOAT: ("0", "1.5", "50", "-3.25"),
    TEXT: (
        "'berlin'",
        "'bERLIN'",
        "'CALM'",
        "'calm '",
        "'abc'",
        "'Abc'",
        "'a'",
        "'like'",
        "''",
        "'Nurse'",
        "'pen'",
    ),
    DATE: ("DATE '2024-01-15'", "DATE '2024-02-10'", "DATE '2023-06-30'"),
    TIME: ("TIMESTAMP '2024-01-15 12:30'", "TIMESTAMP '2024-02-10'"),
}

SPELLINGS = {
    "city": ("berlin", "Berlin", "berliN", "bERLIN", "bérlin", "BERLIN", "paris", "Paris", "nowhere"),
    "mood": ("calm", "Calm", "CALM", "cälm", "wild", "", "calm "),
    "word": ("abc", "ABC", "Abc", "aBC", "xyz", "XYZ"),
    "code": ("a", "A", "b", "a "),
}
"""Constants that a collation may take for one, by stored column."""

CALLS: tuple[Rule, ...] = _rules(
    ("func_name '(' '*' ')'", "COUNT(*)", 3, True),
    ("func_name '(' DISTINCT func_arg_list ')': unit", "COUNT(DISTINCT {unit})", 3, True),
    ("func_name '(' func_arg_list ')': count", "COUNT({any_column})", 1, True),
    ("func_name '(' func_arg_list ')': count of a copy", "COUNT({copy_column})", 0.5, True),
    ("func_name '(' DISTINCT func_arg_list ')'", "COUNT(DISTINCT {text})"),
    ("func_name '(' DISTINCT func_arg_list ')': int", "COUNT(DISTINCT {int})"),
    ("func_name '(' DISTINCT func_arg_list ')': row", "COUNT(DISTINCT ({text_column}, {int_column}))", 0.3),
    ("func_name '(' func_arg_list ')': sum", "SUM({bounded})", 5),
    ("func_name '(' ALL func_arg_list ')'", "SUM(ALL {bounded})", 0.3),
    ("func_name '(' func_arg_list ')': avg", "AVG({bounded})", 2),
    ("func_name '(' func_arg_list ')': variance", "VARIANCE({bounded})"),
    ("func_name '(' func_arg_list ')': stddev", "STDDEV_POP({bounded})"),
    ("func_name '(' func_arg_list ')': max", "MAX({bounded})"),
    ("func_name '(' func_arg_list ')': regr", "CORR({bounded}, {bounded})", 0.2),
    ("within_group_clause", "PERCENTILE_CONT({share}) WITHIN GROUP (ORDER BY {bounded})", 2),
    ("within_group_clause: DESC", "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {bounded} DESC)", 0.3),
    ("within_group_clause: mode", "MODE() WITHIN GROUP (ORDER BY {text_column})", 0.2),
    ("filter_clause: count", "COUNT(*) FILTER (WHERE {bool})"),
    ("filter_clause: sum", "SUM({bounded}) FILTER (WHERE {bool})"),
    ("filter_clause: unit", "COUNT(DISTINCT {unit}) FILTER (WHERE {bool})"),
    ("over_clause: PARTITION BY", "SUM(COUNT(*)) OVER (PARTITION BY {grouped_key})", 0.3),
    ("over_clause: window_definition", "RANK() OVER (ORDER BY COUNT(*) DESC)", 0.3),
    ("a_expr '/' a_expr", "(1.0 * SUM({bounded}) / NULLIF(COUNT(*), 0))", 0.3),
    ("case_expr", "CASE WHEN COUNT(*) > 3 THEN 'many' ELSE 'few' END", 0.3, True),
    ("a_expr TYPECAST Typename", "(AVG({bounded}))::text", 0.3),
)
"""func_expr in the target_list of a statement: what is released."""

OF_A_UNIT: dict[str, tuple[Rule, ...]] = {
    INT: _rules(
        ("func_name '(' '*' ')'", "COUNT(*)", 3, True),
        ("func_name '(' func_arg_list ')': sum", "SUM({int})"),
        ("func_name '(' func_arg_list ')': max", "MAX({int})", 2),
        ("func_name '(' func_arg_list ')': count", "COUNT({any_column})", 1, True),
        ("func_name '(' func_arg_list ')': count of a copy", "COUNT({copy_column})", 1, True),
        ("func_name '(' DISTINCT func_arg_list ')'", "COUNT(DISTINCT {text})"),
        ("filter_clause", "COUNT(*) FILTER (WHERE {bool})"),
    ),
    FLOAT: _rules(
        ("func_name '(' func_arg_list ')': avg", "AVG({int})::float8", 1),
        ("func_name '(' func_arg_list ')': sum", "SUM({float})"),
        ("func_name '(' func_arg_list ')': min", "MIN({float_column})", 1, True),
    ),
    TEXT: _rules(
        ("func_name '(' func_arg_list ')': max", "MAX({text})", 1, True),
        (
            "func_name '(' func_arg_list opt_sort_clause ')'",
            "string_agg({text}, ',' ORDER BY {int_column})",
            0.2,
        ),
    ),
    BOOL: _rules(
        ("func_name '(' func_arg_list ')': bool_or", "bool_or({bool})"),
        ("func_name '(' func_arg_list ')': bool_and", "bool_and({bool})"),
        ("func_name '(' func_arg_list ')': every copy", "bool_or({copy_column} IS NULL)", 1, True),
    ),
    DATE: _rules(("func_name '(' func_arg_list ')': min", "MIN({date})", 1, True)),
    TIME: _rules(("func_name '(' func_arg_list ')': max", "MAX({time})", 1, True)),
}
"""func_expr of the rows of one unit, by type."""

WINDOWS: dict[str, tuple[Rule, ...]] = {
    INT: _rules(
        ("func_expr over_clause: row_number", "ROW_NUMBER() OVER ({window_specification})", 4),
        ("func_expr over_clause: rank", "RANK() OVER ({window_specification})"),
        ("func_expr over_clause: dense_rank", "DENSE_RANK() OVER ({window_specification})", 0.5),
        ("func_expr over_clause: ntile", "NTILE(2) OVER ({window_specification})", 0.3),
        ("func_expr over_clause: count", "COUNT(*) OVER (PARTITION BY {unit})", 2),
        ("func_expr over_clause: max", "MAX({int}) OVER (PARTITION BY {unit})"),
        ("func_expr over_clause: sum", "SUM({int}) OVER ({window_specification} {frame_clause})"),
        ("func_expr over_clause: lag", "LAG({int}) OVER ({window_specification})"),
        ("func_expr over_clause: first_value", "FIRST_VALUE({int}) OVER ({window_specification})", 0.5),
        (
            "func_expr filter_clause over_clause",
            "COUNT(*) FILTER (WHERE {bool}) OVER (PARTITION BY {unit})",
            0.5,
        ),
        ("func_expr over_clause: no partition", "ROW_NUMBER() OVER (ORDER BY {int_column})", 0.2),
    ),
    TEXT: _rules(
        ("func_expr over_clause: lead", "LEAD({text}) OVER ({window_specification})"),
        ("func_expr over_clause: min", "MIN({text}) OVER (PARTITION BY {unit})"),
    ),
    DATE: _rules(("func_expr over_clause: max", "MAX({date}) OVER (PARTITION BY {unit})")),
    TIME: _rules(("func_expr over_clause: lag", "LAG({time}) OVER ({window_specification})")),
    BOOL: _rules(("func_expr over_clause: bool_or", "bool_or({bool}) OVER (PARTITION BY {unit})")),
    FLOAT: _rules(("func_expr over_clause: avg", "AVG({float}) OVER (PARTITION BY {unit})")),
}
"""func_expr with an over_clause, by type."""

CLAUSES: dict[str, tuple[Rule, ...]] = {
    "bounded": _rules(
        ("LEAST '(' expr_list ')'", "LEAST(GREATEST({int}, 0), 9)", 4),
        ("LEAST '(' expr_list ')': wide", "LEAST(GREATEST({int}, -5), 80)", 2),
        ("LEAST '(' expr_list ')': float", "LEAST(GREATEST({float}, 1), 50)"),
        ("columnref: int", "{int_column}", 2, True),
        ("columnref: float", "{float_column}", 2, True),
        ("case_expr", "CASE WHEN {bool} THEN 1 ELSE 0 END"),
        ("case_expr: bounded", "CASE WHEN {bool} THEN LEAST(GREATEST({int}, 0), 9) END", 0.5),
    ),
    "share": _rules(("AexprConst: half", "0.5", 2, True), ("AexprConst: tenth", "0.1", 1, True)),
    "key": _rules(
        ("columnref: text", "{text_column}", 8, True),
        ("columnref: int", "{int_column}", 2, True),
        ("columnref: date", "{date_column}", 1, True),
        ("a_expr: copy", "{copy_column} IS NULL", 8, True),
        ("case_expr: copy", "CASE WHEN {copy_column} IS NULL THEN 0 ELSE 1 END", 1, True),
        ("a_expr: text", "{text}", 3),
        ("a_expr: int", "{int}", 2),
        ("a_expr: bool", "{bool}", 3),
        ("a_expr: date", "{date}"),
        ("a_expr: time", "{time}"),
        ("columnref: float", "{float_column}", 0.3, True),
    ),
    "window_specification": _rules(
        (
            "opt_partition_clause opt_sort_clause",
            "PARTITION BY {unit} ORDER BY {any_column}, {any_column}",
            4,
        ),
        ("opt_partition_clause: two", "PARTITION BY {unit}, {text_column} ORDER BY {any_column} DESC"),
        ("opt_sort_clause: NULLS_LA", "PARTITION BY {unit} ORDER BY {any_column} NULLS FIRST", 0.5),
    ),
    "frame_clause": _rules(
        ("empty", "", 2, True),
        ("ROWS frame_extent", "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", 1, True),
        ("ROWS UNBOUNDED PRECEDING", "ROWS UNBOUNDED PRECEDING", 1, True),
        ("RANGE frame_extent", "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", 0.3, True),
    ),
    "having_clause": _rules(
        ("empty", "", 4, True),
        ("HAVING a_expr", " HAVING COUNT(*) > 1", 1, True),
        ("HAVING a_expr: condition", " HAVING bool_or({bool})", 0.5),
        ("HAVING a_expr: sum", " HAVING SUM({int}) >= {int_constant}", 0.5),
    ),
    "select_limit": _rules(
        ("empty", "", 5, True),
        ("limit_clause", " ORDER BY 1 LIMIT 5", 1, True),
        ("sort_clause DESC limit_clause", " ORDER BY {last_item} DESC LIMIT 3", 2, True),
        ("sort_clause DESC limit_clause: many", " ORDER BY {last_item} DESC LIMIT 20", 1, True),
        ("FETCH first_or_next", " ORDER BY 1 FETCH FIRST 3 ROWS ONLY", 0.3, True),
        ("offset_clause", " ORDER BY 1 LIMIT 20 OFFSET 1", 0.3, True),
    ),
}
"""Clauses, and expressions of a purpose."""

STRUCTURE: dict[str, tuple[Rule, ...]] = {
    "select_stmt": _rules(
        ("simple_select", "", 16),
        ("with_clause select_clause", "", 4),
        ("select_clause UNION ALL select_clause", "", 1),
        ("simple_select: of a released table", "", 1.5),
        ("simple_select: of public rows", "", 1.5),
        ("func_expr over_clause: running", "", 0.7),
        ("target_el: released c_expr", "", 0.7),
    ),
    "group_clause": _rules(
        ("empty", "", 3, True),
        ("group_by_item", "", 6, True),
        ("group_by_item: spellings", "", 2, True),
        ("group_by_list", "", 4, True),
        ("rollup_clause", "", 1, True),
        ("cube_clause", "", 0.7, True),
        ("grouping_sets_clause", "", 1, True),
        ("distinct_clause", "", 1, True),
    ),
    "where_clause": _rules(("empty", "", 4, True), ("WHERE a_expr", "", 2)),
    "on": _rules(
        ("the unit", "", 3, True),
        ("the unit AND a_expr '=' a_expr", "", 3, True),
        ("the unit AND a_expr", "", 2),
    ),
    "join_qual": _rules(("ON a_expr", "", 5, True), ("USING '(' name_list ')'", "", 1, True)),
    "join_type": _rules(
        ("INNER_P", "JOIN", 3, True),
        ("LEFT", "LEFT JOIN", 4, True),
        ("RIGHT", "RIGHT JOIN", 2, True),
        ("FULL", "FULL JOIN", 4, True),
        ("CROSS", "CROSS JOIN", 0.5, True),
        ("NATURAL", "NATURAL JOIN", 0.2, True),
        ("from_list ','", "\0", 1, True),
        ("LATERAL_P", "LATERAL", 0.3, True),
    ),
    "table_ref": _rules(
        ("relation_expr", "", 6, True),
        ("select_with_parens", "", 7),
        ("joined_table", "", 6),
        ("'(' joined_table ')'", "", 0.7),
        ("relation_expr: cte", "", 2, True),
    ),
    "public": _rules(
        ("relation_expr", "", 4, True),
        ("func_table", "", 1, True),
        ("values_clause", "", 1, True),
        ("select_with_parens", "", 2, True),
    ),
    "joined with": _rules(("table_ref", "", 4), ("public", "", 2), ("relation_expr: lines", "", 1)),
    "simple_select": _rules(
        ("SELECT target_list", "", 4),
        ("SELECT '*'", "", 1),
        ("SELECT distinct_clause: ON", "", 3),
        ("SELECT distinct_clause", "", 1),
        ("group_clause", "", 4),
        ("group_clause: event", "", 0.3),
        ("over_clause", "", 3),
        ("over_clause: filtered", "", 2),
        ("select_clause", "", 4),
        ("WITH", "", 0.5),
    ),
    "subquery": _rules(
        ("the unit's rows", "", 3),
        ("released", "", 1),
        ("public", "", 2),
        ("public, correlated", "", 1),
    ),
    "select_clause": _rules(("simple_select", "", 3, True), ("select_with_parens", "", 1)),
    "set operation": _rules(
        ("UNION", "", 1),
        ("UNION ALL", "", 2),
        ("INTERSECT", "", 1),
        ("EXCEPT", "", 1),
        ("INTERSECT ALL", "", 0.5),
        ("EXCEPT ALL", "", 0.5),
    ),
    "list": _rules(("public", "", 2), ("private", "", 1), ("values_clause", "", 1)),
    "correlated": _rules(("the unit", "", 4), ("the unit and a_expr", "", 3), ("public", "", 2)),
}
"""Nonterminals that make or read scopes: how each is written is said in statement.py."""
