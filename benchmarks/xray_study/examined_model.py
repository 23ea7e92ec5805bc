"""One model of the study: trained, asked, and kept; it is a module of its own because processes import it."""

import traceback
from typing import Any

import numpy as np
import torch

from benchmarks.xray_study.answers import answers, BUDGETS
from benchmarks.xray_study.corpus import FILE
from benchmarks.xray_study.coverage import coverage
from benchmarks.xray_study.small_models import small_model
from benchmarks.xray_study.training import trained


def one_model(router: str, n_experts: int, steps: int, out: str, device: str) -> tuple[str, dict[str, Any]]:
    """Train a model, ask it, see how often the bound of pruning holds; one checkpoint is kept in bfloat16."""
    torch.backends.cuda.matmul.allow_tf32 = False
    name = f"{router} {n_experts}"
    try:
        model, initial = (small_model(router, n_experts).to(device) for _ in range(2))
        found: dict[str, Any] = {"training": trained(model, np.load(FILE)["train"], steps, seed=1)}
        model.float()
        page = f"{out}/{name.replace(' ', '_')}.html" if name in ("softmax 8", "frozen 8") else None
        found["answers"] = answers(model, initial.eval(), page)
        if n_experts == 8:  # with more experts each repeat would choose a model of its own
            found["pruning coverage"] = coverage(model, BUDGETS[n_experts])
        if name == "softmax 8":
            torch.save(
                {key: value.bfloat16() for key, value in model.state_dict().items()},
                f"{out}/{name.replace(' ', '_')}.pt",
            )
    except Exception:  # the others go on
        found = {"error": traceback.format_exc()}
    return name, found
