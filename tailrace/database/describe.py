"""The output of `explain`: a view's plan and refresh policy, and how the last epoch refreshed it, as text or data."""

from __future__ import annotations

from typing import Any

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.definition import ViewDef
from tailrace.plan.explain import explain_json, explain_tree

LastRefresh = dict[str, Any] | None


def explain_data(catalog: Catalog, view: ViewDef, last: LastRefresh) -> dict[str, Any]:
    """`plan` is None for a view that Spark recomputes. `refresh` has the policy, its reason and the last refresh."""
    if view.plan is not None:
        described = explain_json(view.name, _plans(catalog))
    else:
        described = {
            "view": view.name,
            "columns": [{"name": c.name, "type": c.type} for c in view.columns],
            "key": view.key_names,
            "sharded_by": [view.columns[p].name for p in view.place],
            "plan": None,
        }
    return {**described, "refresh": {"policy": view.refresh, "reason": view.reason, "last": last}}


def explain_text(catalog: Catalog, view: ViewDef, last: LastRefresh) -> str:
    if view.plan is not None:
        head, *plan = explain_tree(view.name, _plans(catalog)).split("\n")
    else:
        key = "none, whole rows with a weight" if view.key_names is None else f"({', '.join(view.key_names)})"
        head, plan = f"{view.name}: key {key}", [f"recomputed by Spark: {view.reason}", view.sql]
    return "\n".join([head, *_refresh_lines(view, last), *plan])


def _plans(catalog: Catalog) -> dict[str, Any]:
    return {v.name: v.plan for v in catalog.views.values() if v.plan is not None}


def _refresh_lines(view: ViewDef, last: LastRefresh) -> list[str]:
    if view.refresh == "incremental":
        return []
    return [f"refresh {view.refresh}", *([f"epoch {last['epoch']}: {last['taken']}: {last['reason']}"] if last else [])]
