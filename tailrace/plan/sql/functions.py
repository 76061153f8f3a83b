"""Classifies Spark's functions: aggregates, generators, window functions, and nondeterministic functions.

Tailrace knows nothing else about a function. Its types and its meaning are left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tailrace.errors import Unsupported
from tailrace.plan.sql.dialect import location


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES = _words("""
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or collect_list collect_set collect_union corr count count_if
    count_min_sketch covar_pop covar_samp every first first_value histogram_numeric hll_sketch_agg
    hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
    kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure
    median min min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some std
    stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg
    try_sum tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance vector_avg
    vector_sum
""")

# Aggregates with their own delta rule (see `rule` in physical/arrangements.py), which reads the argument as a column.
SIMPLE_AGGREGATES = _words("""
    avg count count_if max mean min std stddev stddev_pop stddev_samp sum var_pop var_samp variance
""")

GENERATORS = _words("""
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack
    variant_explode variant_explode_outer
""")

# With three arguments, the first is a unit of time such as HOUR, not a column.
UNIT_FIRST = _words("date_add date_diff dateadd datediff timediff timestampadd timestampdiff")
UNITS = _words("""
    microsecond millisecond second minute hour day dayofyear week month quarter year
""")

WINDOW_ONLY = _words("""
    counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
""")

# Not scalar functions: `window` may turn one row into several, and drops rows whose time is NULL.
TIME_WINDOWS = _words("session_window window window_time")

NONDETERMINISTIC = _words("""
    curdate current_catalog current_database current_date current_datetime current_path current_role
    current_schema current_time current_timestamp current_timezone current_user input_file_block_length
    input_file_block_start input_file_name java_method localtime localtimestamp
    monotonically_increasing_id now rand randn random randstr reflect session_user shuffle
    spark_partition_id try_reflect uniform user uuid version
""")

# In views, these are the time of the epoch (`plan/sql/times.py`), where a condition compares it with a row.
TIMES = _words("curdate current_date current_timestamp localtimestamp now")
ADMITTED = "admitted"  # mark of a call of one of them that was found to be in such a condition

# Spark also accepts these without parentheses, unless a column has that name.
PARENTHESES_OPTIONAL = _words("""
    current_date current_time current_timestamp current_user localtime localtimestamp session_user user
""")

# The result depends on the order in which rows arrive. A delta does not keep that order.
ORDER_DEPENDENT = _words("""
    any_value array_agg collect_list collect_set collect_union first first_value last last_value listagg
    string_agg
""")
_COLLECTORS = _words("array_agg collect_list collect_set collect_union")
_SORTERS = _words("array_sort sort_array")
STRING_LISTS = _words("listagg string_agg")

# The result also depends on how Spark merges partial results, so no row order makes it deterministic. Each value says
# what to use instead. The sketches not listed here depend only on the set of values: Spark keeps the smallest hashes,
# counters or bits.
ESTIMATES: dict[str, str] = {
    **dict.fromkeys(
        _words("approx_percentile percentile_approx kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float"),
        "use percentile, percentile_cont or percentile_disc, which are exact and cost the same here",
    ),
    **dict.fromkeys(
        _words("kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float"),
        "use percentile over the rows that were sketched",
    ),
    **dict.fromkeys(
        _words("approx_top_k approx_top_k_accumulate approx_top_k_combine"),
        "count with GROUP BY, then take the first rows with row_number() or ORDER BY ... LIMIT",
    ),
    **dict.fromkeys(
        _words("hll_sketch_agg hll_union_agg"),
        "use approx_count_distinct, theta_sketch_agg or COUNT(DISTINCT ...)",
    ),
    **dict.fromkeys(
        _words("""
            tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
            tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer
        """),
        "use theta_sketch_agg, or SUM with GROUP BY",
    ),
    **dict.fromkeys(_words("vector_avg vector_sum"), "use posexplode, then SUM or AVG grouped by position"),
    "histogram_numeric": "count with GROUP BY width_bucket(...)",
}

# max_by(x, y) skips rows whose y is NULL. Every other aggregate skips rows whose first argument is NULL.
SKIPS_BY_SECOND = _words("max_by min_by")

_KEYWORD_NODES: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.CurrentDate, "current_date"),
    (exp.CurrentDatetime, "current_datetime"),
    (exp.CurrentTime, "current_time"),
    (exp.CurrentTimestamp, "current_timestamp"),
    (exp.CurrentUser, "current_user"),
    (exp.CurrentRole, "current_role"),
    (exp.SessionUser, "session_user"),
    (exp.Localtime, "localtime"),
    (exp.Localtimestamp, "localtimestamp"),
)


def name(node: exp.Expr) -> str | None:
    """The lower-case name of the called function; None if the node is not a call."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    for kind, word in _KEYWORD_NODES:
        if isinstance(node, kind):
            return word
    return None


