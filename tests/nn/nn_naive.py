"""The slow twin of gatewise.nn: one token at a time, plain loops, written from the formulas."""

import math

import torch

from gatewise import nn
from gatewise.nn.fused.row_plan import BLOCK, capacity, RowPlan


def ranked(values):
    """Indices by falling value; equal values by rising index."""
    return sorted(range(len(values)), key=lambda m: (-float(values[m]), m))


def choose(selection, preference):
    """The experts of one token, best first; None for no expert."""
    values = preference.detach().tolist()
    if isinstance(selection, nn.Dense):
        return list(range(len(values)))
    if isinstance(selection, nn.TopK):
        return ranked(values)[: selection.k]
    if isinstance(selection, nn.NullExperts):
        real = len(values) - selection.n_null
        return [m if m < real else None for m in ranked(values)[: selection.k]]
    if isinstance(selection, nn.Threshold):
        total = sum(math.exp(v - max(values)) for v in values)
        best, *others = ranked(values)[: selection.k]
        share = {m: math.exp(values[m] - max(values)) / total for m in others}
        return [best, *(m if share[m] >= selection.level else None for m in others)]
    size = len(values) // selection.n_groups
    groups = [values[g * size : (g + 1) * size] for g in range(selection.n_groups)]
    rank = [sum(sorted(group)[-selection.per_group :]) for group in groups]
    kept = set(ranked(rank)[: selection.groups_kept])
    return ranked([v if m // size in kept else -math.inf for m, v in enumerate(values)])[: selection.k]


def phi(weighting, t):
    if weighting.phi == "exp":
        return torch.exp(t)
    return torch.sigmoid(t) if weighting.phi == "sigmoid" else torch.exp(weighting.phi(t))


def affinity(weighting, scores):
    if isinstance(weighting, nn.SigmoidEach):
        return torch.sigmoid(scores)
    if isinstance(weighting, nn.SoftmaxBefore) or weighting.phi == "exp":
        return torch.exp(scores) / torch.exp(scores).sum()
    return torch.stack([phi(weighting, s) for s in scores])


def weigh(weighting, scores, chosen):
    """The weight of every place of one token."""
    zero = scores.sum() * 0.0
    if isinstance(weighting, nn.SoftmaxBefore):
        total = torch.exp(scores).sum()
        return [zero if m is None else weighting.scale * torch.exp(scores[m]) / total for m in chosen]
    if isinstance(weighting, nn.SigmoidEach):
        return [zero if m is None else weighting.scale * torch.sigmoid(scores[m]) for m in chosen]
    total = sum((phi(weighting, scores[m]) for m in chosen if m is not None), zero)
    return [zero if m is None else weighting.scale * phi(weighting, scores[m]) / total for m in chosen]


def score(module, x):
    """The scores of one token, without noise."""
    module = getattr(module, "scores", module)
    features = list(x)
    if isinstance(module, nn.QuadraticScores):
        d = len(x)
        pairs = [(i, j) for i in range(d) for j in range(i, d)]
        features = [(1.0 if i == j else 2.0) * x[i] * x[j] for i, j in pairs] + features
    rows = [sum(w * f for w, f in zip(row, features, strict=True)) for row in module.weight]
    return torch.stack(rows) + (0.0 if module.bias is None else module.bias)


def limit(choices, factor, n_experts):
    """Drop what is beyond the capacity: first places first, then token by token."""
    n, k = len(choices), len(choices[0])
    room = [math.ceil(factor * n * k / n_experts)] * n_experts
    for place in range(k):
        for chosen in choices:
            m = chosen[place]
            if m is None:
                continue
            if room[m] == 0:
                chosen[place] = None
            else:
                room[m] -= 1


def route_scores(router, scores):
    """[(expert or None, weight), ...] of every token."""
    choices, weights = [], []
    for row in scores:
        preference = row
        if router.bias is not None:
            preference = affinity(router.weighting, row) + router.bias.bias
        elif isinstance(router.selection, nn.GroupLimitedTopK):
            preference = affinity(router.weighting, row)
        chosen = choose(router.selection, preference)
        choices.append(list(chosen))
        weights.append(weigh(router.weighting, row, chosen))
    if router.capacity is not None and router.capacity.eval_factor is not None:
        limit(choices, router.capacity.eval_factor, router.n_experts)
    return [list(zip(c, w, strict=True)) for c, w in zip(choices, weights, strict=True)]


def expert_choice(router, scores):
    """Every expert takes its best tokens; a token's places are filled up with None to M."""
    p = [torch.exp(row) / torch.exp(row).sum() for row in scores]
    room, taken = math.ceil(router.factor * len(p) / router.n_experts), [[] for _ in p]
    for m in range(router.n_experts):
        for t in ranked([row[m].detach() for row in p])[:room]:
            taken[t].append((m, p[t][m]))
    nobody = (None, sum(scores).sum() * 0.0)
    best_first = [sorted(places, key=lambda place: (-float(place[1].detach()), place[0])) for places in taken]
    return [places + [nobody] * (router.n_experts - len(places)) for places in best_first]


def route(router, x):
    """[(expert or None, weight), ...] of every token, for both kinds of routers."""
    if isinstance(router, nn.Router):
        return route_scores(router, [score(router.scores, row) for row in x])
    if isinstance(router, nn.ExpertChoiceRouter):
        return expert_choice(router, [score(router.scores, row) for row in x])
    outer, result = route(router.outer, x), []
    for row, groups in zip(x, outer, strict=True):
        scores, places = score(router.inner.scores, row), []
        for group, weight in groups:
            inside = scores[group * router.group_size : (group + 1) * router.group_size]
            places += [
                (group * router.group_size + m, weight * inner)
                for m, inner in route_scores(router.inner, [inside])[0]
            ]
        result.append(places)
    return result


def expert(experts, m, x):
    """Expert m at one token."""
    if isinstance(experts, nn.SwiGLUExperts):
        gate, up = experts.gate_up[m][: experts.hidden] @ x, experts.gate_up[m][experts.hidden :] @ x
        return experts.down[m] @ (gate * torch.sigmoid(gate) * up)
    if isinstance(experts, nn.ClampedSwiGLUExperts):
        both, h, limit = experts.gate_up[m] @ x + experts.gate_up_bias[m], experts.hidden, experts.limit
        gate, up = torch.clamp(both[:h], max=limit), torch.clamp(both[h:], -limit, limit)
        hidden = (up + 1) * gate / (1 + torch.exp(-experts.slope * gate))
        return experts.down[m] @ hidden + experts.down_bias[m]
    if isinstance(experts, nn.MLPExperts):
        hidden = experts.up[m] @ x + (0.0 if experts.up_bias is None else experts.up_bias[m])
        return experts.down[m] @ experts.activation(hidden) + (
            0.0 if experts.down_bias is None else experts.down_bias[m]
        )
    return experts.members[m](x[None])[0]


def weighted(experts, m, x, weight):
    """Expert m at one token, with its weight on the output or, where the experts say so, on the input."""
    if isinstance(experts, nn.InputWeighted):
        return expert(experts.inner, m, weight * x)
    return weight * expert(experts, m, x)


def layer(module, x):
    """The layer at every token of x (T, d)."""
    if isinstance(module, nn.CartesianLayer):
        half = layer(module.first, x)
        rows = x + half
        norm = rows / torch.sqrt((rows**2).mean(-1, keepdim=True) + 1e-6) * module.norm.weight
        return half + layer(module.second, norm)
    outputs = []
    for row, places in zip(x, route(module.router, x), strict=True):
        y = sum(s(row[None])[0] for s in module.shared) if len(module.shared) else 0.0 * row.sum()
        for m, weight in places:
            if m is not None:
                y = y + weighted(module.experts, m, row, weight)
        outputs.append(y)
    width = max((y.shape[0] for y in outputs if y.ndim), default=x.shape[1])
    return torch.stack([y.expand(width) for y in outputs])


def sorted_plan(indices, n_experts):
    """The plan of the fused layer by torch's stable sort: indices (T, K), those outside 0..M-1 are dropped."""
    labels = torch.where((indices < 0) | (indices > n_experts), n_experts, indices).flatten()
    experts, order = torch.sort(labels, stable=True)
    counts = torch.zeros(n_experts + 1, dtype=torch.int64, device=labels.device)
    counts.scatter_add_(0, labels, torch.ones_like(labels))
    padded = (counts + BLOCK - 1) // BLOCK * BLOCK
    starts = padded.cumsum(0) - padded  # (M + 1,)
    size = capacity(labels.numel(), n_experts)
    place = (
        torch.arange(labels.numel(), device=labels.device) - (counts.cumsum(0) - counts)[experts] + starts[experts]
    )
    place = torch.where(experts < n_experts, place, size)  # the dropped ones go behind the end
    rows = torch.full((size + 1,), -1, dtype=torch.int32, device=labels.device)
    rows[place] = order.to(torch.int32)
    positions = rows.new_empty(labels.numel())
    positions[order] = torch.where(experts < n_experts, place, -1).to(torch.int32)
    ends = (padded.cumsum(0) // BLOCK)[:n_experts]
    tiles = torch.arange(size // BLOCK, device=labels.device)
    owner = torch.searchsorted(ends, tiles, right=True).clamp(max=n_experts - 1)
    return RowPlan(
        rows[:size],
        positions.view(indices.shape),
        starts[:n_experts].to(torch.int32),
        counts[:n_experts].to(torch.int32),
        owner.to(torch.int32),
        ends[-1:].to(torch.int32),
    )
