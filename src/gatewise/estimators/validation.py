"""Arguments of estimators: checks, metadata routing and splits; and fits that are all or nothing."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import column_or_1d, validate_data

from gatewise.arrays import as_rng, as_vector, Floats, LARGEST, refuse_lossy
from gatewise.backends import DEVICE, on_device
from gatewise.experts.pool import named_experts, NamedExperts, Split, weight_params
from gatewise.gates.gate import Gate
from gatewise.gates.inputs import is_missing, plain_numbers, table_columns
from gatewise.gates.registry import AUTOMATIC, GateChoice, GATES
from gatewise.progress import LISTENER, reported, RUNNING

MOST_EXPERTS = 500
LARGEST_RESPONSE = 1e70  # its errors are squared, and squared again for their standard errors
RESERVED = (
    "experts",
    "shared",
    "gates",
    "k",
    "cv",
    "n_jobs",
    "random_state",
    "settings",
    "cost",
    "splitter",
    "verbose",
    "device",
)
NO_THREAD = (
    "there is no memory, or no leave, for one more thread: free some, fit to fewer rows, or set "
    "numba.set_num_threads(1) and n_jobs=1"
)
Estimator = TypeVar("Estimator")
Parameters = ParamSpec("Parameters")


def all_or_nothing(
    fit: Callable[Concatenate[Estimator, Parameters], Estimator],
) -> Callable[Concatenate[Estimator, Parameters], Estimator]:
    """Decorator of ``fit``: if it raises, the estimator has the attributes again that it had before the call.

    An estimator that was fitted before then still answers as it did; an interruption says so in a note. The
    attributes must be replaced by the fit, not changed in place. The progress of the fit is shown as the estimator's
    ``verbose`` asks: 0 is quiet, 1 shows stages, 2 also the pieces of each. Gates are fitted on its ``device``.
    """

    @wraps(fit)
    def guarded(self: Estimator, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Estimator:
        attributes: dict[str, Any] = vars(self)
        before, verbose = dict(attributes), getattr(self, "verbose", 0)
        if verbose not in (0, 1, 2):
            raise ValueError(f"verbose must be 0, 1 or 2, not {verbose!r}")
        if getattr(self, "device", None) is not None and DEVICE.get() is None:
            with on_device(self.device):  # type: ignore[attr-defined]
                return guarded(self, *args, **kwargs)
        try:
            if not verbose and LISTENER.get() is None and RUNNING.get() is None:
                return fit(self, *args, **kwargs)
            with reported(type(self).__name__, verbose):
                return fit(self, *args, **kwargs)
        except BaseException as error:
            attributes.clear()
            attributes.update(before)
            if isinstance(error, KeyboardInterrupt):
                fitted = any(name.endswith("_") and not name.startswith("_") for name in before)
                kept = "still answers by its earlier fit" if fitted else "is not fitted, as before"
                error.add_note(f"{type(self).__name__}: the fit was interrupted; the model {kept}")
            if _has_no_thread(error):
                raise MemoryError(NO_THREAD) from error
            raise

    return guarded


def forget(model: Any) -> None:
    """Delete the fitted attributes of an earlier fit: not every fit has all of them, and old ones may contradict new.

    Called within `all_or_nothing`, which brings them back where the fit fails.
    """
    for name in [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]:
        delattr(model, name)


def _has_no_thread(error: BaseException) -> bool:
    """Whether a thread could not be started; joblib's pool then fails as it tries to end those that it has."""
    kinds = ((RuntimeError, "start new thread"), (AttributeError, "'DummyProcess' object has no attribute"))
    return any(isinstance(error, kind) and words in str(error) for kind, words in kinds)


