"""A maintenance plan for people: operators, zones, arrangements, who shares them, what an epoch costs.

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
    TopK,
    UnionAll,
    Window,
)
from tailrace.plan.physical.arrangements import Arrangement, Stateful, is_generic, rule
from tailrace.plan.physical.physical_plan import PhysicalPlan
from tailrace.plan.physical.zones import Zone, begins_zone, zones
from tailrace.plan.sql.dialect import generate

_SHORT = 6
# The rules of maintenance, and what the work of an epoch follows under each.
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
    "first entries": "changed rows, and the first entries of touched partitions",
}


def explain_tree(name: str, views: Mapping[str, PhysicalPlan]) -> str:
    """The plan of view `name` as text; `views` are the plans of all views, to tell what is shared."""
    description = explain_json(name, views)
    key = _listed(description["key"]) if description["key"] is not None else "none, whole rows with a weight"
    head = f"{name}: key {key}, sharded by {_listed(description['sharded_by'])}"
    return "\n".join([head, *_lines(description["plan"], "", last=True)])


def explain_json(name: str, views: Mapping[str, PhysicalPlan]) -> dict[str, Any]:
    """The same as data."""
    plan = views[name]
    users: dict[str, list[str]] = {}
    for view, other in views.items():
        for fingerprint in other.fingerprints:
            users.setdefault(fingerprint, []).append(view)
    kept = {node.fingerprint: held for node, held in plan.arrangements}
    shown = [c.name for c in plan.columns]
    return {
        "view": name,
        "columns": [{"name": c.name, "type": c.type} for c in plan.columns],
        "key": None if plan.key is None else [shown[p] for p in plan.key],
        "sharded_by": [shown[p] for p in plan.place],
        "plan": _node(plan.root, zones(plan.root), kept, {f: [v for v in u if v != name] for f, u in users.items()}),
    }


def _node(
    node: Node,
    zone_of: Mapping[str, Zone],
    kept: Mapping[str, list[Arrangement]],
    sharers: Mapping[str, list[str]],
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operator": operator(node),
        "does": describe(node),
        "columns": names(node),
        "zone": zone_of[node.fingerprint].number,
        "fingerprint": node.fingerprint,
    }
    if begins_zone(node):
        found["shuffled_by"] = _shuffle_columns(node)
    found["rules"] = {rule: COSTS[rule] for rule in rules(node)}
    if isinstance(node, Stateful):
        found["arrangements"] = [
            {
                "kind": held.kind,
                "by": _by(node, held),
                "fingerprint": held.fingerprint,
                "shared_with": sharers.get(held.fingerprint, []),
            }
            for held in kept[node.fingerprint]
        ]
    found["inputs"] = [_node(child, zone_of, kept, sharers) for child in node.inputs]
    return found


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
    return type(node).__name__.lower()


def describe(node: Node) -> str:
    """What an operator does, in the names of its columns."""
    inputs = [names(child) for child in node.inputs]
    match node:
        case Scan(table=table):
            return f"{table} {_listed(names(node))}"
        case Filter(condition=condition):
            return _named(condition, inputs[0])
        case Project(expressions=expressions, output=output):
            shown = [_named(e, inputs[0]) for e in expressions]
            return ", ".join(s if s == c.name else f"{s} AS {c.name}" for s, c in zip(shown, output, strict=True))
        case Join(left_on=left_on, right_on=right_on, null_safe=null_safe):
            pairs = zip(left_on, right_on, null_safe, strict=True)
            met = [f"{inputs[0][a]} {'<=>' if safe else '='} {inputs[1][b]}" for a, b, safe in pairs]
            return "on " + " and ".join(met) if met else "of all pairs"
        case Aggregate(groups=groups, calls=calls):
            grouped = "by " + ", ".join(inputs[0][p] for p in groups) if groups else "of all rows"
            return ": ".join(filter(None, (grouped, ", ".join(_named(c.sql, inputs[0]) for c in calls))))
        case Generate(generator=generator, output=output):
            return f"{_named(generator, inputs[0])} AS {_listed([c.name for c in output])}"
        case UnionAll(branches):
            return f"of {len(branches)}"
        case OneRow():
            return "of constants"
        case Window(calls=calls):
            shown = [f"{_named(c.sql, inputs[0])} {c.frame}".strip() for c in calls]
            return f"{', '.join(shown)} {_arranged(node, inputs[0])}".strip()
        case TopK(offset=offset, limit=limit):
            asked = [] if limit is None else [str(limit)]
            asked += [f"after {offset}"] if offset else []
            return f"{' '.join(asked)} {_arranged(node, inputs[0])}".strip()
    return ""


def _arranged(node: Window | TopK, columns: list[str]) -> str:
    parts = [f"by {', '.join(columns[p] for p in node.partition)}"] if node.partition else []
    parts += [f"ordered by {_sorted(node.order, columns)}"] if node.order else []
    return " ".join(parts)


def _sorted(order: Order, columns: list[str]) -> str:
    shown = []
    for position, ascending, nulls_first in order:
        nulls = "" if nulls_first == ascending else f" nulls {'first' if nulls_first else 'last'}"
        shown.append(f"{columns[position]}{'' if ascending else ' desc'}{nulls}")
    return ", ".join(shown)


def names(node: Node) -> list[str]:
    """What to call the columns of a node: within a plan they are mere positions."""
    inputs = [names(child) for child in node.inputs]
    match node:
        case Filter():
            return inputs[0]
        case Generate(output=output):
            return inputs[0] + [c.name for c in output]
        case Join(kind=kind) if kind not in ("semi", "anti"):
            both = set(inputs[0]) & set(inputs[1])
            left = [f"left.{n}" if n in both else n for n in inputs[0]]
            return left + [f"right.{n}" if n in both else n for n in inputs[1]]
        case Aggregate(groups=groups, calls=calls):
            return [inputs[0][p] for p in groups] + [_named(c.sql, inputs[0]) for c in calls]
        case Window(calls=calls):
            return inputs[0] + [_named(c.sql, inputs[0]) for c in calls]
        case TopK(numbered=numbered):
            return inputs[0] + ["row_number()"] * numbered
    return [c.name for c in node.columns]


def rules(node: Node) -> list[str]:
    """The names of the rules by which an operator makes its delta."""
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
    return []


def _by(node: Node, held: Arrangement) -> list[str]:
    owner = next((n for n in (*node.inputs, node) if n.fingerprint == held.of), node)
    return [names(owner)[p] for p in held.by]


def _named(text: str, columns: list[str]) -> str:
    """An expression in the names of its input's columns."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        position = position_of(node) if isinstance(node, exp.Column) else None
        if position is None or not isinstance(node, exp.Column) or position >= len(columns):
            return node
        return with_fields(exp.Column(this=exp.Identifier(this=columns[position])), node.parts[1:])

    return generate(parse_expr(text).transform(rewrite))