def is_aggregate(node: exp.Expr) -> bool:
    return name(node) in AGGREGATES


def has_aggregate(node: exp.Expr) -> bool:
    """Whether the tree aggregates a group: `sum(sum(x)) OVER ...` does (the inner sum), `sum(x) OVER ...` does not."""
    return any(is_aggregate(n) and not _is_windowed(n) for n in node.walk())


def _is_windowed(node: exp.Expr) -> bool:
    call = whole_call(node)
    return isinstance(call.parent, exp.Window) and call.arg_key == "this"


def whole_call(node: exp.Expr) -> exp.Expr:
    """The call including its suffixes: WITHIN GROUP, FILTER, IGNORE NULLS."""
    wrappers = (exp.WithinGroup, exp.Filter, exp.IgnoreNulls, exp.RespectNulls)
    while isinstance(node.parent, wrappers) and node.arg_key == "this":
        node = node.parent
    return node


def require_deterministic(tree: exp.Expr) -> None:
    """Raises `Unsupported` for the first function in `tree` whose value is not determined by its row or group."""
    for node, word in _calls(tree):
        require_deterministic_call(node, word)


def require_deterministic_call(node: exp.Expr, word: str) -> None:
    if _is_nondeterministic(node, word):
        raise nondeterministic(word, node)
    require_repeatable(node, word)
    if word in ORDER_DEPENDENT and not _is_ordered(node, word):
        raise Unsupported(construct=f"nondeterministic function {word}()", reason=_advice(word), **location(node))


def require_repeatable(node: exp.Expr, word: str) -> None:
    """Raises `Unsupported` if the same rows in the same order may give different results."""
    if word in ESTIMATES:
        reason = f"its result depends on how Spark merges parts of a group; {ESTIMATES[word]}"
    elif word == "mode" and not _is_ordered(node, word):
        reason = "its result is undefined if several values are most frequent; write mode(x, true) for the smallest"
    elif word == "measure":
        reason = "it reads metric views, which Tailrace does not have; write the aggregate itself"
        raise Unsupported(construct="measure()", reason=reason, **location(node))
    else:
        return
    raise Unsupported(construct=f"nondeterministic function {word}()", reason=reason, **location(node))


def nondeterministic(word: str, node: exp.Expr) -> Unsupported:
    reason = "its value can change although no row changes; store the value in a column instead"
    if word in TIMES:
        reason = (
            "in a view, the time can only be compared with a value of the row, as in WHERE ts > now() - INTERVAL 1 DAY,"
            " also in ON, HAVING and QUALIFY, but not with refresh = 'full'"
        )
        if isinstance(node, exp.Column):
            reason += f"; write {word}() with parentheses"
    return Unsupported(construct=f"nondeterministic function {word}()", reason=reason, **location(node))


def _calls(tree: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    for node in tree.walk(bfs=False):
        word = name(node)
        if word is not None:
            yield node, word


def _is_nondeterministic(node: exp.Expr, word: str) -> bool:
    arguments = len(node.expressions)
    if ADMITTED in node.meta:
        return False
    if word == "unix_timestamp":
        return arguments == 0
    if word == "aes_encrypt":
        # Without an initialisation vector as argument, Spark draws a random one. ECB mode has none.
        mode = node.expressions[2].name.upper() if arguments > 2 else "GCM"
        return arguments < 5 and mode != "ECB"
    return word in NONDETERMINISTIC


def _is_ordered(node: exp.Expr, word: str) -> bool:
    """Whether the query makes an order-dependent aggregate deterministic."""
    call = whole_call(node)
    parent = call.parent
    if word in _COLLECTORS:
        return parent is not None and name(parent) in _SORTERS and len(parent.expressions) == 1
    if word == "mode" and len(node.expressions) == 2:
        flag = node.expressions[1]
        flag = flag.expression if isinstance(flag, exp.Kwarg | exp.PropertyEQ) else flag
        return isinstance(flag, exp.Boolean) and bool(flag.this)
    return (
        word in (*STRING_LISTS, "mode") and isinstance(call, exp.WithinGroup | exp.Filter) and _has_within_group(call)
    )


def _has_within_group(call: exp.Expr) -> bool:
    return any(isinstance(n, exp.WithinGroup) for n in call.walk() if n is call or n.parent is call)


def _advice(word: str) -> str:
    if word in _COLLECTORS:
        return f"its order is undefined; write sort_array({word}(...))"
    if word in STRING_LISTS:
        return "its order is undefined; add WITHIN GROUP (ORDER BY ...)"
    return "it may take the value of any row; use min, max, min_by or max_by"