def checked_rows(model: Any, X: Any, reset: bool = False, least: int = 1) -> Any:
    """X as the experts will get it: a data frame unchanged, anything else as an array.

    Missing values in an array pass: an expert that does not take them will say so itself.
    """
    if not reset and _is_as_in_fit(model, X):
        return X
    if hasattr(X, "columns"):
        validated(model, X, reset=reset, skip_check_array=True)
        if X.shape[0] < least:
            raise ValueError(f"X has {X.shape[0]} row(s), and at least {least} are needed")
        rows = X
    else:
        rows = validated(
            model, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan", ensure_min_samples=least
        )
    refuse_huge(rows)
    return rows


def validated(model: Any, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
    """`validate_data` of scikit-learn, after a check that nothing of X and y is lost where they are read as numbers.

    Complex numbers are refused by the name of the argument, in a list, too. A data frame may hold dates where the
    model reads its columns itself.
    """
    _refuse_lossy_rows(X, as_floats=checks.get("dtype") is np.float64)
    if y is not None and not isinstance(y, str):
        _numeric_target(model, y)
    try:
        return validate_data(model, X, y, **checks)
    except (TypeError, ValueError) as error:
        if "complex" in str(error).lower():
            for name, values in (("X", X), ("y", y)):
                refuse_lossy(np.asarray(values), name)
        raise


def _refuse_lossy_rows(X: Any, as_floats: bool) -> None:
    """An error for an array X, or a frame that is read ``as_floats``, that holds what would become other numbers."""
    if isinstance(X, np.ndarray):
        if not _is_plain(X):
            refuse_lossy(X, "X")
    elif as_floats and hasattr(X, "columns") and plain_numbers(X) is None:
        for name, values in table_columns(X):
            refuse_lossy(values, f"column {name} of X")


def _is_as_in_fit(model: Any, X: Any) -> bool:
    """Whether X has the columns of fit and only finite floats of a usual size: the full checks would return it.

    They take several times as long as the prediction of one row by most experts.
    """
    named, numbers = getattr(model, "feature_names_in_", None), plain_numbers(X)
    if numbers is None or isinstance(numbers, np.ma.MaskedArray):
        return False
    if numbers.dtype not in (np.float64, np.float32) or 0 in numbers.shape:
        return False
    if named is None:
        same = numbers is X and numbers.shape[1] == getattr(model, "n_features_in_", None)
    else:
        same = numbers is not X and list(X.columns) == named.tolist()
    return same and float(numbers.min()) >= -LARGEST and float(numbers.max()) <= LARGEST  # a NaN is not


def checked_sample(model: Any, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, Floats, Floats]:
    """X as the experts will get it, responses (n,), and sample weights (n,)."""
    if y is None:
        raise ValueError(f"{type(model).__name__} requires y to be passed, but the target y is None")
    X = checked_rows(model, X, reset, least=2 if reset else 1)
    target = _numeric_target(model, y)
    if target.ndim == 2 and target.shape[1] > 1:
        raise ValueError(
            f"y must have one column, not {target.shape[1]}: fit one MoERegressor per output "
            "(sklearn.multioutput.MultiOutputRegressor)"
        )
    target = check_array(column_or_1d(target, warn=True), ensure_2d=False, dtype=np.float64, input_name="y")
    check_unit(target, reset)
    return X, target, checked_weight(X, target, sample_weight, reset)


def check_unit(y: Floats, whole: bool = True) -> None:
    """An error if responses (n,) are huge, or if they are all the rows to come and tiny, but not zero."""
    row = int(np.abs(y).argmax())
    size = float(abs(y[row]))
    if size > LARGEST_RESPONSE:
        raise ValueError(f"y must not exceed {LARGEST_RESPONSE:g}, but is {y[row]:g} at row {row}; change its unit")
    if whole and 0.0 < size < 1.0 / LARGEST_RESPONSE:
        raise ValueError(f"y must reach {1.0 / LARGEST_RESPONSE:g}, but is {size:g} at most; change its unit")


def checked_weight(X: Any, y: NDArray[Any], sample_weight: Any, reset: bool) -> Floats:
    """The sample weights (n,), after a check that X and y have equally many rows."""
    n = len(y)
    if n != X.shape[0]:
        raise ValueError(f"X and y must have equally many rows, not {X.shape[0]} and {n}")
    weight = np.ones(n) if sample_weight is None else as_vector(sample_weight, "sample_weight", n)
    if (weight < 0.0).any() or (reset and not weight.any()):
        raise ValueError("sample_weight must not be negative, and not zero for all rows")
    return weight


def rows_that_count(sample_weight: Any, n: int) -> tuple[NDArray[np.intp], Floats | None]:
    """The numbers of the rows of positive sample weight, and their weights; None where none are given."""
    if sample_weight is None:
        return np.arange(n), None
    weight = as_vector(sample_weight, "sample_weight", n)
    kept = np.flatnonzero(weight)
    if (weight < 0.0).any() or len(kept) < 2:
        raise ValueError("sample_weight must not be negative, and at least two rows need one that is not zero")
    return kept, weight[kept]


def drawn_seed(random_state: Any) -> int:
    """A seed that follows from a random state, as `as_rng` takes it."""
    plain = random_state is None or (isinstance(random_state, int) and random_state >= 0)
    return int((np.random.default_rng(random_state) if plain else as_rng(random_state)).integers(2**31))


def _is_plain(values: Any) -> bool:
    """Whether these are floats that nothing can be lost of."""
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    return bool(kind == "f") and not isinstance(values, np.ma.MaskedArray)


def _numeric_target(model: Any, y: Any) -> NDArray[Any]:
    """y as an array that holds numbers, or an error that names the first value that is none."""
    if not _is_plain(y):
        refuse_lossy(y, "y")
    target = np.asarray(y)
    if target.dtype.kind in "OUS":
        for row, value in enumerate(target.ravel().tolist()):
            try:
                float(value)
            except (TypeError, ValueError):
                raise ValueError(
                    f"y must hold numbers, but is {value!r} at row {row}: {type(model).__name__} is for regression, "
                    "and MoEClassifier for class labels"
                ) from None
    return target


def refuse_huge(X: Any) -> None:
    """Raise an error where a finite number is so large that squares of it overflow, or where numbers are complex."""
    for name, values in table_columns(X):
        if values.dtype.kind == "c" or (values.dtype.kind == "O" and any(isinstance(v, complex) for v in values)):
            refuse_lossy(np.zeros(0, dtype=complex), f"column {name} of X")
        if values.dtype.kind == "f" and len(values):
            size = np.where(np.isfinite(values), np.abs(values), 0.0)
            if float(size.max()) > LARGEST:  # a limit beyond float32 would overflow
                row = int(size.argmax())
                where = f"column {name} is {values[row]:g} at row {row}"
                raise ValueError(f"X must not exceed {LARGEST:g}, but {where}; change its unit")


def checked_experts(experts: Any, shared: Any, kind: str = "regressor") -> tuple[NamedExperts, NamedExperts]:
    """The experts and the shared ones as pairs (name, model), or an error that says what is wrong with them.

    No name occurs twice, or is that of a parameter.
    """
    n = len(named_experts(experts, "experts"))
    named_experts(shared, "shared", least=0)
    pairs = named_experts([*experts, *shared], "experts and shared")
    if len(pairs) > MOST_EXPERTS:
        raise ValueError(f"experts: {len(pairs)} are more than {MOST_EXPERTS}; choose among them first")
    for place, (name, expert) in enumerate(pairs):
        argument = "experts" if place < n else "shared"
        if name in RESERVED:
            raise ValueError(f"{argument}: {name!r} is the name of a parameter; take another")
        if not hasattr(expert, "predict"):
            raise TypeError(f"{argument}: {name!r} must be a {kind} with fit and predict, not {expert!r}")
        check_kind(argument, name, expert, kind)
    return pairs[:n], pairs[n:]


def check_kind(argument: str, name: str, expert: Any, kind: str) -> None:
    """An error for an expert that is a classifier where ``kind`` is "regressor", or a regressor for "classifier"."""
    other, is_other = ("classifier", is_classifier) if kind == "regressor" else ("regressor", is_regressor)
    try:
        mistaken = bool(is_other(expert))
    except (AttributeError, TypeError):  # not an estimator of scikit-learn
        return
    if mistaken:
        raise TypeError(f"{argument}: {name!r} is a {other}, and must be a {kind}: {expert!r}")


def checked_gate(gate: Any) -> Gate:
    """The gate, or an error that says what one is."""
    if not isinstance(gate, Gate):
        raise TypeError(f"gate must be a gate, such as gatewise.LinearGate(3), not {gate!r}")
    return gate


def chosen_gates(gates: Any, n_experts: int, dense: bool) -> dict[str, GateChoice]:
    """Gates by their names, from "auto", names of the registry and gate objects, alone or in a sequence.

    A name stands for its family with default parameters. ``dense`` tells whether all experts may be asked at every
    row: gates that need the experts' forecasts take part only then.

    >>> from gatewise import LinearGate
    >>> list(chosen_gates("auto", 3, dense=False))
    ['linear', 'quadratic', 'kernel', 'tree']
    >>> list(chosen_gates(["kernel", LinearGate(3), LinearGate(3, intercept=False)], 3, dense=True))
    ['kernel', 'linear-1', 'linear-2']
    """
    if isinstance(gates, str) and gates == "auto":
        return {name: GATES[name] for name in AUTOMATIC if dense or not GATES[name].needs_forecasts}
    wanted = [gates] if isinstance(gates, str | Gate) else gates
    if not isinstance(wanted, Sequence):
        raise _not_a_gate(gates)
    return _numbered([_choice(gate, n_experts, dense) for gate in wanted])


def checked_groups(groups: Any, n_rows: int) -> NDArray[Any] | None:
    """The group of every row, (n,), if groups are given: at least two, none missing, all of one type."""
    if groups is None:
        return None
    found = np.asarray(groups)
    if found.shape != (n_rows,):
        raise ValueError(f"groups must have shape ({n_rows},), one for each row, not {found.shape}")
    if any(is_missing(one) for one in found.tolist()):
        raise ValueError("groups must not be missing for any row; give a row without one a group of its own")
    try:
        count = len(np.unique(found))
    except TypeError:
        kinds = ", ".join(sorted({type(one).__name__ for one in found.tolist()}))
        raise ValueError(f"groups must be of one type, not of {kinds}") from None
    if count < 2:
        raise ValueError("groups must name at least two groups, as whole groups are held out")
    return found


def expert_params(
    model: Any, experts: Sequence[tuple[str, Any]], given: Any, weight: Floats, groups: Any
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The keywords for the fit of each expert, by name, and those for the split.

    With metadata routing every expert and a splitter get what they asked for; without, a sample weight goes to all
    that take one. Where ``cv`` is no splitter, the split always gets the groups.
    """
    from sklearn import get_config  # noqa: PLC0415
    from sklearn.utils.metadata_routing import process_routing  # noqa: PLC0415

    extras = {key: value for key, value in (("sample_weight", given), ("groups", groups)) if value is not None}
    by_groups = {} if groups is None else {"groups": groups}
    if extras and get_config()["enable_metadata_routing"]:
        routed = process_routing(model, "fit", **extras)
        params = {name: dict(routed[name].fit) for name, _ in experts}
        return params, dict(routed["splitter"].split) if hasattr(model.cv, "split") else by_groups
    params = {name: weight_params(expert, None if given is None else weight) for name, expert in experts}
    return params, by_groups


def make_splits(cv: Any, X: Any, y: NDArray[Any], params: dict[str, Any], seed: int) -> list[Split]:
    """The (training, held-out) rows of every split; folds that are not given divide no group."""
    from sklearn.model_selection import check_cv, GroupKFold, KFold  # noqa: PLC0415 - slow to import

    if cv is None or isinstance(cv, int | np.integer):
        folds, groups = 5 if cv is None else int(cv), params.get("groups")
        kind, most = (KFold, len(y)) if groups is None else (GroupKFold, len(np.unique(groups)))
        cv = kind(min(folds, most), shuffle=True, random_state=seed % 2**31)
    splits = [(_numbers(a), _numbers(b)) for a, b in check_cv(cv, y).split(X, y, **params)]
    if not splits:
        raise ValueError(f"cv must give at least one split, and {cv!r} gives none")
    for train, test in splits:
        rows = np.concatenate([train, test])
        if rows.size and not 0 <= rows.min() <= rows.max() < len(y):
            raise ValueError(f"cv must name rows from 0 to {len(y) - 1}, but names {rows.min()} to {rows.max()}")
        if np.intersect1d(train, test).size:
            raise ValueError("cv must not hold out rows that it trains on")
    if not any(len(test) for _, test in splits):
        raise ValueError(f"cv must hold out rows, but none of its {len(splits)} splits holds out one")
    return splits


def _numbers(rows: Any) -> NDArray[np.intp]:
    """Rows by number, which a splitter may also give as a mask."""
    array = np.asarray(rows)
    return np.flatnonzero(array) if array.dtype == bool else array.astype(np.intp)


def metadata(model: Any) -> Any:
    """The routing of sample weights and groups."""
    from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping  # noqa: PLC0415

    router = MetadataRouter(owner=model).add_self_request(model)
    for name, expert in named_experts([*model.experts, *model.shared], "experts and shared"):
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router.add(**{name: expert}, method_mapping=mapping)
    if hasattr(model.cv, "split"):  # an iterable of splits asks for nothing, and may be read but once
        router.add(splitter=model.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
    return router


def tags(model: Any, own: Any) -> Any:
    """Missing values are taken if every expert takes them."""
    own.input_tags.sparse = False
    try:
        own.input_tags.allow_nan = all(_takes_missing(expert) for _, expert in named_experts(model.experts))
    except (TypeError, ValueError):  # not a list of experts: fit will say so
        own.input_tags.allow_nan = False
    return own


def _takes_missing(expert: Any) -> bool:
    try:
        return bool(get_tags(expert).input_tags.allow_nan)
    except (TypeError, ValueError, AttributeError):  # not an estimator of scikit-learn
        return False


def _choice(gate: Any, n_experts: int, dense: bool) -> tuple[str, GateChoice]:
    if isinstance(gate, Gate):
        name = next((known for known, family in GATES.items() if family is type(gate)), _own_name(gate))
        if gate.n_experts != n_experts:
            raise ValueError(f"gates: {gate!r} is for {gate.n_experts} experts, but there are {n_experts}")
        if getattr(gate, "phi", "exp") != "exp":
            raise ValueError(f"gates: {gate!r} must have phi='exp', as its scores are learned about a reference")
        choice: GateChoice = gate
    elif isinstance(gate, str) and gate in GATES and GATES[gate].by_name:
        name, choice = gate, GATES[gate]
    else:
        raise _not_a_gate(gate)
    if choice.needs_forecasts and not dense:
        raise ValueError(f"gates: {name!r} asks every expert; it needs k=None or k='auto'")
    return name, choice


def _not_a_gate(given: Any) -> ValueError:
    known = ", ".join(name for name, family in GATES.items() if family.by_name)
    return ValueError(f"gates must be 'auto', some of {known}, or gate objects, not {given!r}")


def _own_name(gate: Gate) -> str:
    return type(gate).__name__.lower().removesuffix("gate") or "gate"


def _numbered(named: list[tuple[str, GateChoice]]) -> dict[str, GateChoice]:
    """Numbers behind names that occur more than once."""
    counts = Counter(name for name, _ in named)
    seen: Counter[str] = Counter()
    out: dict[str, GateChoice] = {}
    for name, gate in named:
        seen[name] += 1
        out[f"{name}-{seen[name]}" if counts[name] > 1 else name] = gate
    return out