def _listed(shown: list[str]) -> str:
    return f"({', '.join(shown)})"


def _lines(node: Mapping[str, Any], indent: str, *, last: bool) -> list[str]:
    placed = f", shuffled by {_listed(node['shuffled_by'])}" if "shuffled_by" in node else ""
    source = ", the log" if node["operator"] == "scan" else ""
    head = f"{indent}{'└─' if last else '├─'} {node['operator']} {node['does']}"
    lines = [f"{head}  [zone {node['zone']}{source}{placed}]"]
    indent += "   " if last else "│  "
    bar = "│  " if node["inputs"] else "   "
    lines += [f"{indent}{bar}rule {rule}: costs {cost}" for rule, cost in node["rules"].items()]
    for held in node.get("arrangements", ()):
        shared = f", shared with {', '.join(held['shared_with'])}" if held["shared_with"] else ""
        mark = held["fingerprint"][:_SHORT]
        lines.append(f"{indent}{bar}keeps {held['kind']} by {_listed(held['by'])} #{mark}{shared}")
    for number, child in enumerate(node["inputs"]):
        lines += _lines(child, indent, last=number == len(node["inputs"]) - 1)
    return lines


def compact(node: Node) -> str:
    """A plan on one line, in positions: the notation of the rewrites' examples and fixtures."""
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
            met = [f"{a}{'<=>' if s else '='}{b}" for a, b, s in zip(left, right, safe, strict=True)]
            met += [condition] if condition is not None else []
            return f"{kind}({', '.join(met)}; {inner})"
        case Aggregate(groups=groups, calls=calls):
            parts = [*(f"_{p}" for p in groups), *(c.sql for c in calls)]
            return f"aggregate({', '.join(parts)}; {inner})"
        case UnionAll():
            return f"union({inner})"
        case Window(calls=calls):
            shown = [" ".join(filter(None, (c.sql, c.frame))) for c in calls]
            return f"window({' '.join(filter(None, (', '.join(shown), _compact_order(node))))}; {inner})"
        case TopK(offset=offset, limit=limit, numbered=numbered):
            shown = ["all" if limit is None else str(limit), f"after {offset}" if offset else ""]
            shown += [_compact_order(node), "numbered" if numbered else ""]
            return f"top({' '.join(filter(None, shown))}; {inner})"
    raise TypeError(type(node).__name__)


def _compact_order(node: Window | TopK) -> str:
    return _arranged(node, [f"_{i}" for i in range(len(node.input.columns))])
