"""The table from a label of the paper to its number there and to the functions that name it:
``docs/paper-labels.md``.

``python -m tools.paper_labels`` writes it; a test sees that it is up to date. The numbers are those of the paper's
first version, counted in its source; equations are named by their section.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE, PAGE = ROOT / "src" / "gatewise", ROOT / "docs" / "paper-labels.md"
LABEL = re.compile(r"`((?:thm|prop|cor|lem|def|remark|exa|ass|alg|eq|fig|tab|sec)[: ][\w:. +-]+)`")
NUMBERS = {
    "alg:cross-entropy": "Algorithm F.2",
    "alg:general": "Algorithm 1",
    "alg:scale_online": "Algorithm B.1",
    "alg:selection": "Algorithm 2",
    "ass:ARM-regularity": "Assumption 3.7",
    "ass:compact-theta": "Assumption 3.4",
    "ass:distribution": "Assumption 4.4",
    "ass:learner-separation": "Assumption 6.1",
    "ass:linearly-separable": "Assumption 4.8",
    "ass:regular gating": "Definition 4.1",
    "ass:supp-ce-fixed-mr": "Assumption F.3",
    "ass:two-expert-combination": "Assumption 4.10",
    "cor:Top1-single": "Corollary 4.9",
    "cor:kernel-interior-main": "Corollary 5.7",
    "cor:supp-example-softmax-upper1": "Corollary F.10",
    "cor:supp-example-softmax-upper2": "Corollary F.12",
    "def:boundary-regularity-main": "Definition 5.4",
    "def:parameter": "Definition 4.2",
    "def:region": "Definition 5.1",
    "eq:L1loss": "an equation of section 5",
    "eq:L2loss": "an equation of section 5",
    "eq:bestexpert": "an equation of section 4",
    "eq:formulation_MoE_shared": "an equation of section 1",
    "eq:formulation_gating_dense": "an equation of section 1",
    "eq:formulation_gating_sparse": "an equation of section 1",
    "eq:model_shared": "an equation of section 6",
    "eq:online-compat": "an equation of section F",
    "eq:shared_upper": "an equation of section 6",
    "eq:shrunken-region": "an equation of section 5",
    "exa:linear-quadratic-l1-l2": "Example 5.3",
    "exa:role-shared-routed-expert": "Example 3.9",
    "fig:all-gating-results": "Figure 2",
    "fig:fourier-simulation": "Figure 1",
    "lem:supp-ce-weight-estimator": "Lemma F.6",
    "lem:supp-evolving-population-comparator": "Lemma B.5",
    "lem:supp-fourier-sieve-lower": "Lemma E.3",
    "lem:supp-grid-tail": "Lemma D.1",
    "lem:supp-relative-derivative": "Lemma C.1",
    "prop: Top-1 mixing": "Proposition 4.11",
    "prop:approximation_ability": "Proposition 2.3",
    "prop:procedure-shared": "Proposition 6.2",
    "prop:risk_AFTER": "Proposition B.3",
    "prop:supp-erm-subgaussian": "Proposition F.1",
    "prop:supp-joint-shared-upper": "Proposition E.2",
    "prop:supp-linear-no-margin": "Proposition F.9",
    "prop:supp-linear-top2-no-margin": "Proposition F.11",
    "prop:two_specialized_experts": "Proposition 2.6",
    "remark:ERM": "Remark 3.10",
    "remark:fixedM": "Remark 3.11",
    "remark:topk-l2-covering": "Remark 4.6",
    "sec:shared": "Section 6",
    "sec:supp-simulation-details": "Section G",
    "tab:mc-summary": "Table 1",
    "thm:kernel-global-main": "Theorem 5.5",
    "thm:metric_entropy": "Theorem 2.4",
    "thm:softmax": "Theorem 3.8",
    "thm:top-k": "Theorem 4.7",
}
HEAD = """# From a label of the paper to its number, and to the code

Docstrings name the paper's statements by the labels of its source, such as `thm:softmax`. Here is the number that
each has in the paper (*Towards a Statistical Understanding of Mixture-of-Experts*, He, Yang, Hu, Gao, Yang; letters
are sections of the supplement) and where the code names it. `python -m tools.paper_labels` makes this page from the
docstrings.

<!-- checked by tests/test_docs.py::test_the_table_of_labels_is_up_to_date -->
| label | in the paper | named by |
|---|---|---|
"""


def named_by():
    """The places, as dotted names within the package, whose docstrings name each label; experiments are left out."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        if module.startswith(("paper", "app")):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                for label in LABEL.findall(ast.get_docstring(node) or ""):
                    found.setdefault(label, set()).add(f"{module}.{node.name}")
    return found


def page():
    """The text of the page."""
    rows = []
    for label, places in sorted(named_by().items()):
        names = ", ".join(f"`{place}`" for place in sorted(places))
        rows.append(f"| `{label}` | {NUMBERS.get(label, 'not numbered here')} | {names} |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
