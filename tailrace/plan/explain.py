"""EXPLAIN: a view's maintenance plan as text or JSON, with zones, shared arrangements and the cost of an epoch.

spend: key (cust), sharded by (cust)
└─ project cust, SUM(price) AS total  [zone 2]
   │  rule linear: costs changed rows
   └─ aggregate by cust: SUM(price)  [zone 2, shuffled by (cust)]
      │  rule additive: costs groups in the delta
      │  keeps accumulators by (cust) #3fa9c1, shared with revenue
      └─ scan orders (cust, price)  [zone 1, the log]
            rule log: costs operations in the epoch
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from tailrace.plan.expressions import parse_expr, position_of, with_fields
from tailrace.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    OneRow,
    Order,
    Project,
    Scan,
    TemporalFilter,
    TopK,
    UnionAll,
    Window,
)
from tailrace.plan.physical.arrangements import Arrangement, Stateful, is_generic, rule
from tailrace.plan.physical.physical_plan import PhysicalPlan
from tailrace.plan.physical.zones import Zone, begins_zone, border_place, zones
from tailrace.plan.sql.dialect import generate
from tailrace.plan.temporal import ALWAYS

_SHORT = 6  # characters of a fingerprint to show
# What the work of an epoch is proportional to, for each maintenance rule.
COSTS = {
    "log": "operations in the epoch",
    "constant": "nothing once it is built",
    "linear": "changed rows",
    "bilinear": "changed rows and their matches",
    "all pairs": "changed rows times the other side",
    "first and last match": "changed rows, and keys whose other side comes or goes",
    "additive": "groups in the delta",
    "extreme": "values in the delta",
    "distinct": "values in the delta",
    "affected groups": "all rows of touched groups",
    "affected partitions": "all rows of touched partitions",
    "crossed borders": "changed rows, and rows whose border in time was crossed",
    "first entries": "changed rows, and the first entries of touched partitions",
}


def explain_tree(name: str, views: Mapping[str, PhysicalPlan]) -> str:
    """The plan of view `name` as text. `views` are the plans of all views, to find shared arrangements."""
    description = explain_json(name, views)
    key = _in_parentheses(description["key"]) if description["key"] is not None else "none, whole rows with a weight"
    head = f"{name}: key {key}, sharded by {_in_parentheses(description['sharded_by'])}"
    return "\n".join([head, *_lines(description["plan"], "", last=True)])


def explain_json(name: str, views: Mapping[str, PhysicalPlan]) -> dict[str, Any]:
    """The plan of view `name` as JSON values: what `explain_tree` prints."""
    plan = views[name]
    users: dict[str, list[str]] = {}
    for view, view_plan in views.items():
        for fingerprint in view_plan.fingerprints:
            users.setdefault(fingerprint, []).append(view)
    arrangements_of = {node.fingerprint: kept for node, kept in plan.arrangements}
    column_names = [c.name for c in plan.columns]
    sharers = {fingerprint: [v for v in using if v != name] for fingerprint, using in users.items()}
    return {
        "view": name,
        "columns": [{"name": c.name, "type": c.type} for c in plan.columns],
        "key": None if plan.key is None else [column_names[p] for p in plan.key],
        "sharded_by": [column_names[p] for p in plan.place],
        "plan": _node(plan.root, zones(plan.root), arrangements_of, sharers),
    }


def _node(
    node: Node,
    zone_of: Mapping[str, Zone],
    arrangements_of: Mapping[str, list[Arrangement]],
    sharers: Mapping[str, list[str]],
) -> dict[str, Any]:
    description: dict[str, Any] = {
        "operator": operator(node),
        "does": describe(node),
        "columns": names(node),
        "zone": zone_of[node.fingerprint].number,
        "fingerprint": node.fingerprint,
    }
    if begins_zone(node):
        description["shuffled_by"] = _shuffle_columns(node)
    description["rules"] = {rule: COSTS[rule] for rule in rules(node)}
    if isinstance(node, Stateful):
        description["arrangements"] = [
            {
                "kind": arrangement.kind,
                "by": _by(node, arrangement),
                "fingerprint": arrangement.fingerprint,
                "shared_with": sharers.get(arrangement.fingerprint, []),
            }
            for arrangement in arrangements_of[node.fingerprint]
        ]
    description["inputs"] = [_node(child, zone_of, arrangements_of, sharers) for child in node.inputs]
    return description


def operator(node: Node) -> str:
    match node:
        case Join(kind=kind, left_on=on):
            return "cross join" if kind == "inner" and not on else f"{kind} join"
        case Aggregate(calls=()):
            return "distinct"
        case UnionAll():
            return "union all"
        case OneRow():
            return "one row"
        case TopK():
            return "top"
        case TemporalFilter():
            return "temporal filter"
    return type(node).__name__.lower()


def describe(node: Node) -> str:
    """What an operator does, with column names in place of positions."""
    inputs = [names(child) for child in node.inputs]
    match node:
        case Scan(table=table):
            return f"{table} {_in_parentheses(names(node))}"
        case Filter(condition=condition):
            return named(condition, inputs[0])
        case Project(expressions=expressions, output=output):
            shown = [named(e, inputs[0]) for e in expressions]
            return ", ".join(s if s == c.name else f"{s} AS {c.name}" for s, c in zip(shown, output, strict=True))
        case Join(left_on=left_on, right_on=right_on, null_safe=null_safe):
            pairs = zip(left_on, right_on, null_safe, strict=True)
            on = [f"{inputs[0][a]} {'<=>' if safe else '='} {inputs[1][b]}" for a, b, safe in pairs]
            return "on " + " and ".join(on) if on else "of all pairs"
        case Aggregate(groups=groups, calls=calls):
            grouped = "by " + ", ".join(inputs[0][p] for p in groups) if groups else "of all rows"
            return ": ".join(filter(None, (grouped, ", ".join(named(c.sql, inputs[0]) for c in calls))))
        case Generate(generator=generator, output=output):
            return f"{named(generator, inputs[0])} AS {_in_parentheses([c.name for c in output])}"
        case UnionAll(branches):
            return f"of {len(branches)}"
        case OneRow():
            return "of constants"
        case TemporalFilter(Project(below, expressions)):
            start, end = (named(e, names(below)) for e in expressions[-2:])
            starts = [] if start == f"-{ALWAYS}" else [f"from {start}"]
            return " ".join([*starts, *([] if end == f"{ALWAYS}" else [f"until {end}"])])
        case Window(calls=calls):
            shown = [f"{named(c.sql, inputs[0])} {c.frame}".strip() for c in calls]
            return f"{', '.join(shown)} {_partition_and_order(node, inputs[0])}".strip()
        case TopK(offset=offset, limit=limit):
            bounds = [] if limit is None else [str(limit)]
            bounds += [f"after {offset}"] if offset else []
            return f"{' '.join(bounds)} {_partition_and_order(node, inputs[0])}".strip()
    return ""


def _partition_and_order(node: Window | TopK, columns: list[str]) -> str:
    parts = [f"by {', '.join(columns[p] for p in node.partition)}"] if node.partition else []
    parts += [f"ordered by {_order(node.order, columns)}"] if node.order else []
    return " ".join(parts)


def _order(order: Order, columns: list[str]) -> str:
    shown = []
    for position, ascending, nulls_first in order:
        nulls = "" if nulls_first == ascending else f" nulls {'first' if nulls_first else 'last'}"
        shown.append(f"{columns[position]}{'' if ascending else ' desc'}{nulls}")
    return ", ".join(shown)


def names(node: Node) -> list[str]:
    """Readable names for the columns of a node, which a plan knows by position only."""
    inputs = [names(child) for child in node.inputs]
    match node:
        case Filter():
            return inputs[0]
        case TemporalFilter():
            return inputs[0][:-2]
        case Generate(output=output):
            return inputs[0] + [c.name for c in output]
        case Join(kind=kind) if kind not in ("semi", "anti"):
            ambiguous = set(inputs[0]) & set(inputs[1])
            left = [f"left.{n}" if n in ambiguous else n for n in inputs[0]]
            return left + [f"right.{n}" if n in ambiguous else n for n in inputs[1]]
        case Aggregate(groups=groups, calls=calls):
            return [inputs[0][p] for p in groups] + [named(c.sql, inputs[0]) for c in calls]
        case Window(calls=calls):
            return inputs[0] + [named(c.sql, inputs[0]) for c in calls]
        case TopK(numbered=numbered):
            return inputs[0] + ["row_number()"] * numbered
    return [c.name for c in node.columns]


def rules(node: Node) -> list[str]:
    """The maintenance rules that an operator uses to compute its delta: names in `COSTS`."""
    match node:
        case Scan():
            return ["log"]
        case OneRow():
            return ["constant"]
        case Join(kind=kind, left_on=on):
            pairs = [] if kind in ("semi", "anti") else ["bilinear" if on else "all pairs"]
            return pairs if kind == "inner" else [*pairs, "first and last match"]
        case Window():
            return ["affected partitions"]
        case TopK():
            return ["first entries"]
        case TemporalFilter():
            return ["crossed borders"]
        case Aggregate() if is_generic(node):
            return ["affected groups"]
        case Aggregate(source, calls=calls):
            return list(dict.fromkeys(rule(c, source.columns) for c in calls)) or ["additive"]
    return ["linear"]


def _shuffle_columns(node: Node) -> list[str]:
    match node:
        case Join(left=left, left_on=on):
            return [names(left)[p] for p in on]
        case Aggregate(source, groups):
            return [names(source)[p] for p in groups]
        case Window(source, partition) | TopK(source, partition):
            return [names(source)[p] for p in partition]
        case TemporalFilter(source):
            return [names(source)[p] for p in border_place(node)]
    return []


def _by(node: Node, arrangement: Arrangement) -> list[str]:
    """The columns an arrangement is sorted by: columns of an input or of the node itself."""
    owner = next((n for n in (*node.inputs, node) if n.fingerprint == arrangement.of), node)
    return [names(owner)[p] for p in arrangement.by]


def named(text: str, columns: list[str]) -> str:
    """An expression with its input's column names in place of positions."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        position = position_of(node) if isinstance(node, exp.Column) else None
        if position is None or not isinstance(node, exp.Column) or position >= len(columns):
            return node
        return with_fields(exp.Column(this=exp.Identifier(this=columns[position])), node.parts[1:])

    return generate(parse_expr(text).transform(rewrite))


