"""The figures of the benchmarks that are told about: where each stands in its JSON file, and the goal set for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Key = str | Mapping[str, Any]  # a key of an object, or what a row of a list must contain


@dataclass(frozen=True)
class Headline:
    """One figure of a benchmark: where it stands in the file, and the goal, if there is one.

    ``over`` names the place of a number that the figure is divided by.
    """

    benchmark: str
    what: str
    path: tuple[Key, ...]
    unit: str
    goal: float | None = None
    better: Literal["more", "less"] = "more"
    over: tuple[Key, ...] | None = None


FASTER, TIME, SECONDS = "times as fast", "of its time", "s"
_MANY = {"data 0": "2.6", "data 1": "2.4", "data 2": "5.1"}  # noise SD between the experts
_LARGE, _LARGE_CE = {"case": "n=5000, M=5, C=400"}, {"case": "quadratic, n=5000, d=6, M=5, radius 30"}
_GATE_FITS = ((1000, 5, 0.3), (1000, 20, 1.2), (1000, 64, 5.0), (4000, 10, 1.2), (1000, 200, 25.0))
GPU_GOALS = {"mixtral": 580.0, "deepseek_moe": 450.0, "fine_grained": 300.0}

HEADLINES: tuple[Headline, ...] = (
    Headline("demo", "learned gate, distance to the truth", ("rmse", "learned gate, aggregate"), "root mean square"),
    Headline("real", "mean rank on real data, default pool",
             ("tables", {"pool": "default", "rows": "both halves"}, "standings", {"competitor": "gatewise"},
              "mean_rank"), "", better="less"),
    Headline("real-folds", "the same with ordinary folds, strong pool",
             ("tables", {"pool": "strong", "rows": "both halves"}, "standings", {"competitor": "gatewise"},
              "mean_rank"), "", better="less"),
    Headline("verdict", "gating pays where no gate helps", ("pooled_level",), "of the runs", 0.05, "less"),
    *(Headline("verdict", f"gating pays where a gate saves 15 %, n = {n:,}",
               ("cells", {"design": "a gate, 15% better", "n": n}, "gating pays"), "of the runs", goal)
      for n, goal in ((300, 0.8), (1000, 0.95))),
    *(Headline("locality", f"distance to the truth, {design} gate",
               ("rows", {"design": design, "competitor": "gatewise"}, "mse"), "mean square", better="less")
      for design in ("linear", "quadratic", "nonlinear", "half-space")),
    *(Headline("resolution-board", f"distance to the truth, 4 x 4 checkerboard, n = {n:,}",
               ("rows", {"design": "board 4 x 4"}, "errors", str(n)), "mean square", bar, "less")
      for n, bar in ((1000, 0.25), (10_000, 0.03), (60_000, 0.006))),
    *(Headline("resolution", f"distance to the truth, {design}, n = 100,000",
               ("rows", {"design": design, "way": "Gatewise"}, "errors", "100000"), "mean square", better="less")
      for design in ("board 8 x 8", "spiral", "16 regions, 8 experts")),
    Headline("classes", "mean rank in log loss on real data", ("standings", {"method": "gatewise"}, "rank"), "",
             better="less"),
    Headline("classes-strong", "the same, strong pool", ("standings", {"method": "gatewise"}, "rank"), "",
             better="less"),
    Headline("class_verdict", "gating pays where no gate helps, classes", ("pooled_level",), "of the runs", 0.05,
             "less"),
    *(Headline("class_verdict", f"gating pays where a gate is 0.05 nats better, n = {n:,}",
               ("cells", {"design": "a gate, 0.05 nats better", "n": n}, "gating pays"), "of the runs", goal)
      for n, goal in ((500, 0.8), (2000, 0.95))),
    Headline("classification", "excess log loss where a gate is true, over the best stack's", ("of the best stack",),
             "of it", 0.5, "less"),
    Headline("class_fit_time", "fit of MoEClassifier over StackingClassifier", ("seconds", "ratio"), "of its time",
             1.5, "less"),
    *(Headline("ablations", f"MSE over that of the router with {part}", ("table", part, "both halves", "ratio"),
               "of it", better="less")
      for part in ("gates off", "trees off", "shared parts off", "power 1", "one order", "no guard")),
    *(Headline("family_costs", f"what all families cost where none helps, log ratio of MSE, n = {n:,}",
               ("rows", {"design": "exact blend", "n": n, "family": "all"}, "alone", "mean"), "", better="less")
      for n in (300, 1000)),
    Headline("weighing", "power 1 over the shipped power, MSE on real data",
             ("rows", {"rule": "AFTER, power 1"}, "ratio"), "of it"),
    Headline("null_check", "what gates save in pure noise, fitted experts, n = 1,000",
             ("rows", {"design": "noise", "n": 1000}, "gain"), "of the MSE", better="less"),
    Headline("gate_weights", "mean gate against blocked NumPy",
             ("rows", {"k": 8, "S": 10_000}, "faster_than_numpy"), FASTER, 1.5),
    Headline("gate_weights", "the same, Top-1",
             ("rows", {"k": 1, "S": 10_000}, "faster_than_numpy"), FASTER, 1.5),
    Headline("gate_weights", "the same, Top-2",
             ("rows", {"k": 2, "S": 10_000}, "faster_than_numpy"), FASTER, 1.5),
    Headline("sparse_predict", "Top-1 of 16 against dense", ("top1_over_dense",), TIME, 0.08, "less"),
    Headline("aggregation", "n = 200 against NumPy with BLAS", ("n200", "faster_than_numpy_blas"), FASTER),
    Headline("aggregation", "n = 200 against NumPy by product", ("n200", "faster_than_numpy_product"), FASTER, 4),
    Headline("aggregation", "n = 1,000 against NumPy with BLAS", ("n1000", "faster_than_numpy_blas"),
             FASTER),
    Headline("aggregation", "n = 1,000 against NumPy by product", ("n1000", "faster_than_numpy_product"), FASTER, 8),
    Headline("aggregation", "two threads, n = 200", ("n200", "two_threads"), FASTER, 1.7),
    Headline("aggregation", "two threads, n = 1,000", ("n1000", "two_threads"), FASTER, 1.7),
    *(Headline("aggregation", f"two threads at best: a bare loop, same rounds as {n}",
               (n, "two_threads_at_best"), FASTER) for n in ("n200", "n1000")),
    Headline("aggregation", "exact skipping saves", ("skipping_n1000", "saved"), "of the time", 0.2),
    Headline("aggregation", "Top-2 against dense, n = 200", ("n200", "top2_over_dense"), TIME, 1.25, "less"),
    Headline("aggregation", "Top-2 against dense, n = 1,000", ("n1000", "top2_over_dense"), TIME, 1.25, "less"),
    Headline("aggregation", "projection with abort", ("projection_n1000", "abort_over_full"), TIME, 0.4, "less"),
    Headline("aggregation", "a list against NumPy", ("list_M8_d10", "faster_than_numpy_blas"), FASTER, 3),
    Headline("aggregation", "1,679,616 candidates", ("S1679616", "seconds_two_threads"), SECONDS, 3, "less"),
    Headline("aggregation", "1e8 candidates", ("S1e8", "seconds_two_threads"), SECONDS, 60, "less"),
    Headline("aggregation", "memory of 1e8 candidates", ("S1e8", "bytes_per_candidate"), "bytes each", 25, "less"),
    Headline("particles", "500 particles against a net of 16^6",
             ("against_net", "rows", {"what": "500 particles"}, "gap_to_net"), "noise SD", 0.03, "less"),
    *(Headline("particles", f"two runs, experts {apart} SD apart",
               ("many_parameters", "rows", {"what": data}, "gap_between_runs"), "noise SD", 0.08, "less")
      for data, apart in _MANY.items()),
    *(Headline("particles", f"time, experts {apart} SD apart",
               ("many_parameters", "rows", {"what": data}, "seconds"), SECONDS, 20, "less")
      for data, apart in _MANY.items()),
    Headline("simplex_ls", "kernel gate, C = 400, against an active set in NumPy",
             ("cases", _LARGE, "faster_than_rival"), FASTER),
    Headline("cross_entropy", "n = 5,000 against the best of scipy and Newton's method in NumPy",
             ("cases", _LARGE_CE, "faster_than_rival"), FASTER),
    *(Headline("profile_search", f"200 thresholds against cumulated Gram matrices, n = {n:,}",
               ("rows", {"n": n}, "faster_than_gram"), FASTER) for n in (20_000, 100_000)),
    Headline("profile_search", "n = 100,000", ("rows", {"n": 100_000}, "seconds", "search"), SECONDS, 0.3, "less"),
    Headline("specialization", "any false alarm, worst design", ("level",), "of the runs", 0.05, "less"),
    Headline("specialization", "specialists found, n = 1,200",
             ("power", {"n": 1200, "effect": 0.8}, "found"), "of them"),
    Headline("scores", "fit to 9,032 questions and 28 models", ("time", "fit_seconds"), SECONDS, 60, "less"),
    Headline(
        "xray_levels",
        "level of alignment, 8 experts",
        ("specialization", {"M": 8, "correlation": 0.2}, "levels", "alignment"),
        "at 0.05",
        0.065,
        "less",
    ),
    Headline("xray_study", "loss of the softmax model, 8 experts", ("softmax 8", "answers", "loss"), "nats"),
    *(Headline("streams", f"{name}, error over the convex stack's of a rolling window", ("rmse", name, "router"),
               "of its error", 1.01, "less", over=("rmse", name, "rolling stack")) for name in ("rain", "demand")),
    Headline("one_row", "one row, beyond the experts' own time", ("milliseconds", "full list", "overhead"),
             "ms", 5, "less"),
    Headline("one_row", "four rows from a shell, over imports", ("predict_over_imports",), TIME, 1.2, "less"),
    Headline("large_fits", "1,000 rows, 20,000 columns, CPU", ("fits", "columns", {"n": 1000}, "cpu_seconds"),
             SECONDS, 30, "less"),
    *(Headline("tree_gates", f"{name}, n = {n:,}, against scikit-learn's trees",
               ("rows", {"design": name, "n": n}, "faster"), FASTER)
      for name, n in (("board 4 x 4", 1000), ("board 4 x 4", 60_000))),
    Headline("library_trees", "1,000 rows, 20 experts, a library's trees",
             ("rows", {"n": 1000, "M": 20}, "scikit-learn", "cpu_seconds"), "of ours", better="less",
             over=("rows", {"n": 1000, "M": 20}, "ours", "cpu_seconds")),
    Headline("library_trees", "20,000 rows, classes, a library's trees",
             ("classes", "scikit-learn", "seconds", "ratio"), "of a stack", better="less"),
    Headline("warm_starts", "4,000 rows, 10 experts, all rows started near their folds",
             ("cases", {"n": 4000, "M": 10}, "near the folds"), TIME, 1.0, "less",
             ("cases", {"n": 4000, "M": 10}, "along the path")),
    Headline("thinning", "bound of the error of left-out states holds", ("covered",), "of 200", 184),
    *(Headline("gate_fits", f"n = {n:,}, {M} experts, CPU", ("cases", {"n": n, "M": M}, "gatewise", "cpu_seconds"),
               SECONDS, goal, "less") for n, M, goal in _GATE_FITS),
    *(Headline("gate_fits", f"n = {n:,}, {M} experts, against L-BFGS-B",
               ("cases", {"n": n, "M": M}, "L-BFGS-B", "cpu_seconds"), FASTER, None, "more",
               ("cases", {"n": n, "M": M}, "gatewise", "cpu_seconds"))
      for n, M in ((1000, 5), (1000, 10), (4000, 10))),
    Headline("gate_fits", "growth of time in M from 10 to 40, exponent", ("growth_in_M_10_to_40",), "", 1.15, "less"),
    Headline("moe_layer", "64 experts, K = 6, against dense",
             ("rows", {"tokens": 2048}, "sparse_over_dense"), TIME, 0.2, "less"),
    Headline("moe_layer", "64 experts, K = 6, against a loop over experts",
             ("rows", {"tokens": 2048}, "sparse_over_unbound_loop"), TIME),
    Headline("moe_layer", "one token, M = 256, against transformers",
             ("decoding_over_transformers",), TIME, 1.0, "less"),
    Headline("moe_regressor", "fit against a stack's", ("fit_over_stack",), TIME, 1.3, "less"),
    Headline("moe_regressor", "predict against a stack's", ("predict_over_stack",), TIME, 1.1, "less"),
    *(Headline("gpu_moe", f"forward, {shape}",
               ("rows", {"shape": shape, "skewed": False}, "fused", "forward_tflops"), "TFLOP/s", goal)
      for shape, goal in GPU_GOALS.items()),
    *(Headline("exact_net", f"1e10 candidates, n = {n}", ("large", {"n": n}, "seconds"), SECONDS, 10.0, "less")
      for n in (333, 666)),
    Headline("gpu_fits", "linear gates, 100,000 rows of 32 forecasts, against 16 cores",
             ("linear", {"n": 100_000}, "seconds_compiled"), FASTER, None, "more",
             ("linear", {"n": 100_000}, "seconds_cuda")),
    *(Headline("gpu_tokens", f"reading the weights once, T = {tokens}, {shape}",
               ("rows", {"shape": shape, "tokens": tokens}, "over_floor"), TIME, 1.67, "less")
      for shape in ("olmoe", "qwen3_30b", "mixtral", "deepseek_moe") for tokens in (1, 8, 64, 256)),
)  # fmt: skip
