"""Which level of consistency a history reaches, and if not a higher one, why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tailrace.errors import BadHistory
from tailrace.verify.history.certified import check_certified, one_cut
from tailrace.verify.history.record_levels import Model
from tailrace.verify.history.search import search
from tailrace.verify.history.timelines import BaseHistory, Definition, Matters, ViewHistory
from tailrace.verify.history.verdict import Verdict

BOUND = 20_000


def check(
    base: BaseHistory,
    views: Sequence[ViewHistory],
    definitions: Mapping[str, Definition],
    *,
    certificates: bool = True,
    bound: int = BOUND,
    tolerance: float = 0.0,
    model: Model = Model.PAIRS,
    matters: Mapping[str, Matters] | None = None,
) -> Verdict:
    """The level that each view reaches, with witnesses.

    With certificates, a view is computed once per state, at the state's cut: any size (`certified.py`). Without, base
    states that explain the view's are searched for, at most `bound` of them per view (`search.py`); `model` and
    `matters` (by view name) are for that. Floats are equal within the relative tolerance.
    """
    if missing := [v.name for v in views if v.name not in definitions]:
        raise BadHistory(name=missing[0], reason="there is no definition of this view")
    if len({v.name for v in views}) < len(views):
        raise BadHistory(name=views[0].name, reason="views of one name; give all states of a view in one history")
    if not views:
        raise BadHistory(name="no view", reason="there is nothing to check; name at least one")
    if certificates:
        found = [check_certified(base, view, definitions[view.name], tolerance) for view in views]
        return Verdict({v.view: v for v in found}, *one_cut(views))
    chosen = matters or {}
    found = [search(base, v, definitions[v.name], bound, tolerance, model, chosen.get(v.name)) for v in views]
    return Verdict({v.view: v for v in found}, None)