def _in_parentheses(parts: list[str]) -> str:
    return f"({', '.join(parts)})"


def _lines(node: Mapping[str, Any], indent: str, *, last: bool) -> list[str]:
    shuffled = f", shuffled by {_in_parentheses(node['shuffled_by'])}" if "shuffled_by" in node else ""
    source = ", the log" if node["operator"] == "scan" else ""
    head = f"{indent}{'└─' if last else '├─'} {node['operator']} {node['does']}"
    lines = [f"{head}  [zone {node['zone']}{source}{shuffled}]"]
    indent += "   " if last else "│  "
    bar = "│  " if node["inputs"] else "   "
    lines += [f"{indent}{bar}rule {rule}: costs {cost}" for rule, cost in node["rules"].items()]
    for kept in node.get("arrangements", ()):
        shared = f", shared with {', '.join(kept['shared_with'])}" if kept["shared_with"] else ""
        fingerprint = kept["fingerprint"][:_SHORT]
        lines.append(f"{indent}{bar}keeps {kept['kind']} by {_in_parentheses(kept['by'])} #{fingerprint}{shared}")
    for number, child in enumerate(node["inputs"]):
        lines += _lines(child, indent, last=number == len(node["inputs"]) - 1)
    return lines


def compact(node: Node) -> str:
    """A plan on one line, with positional columns: the notation of the rewrites' examples and fixtures."""
    inner = ", ".join(compact(child) for child in node.inputs)
    match node:
        case Scan(table=table, positions=positions):
            return f"{table}[{', '.join(map(str, positions))}]"
        case Filter(condition=condition):
            return f"filter({condition}; {inner})"
        case Project(expressions=expressions):
            return f"project({', '.join(expressions)}; {inner})"
        case OneRow():
            return "one row"
        case Generate(generator=generator):
            return f"generate({generator}; {inner})"
        case Join(kind=kind, left_on=left, right_on=right, null_safe=safe, condition=condition):
            on = [f"{a}{'<=>' if s else '='}{b}" for a, b, s in zip(left, right, safe, strict=True)]
            on += [condition] if condition is not None else []
            return f"{kind}({', '.join(on)}; {inner})"
        case Aggregate(groups=groups, calls=calls):
            parts = [*(f"_{p}" for p in groups), *(c.sql for c in calls)]
            return f"aggregate({', '.join(parts)}; {inner})"
        case UnionAll():
            return f"union({inner})"
        case TemporalFilter():
            return f"temporal({inner})"
        case Window(calls=calls):
            shown = [" ".join(filter(None, (c.sql, c.frame))) for c in calls]
            return f"window({' '.join(filter(None, (', '.join(shown), _compact_order(node))))}; {inner})"
        case TopK(offset=offset, limit=limit, numbered=numbered):
            shown = ["all" if limit is None else str(limit), f"after {offset}" if offset else ""]
            shown += [_compact_order(node), "numbered" if numbered else ""]
            return f"top({' '.join(filter(None, shown))}; {inner})"
    raise TypeError(type(node).__name__)


def _compact_order(node: Window | TopK) -> str:
    return _partition_and_order(node, [f"_{i}" for i in range(len(node.input.columns))])
