"""The one error of this package: a sentence for the person who runs the cluster."""


class ClusterProblem(RuntimeError):
    """The cluster cannot be started, stopped or asked; the text says why and what to do."""
