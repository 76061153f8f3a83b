"""The entry point of the checker: which consistency level does a history reach, and why no higher one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tailrace.errors import BadHistory
from tailrace.verify.history.certified import OnState, check_certified, check_snapshots
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
    on_state: OnState = lambda view, number, total: None,
) -> Verdict:
    """The level that each view reaches, with witnesses.

    With certificates, each view is computed once per state, at the state's cut; the history may be of any size
    (`certified.py`), and `on_state` is told of each state. Without, the checker searches for base states that explain
    the view's states and evaluates at most `bound` of them per view (`search.py`). Only the search uses `model` and
    `matters` (by view name). Floats are equal within the relative tolerance.
    """
    if missing := [v.name for v in views if v.name not in definitions]:
        raise BadHistory(name=missing[0], reason="the view has no definition")
    names = [v.name for v in views]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise BadHistory(name=repeated[0], reason="it is given twice; put all its states into one history")
    if not views:
        raise BadHistory(name="the views", reason="there is none; give the history of at least one view")
    if certificates:
        verdicts = [check_certified(base, view, definitions[view.name], tolerance, on_state) for view in views]
        return Verdict({v.view: v for v in verdicts}, *check_snapshots(views))
    hints = matters or {}
    verdicts = [search(base, v, definitions[v.name], bound, tolerance, model, hints.get(v.name)) for v in views]
    return Verdict({v.view: v for v in verdicts}, None)
