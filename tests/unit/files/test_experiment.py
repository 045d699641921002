"""Whole experiment files: what is accepted, and how every wrong one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.desk import ITEMS, MINIMAL, write_experiment
from judgerun.errors import Refused
from judgerun.files.experiment import Loaded, load_experiment
from judgerun.model.experiment import Chat, Fold, Gate, Join, Pair, Retrieve

FULL = Path(__file__).parent / "full" / "experiment.toml"
HEAD, STAGE = MINIMAL.split("[[stage]]")


def load(path: Path, **environ: str) -> Loaded:
    return load_experiment(path, data_root=None, environ=environ)


def full() -> Loaded:
    return load(FULL, BENCH_HOST="10.0.0.1")


def refused(path: Path) -> list[str]:
    with pytest.raises(Refused) as caught:
        load(path)
    return [str(problem) for problem in caught.value.problems]


def test_every_construct_of_the_format_loads() -> None:
    """A file that uses every key of the format loads without a problem, each stage after its feeds."""
    loaded = full()
    names = [stage.name for stage in loaded.experiment.stages]
    for stage in loaded.experiment.stages:
        for feed in stage.feeds:
            assert feed not in names or names.index(feed) < names.index(stage.name)
    assert names.index("reform") < names.index("vectors")  # written the other way round
    assert len(loaded.views) == 4 + 18
    assert [str(warning) for warning in loaded.warnings] == []


def test_at_patterns_apply_in_file_order_key_by_key() -> None:
    """A later pattern replaces a key, an earlier one stands where no later one names it, and `skip` drops the arm."""
    stage = full().experiment.stage("pick")
    assert isinstance(stage, Chat)
    arms = {f"{arm.model.name}/{arm.prompt.name}": arm for arm in stage.arms}
    assert list(arms) == ["small/short", "small/long", "large.v2/short"]
    assert arms["small/short"].settings.parse.marker is None
    assert arms["small/long"].settings.parse.marker == "ANSWER:"
    assert arms["small/long"].model.max_output_tokens == 2000
    assert arms["large.v2/short"].model.thinking == "low"
    assert arms["large.v2/short"].settings.draws == 2
    assert arms["small/long"].settings.draws == 1
    assert arms["small/long"].settings.admit == ("stop", "length")


def test_values_are_resolved_into_the_core_s_types() -> None:
    """Addresses, prices, joins, coordinates and defaults stand in the frozen values as the core uses them."""
    loaded = full()
    experiment = loaded.experiment
    bench = next(model for model in experiment.models if model.name == "small").provider
    assert bench.base_url == "http://10.0.0.1:8000/v1"
    assert bench.key_part == "bench-small"
    assert bench.price is not None
    assert bench.price.cache_read == 10_000_000
    assert bench.cap_field == "max_tokens"
    pick = experiment.stage("pick")
    assert pick.joins == (
        Join(name="first", table="notes", gold="close", rank=1),
        Join(name="key", table="keys", by="key_id"),
    )
    duel = experiment.stage("duel")
    assert isinstance(duel, Pair)
    assert (duel.of, duel.against) == ("condition", "base")
    near = experiment.stage("near")
    assert isinstance(near, Retrieve)
    assert near.feeds == ("vectors",)
    fold = experiment.stage("verdict")
    assert isinstance(fold, Fold)
    assert (fold.value, fold.otherwise) == ("value", "TIE")
    assert experiment.questions[1].against == "best"
    assert loaded.inputs.functions["rows:tag"]({"solve": type("Solve", (), {"reply": "abc"})}) == [{"length": 3}]
    assert loaded.inputs.golds["wide"].grades["q2"] == {"n2": 1, "n3": -1}


def test_views_tell_columns_bounds_conditions_and_barriers() -> None:
    """`check` can print for each stage its columns, how many rows it can have, its conditions, and what it waits for."""
    views = {view.name: view for view in full().views}
    assert views["made"].rows_max == 3 * (2 + 3)  # the schema's maxItems
    assert views["solve"].rows_max == 3 * 2 * 3  # ids, variants, draws
    assert views["settled"].rows_max == 6
    assert views["share"].rows_max == 3
    assert "grade/small/grade@solve/large.v2/solve/note@questions" in views["grade"].conditions
    assert views["duel"].conditions == ("duel/new~base@answers:-",)
    assert views["verdict"].conditions == ("verdict@versus/small/versus/-@duel/new~base@answers:-",)
    assert "near.close" in views["pick"].columns
    assert "made.text" in views["check"].columns
    assert (views["near"].waits, views["verdict"].waits, views["grade"].waits) == ("its corpus", "its group", "")


def test_digests_cover_every_file_that_was_read() -> None:
    """Rows, lists of ids, gold, prompts, schemas and code each have their digest, a glob one for each file."""
    digests = full().inputs.digests
    for name in ("questions.jsonl", "chosen.txt", "library/notes.jsonl", "systems/two.tsv", "short.md", "vary.json"):
        assert len(digests[name]) == 64
    assert {"relevance/wide.qrels", "rows.py"} <= digests.keys()


def test_data_is_found_under_the_data_root(tmp_path: Path) -> None:
    """A file that does not lie beside the experiment is looked for under the data root; beside wins."""
    path = write_experiment(tmp_path, MINIMAL.replace("items.jsonl", "far/items.jsonl"))
    data = tmp_path / "data" / "far"
    data.mkdir(parents=True)
    (data / "items.jsonl").write_text(ITEMS)
    loaded = load_experiment(path, data_root=tmp_path / "data", environ={})
    assert list(loaded.inputs.tables["items"].ids) == ["i1", "i2"]
    assert any("JUDGERUN_DATA is not set" in problem for problem in refused(path))


def test_every_problem_of_every_file_comes_at_once(tmp_path: Path) -> None:
    """Problems of the experiment file, its prompts, its rows and its code are told together, each once."""
    toml = MINIMAL.replace('name = "small"', 'name = "other"').replace("temperature", "temprature")
    toml = toml.replace('prompts = ["ask"]', 'prompts = ["ask", "none"]') + '\n[gold.g]\npath = "g.tsv"\n'
    path = write_experiment(tmp_path, toml, {"ask.md": "{{ text", "items.jsonl": "{}\nno\n", "g.tsv": "a\tb\n"})
    told = refused(path)
    for word in (
        "'other' is not the folder's",
        "'temperature'",
        "none.md",
        "ask.md: line 1",
        "line 2: not JSON",
        "g.tsv",
    ):
        assert [problem for problem in told if word in problem], (word, told)
    assert len(told) == len(set(told))


def test_lines_are_named(tmp_path: Path) -> None:
    """A problem names the line on which its key stands."""
    path = write_experiment(tmp_path, MINIMAL.replace("low = 1", "low = 9"))
    line = next(n for n, text in enumerate(MINIMAL.split("\n"), start=1) if text.startswith("parse"))
    assert any(f"stage.rate.parse.high (line {line})" in problem for problem in refused(path))


LEXICAL = """
[[stage]]
name = "near"
kind = "retrieve"
method = "lexical"
from = "items"
query = "text"
candidate = "text"
vocabulary = ["Heat", "cool it", "wash"]
stopwords = ["wash", ""]
"""


def test_words_that_could_never_count_are_refused(tmp_path: Path) -> None:
    """A lexical stage names each word that no lower-cased text holds, and each that it both counts and leaves out."""
    told = refused(write_experiment(tmp_path, MINIMAL + LEXICAL))
    for word in (
        "'Heat' is not a word",
        "'cool it' is not a word",
        "'' is not a word",
        "'wash' stands in the vocabulary",
    ):
        assert any(word in problem for problem in told), (word, told)
    empty = refused(write_experiment(tmp_path, MINIMAL + LEXICAL.replace('["Heat", "cool it", "wash"]', "[]")))
    assert any("vocabulary" in problem and "the list is empty" in problem for problem in empty)


STAGE_TEXT = "[[stage]]" + STAGE

BAD: list[tuple[str, str, str, str]] = [
    # what is written, in the place of what, the key that is named, a word of the message
    ("seed = 7", 'seed = "7"', "seed", "integer"),
    ("seed = 7", "sede = 7", "sede", "did you mean 'seed'"),
    ('name = "small"', 'name = "a b"', "name", "cannot name an experiment"),
    ("[data.items]", "[data.for]", "data.for", "word of the expression language"),
    ("[data.items]", '[data."it-ems"]', 'data.it-ems', "stands in expressions"),
    ("[data.items]", "[data.value]", "data.value", "reserved"),
    ('path = "items.jsonl"', 'path = "item.jsonl"', "data.items.path", "there is no file"),
    ('path = "items.jsonl"', 'path = "*.parquet"', "data.items.path", "no file matches"),
    ('path = "items.jsonl"', "sample = 3", "data.items", "a path or a stage"),
    ('path = "items.jsonl"', 'stage = "other"', "data.items.stage", "names no stage"),
    ('path = "items.jsonl"', 'path = "items.jsonl"\nid = "key"', "data.items.path", "no field 'key'"),
    ('path = "items.jsonl"', 'path = "items.jsonl"\nblock = "blok"', "data.items.path", "'blok'"),
    ('path = "items.jsonl"', 'path = "items.jsonl"\ncolumns = { t = "txt" }', "data.items.columns.t", "'text'"),
    ('path = "items.jsonl"', 'path = "items.jsonl"\ncolumns = { reply = "text" }', "data.items", "field 'reply'"),
    ('path = "items.jsonl"', 'path = "items.jsonl"\nsample = 0', "data.items.sample", "greater than or equal to 1"),
    ('path = "items.jsonl"', 'path = "items.jsonl"\nonly = "none.txt"', "data.items.only", "there is no file"),
    ('path = "items.jsonl"', 'path = "items.jsonl"\nmodels = ["m"]', "data.items.models", "move it to the top"),
    ('dialect = "openai"', 'dialect = "opnai"', "providers.bench.dialect", "did you mean 'openai'"),
    ('dialect = "openai"', 'dialect = "antropic"', "providers.bench.dialect", "anthropic"),
    ('base_url = "http://127.0.0.1:8000/v1"', "", "providers.bench", "'base_url' is missing"),
    ("http://127.0.0.1:8000/v1", "http://me:secret@host/v1", "providers.bench.base_url", "credential"),
    ("http://127.0.0.1:8000/v1", "http://host/v1?api_key=secret", "providers.bench.base_url", "credential"),
    ("http://127.0.0.1:8000/v1", "http://host:port/v1", "providers.bench.base_url", "no address"),
    ('dialect = "openai"', 'dialect = "openai"\napi_key = "secret"', "providers.bench.api_key", "'api_key_env'"),
    ('dialect = "openai"', 'dialect = "openai"\napi_key_env = "sk-secret"', "providers.bench.api_key_env", "NAME"),
    ("http://127.0.0.1:8000/v1", "ftp://host", "providers.bench.base_url", "http(s)"),
    ("http://127.0.0.1:8000/v1", "http://${HOST}/v1", "providers.bench.base_url", "identity"),
    ('input = "0.10"', "input = 0.10", "providers.bench.price.input", '"0.10"'),
    ('input = "0.10"', "input = 1", "providers.bench.price.input", '"1.00"'),
    ('input = "0.10"', 'input = "ten"', "providers.bench.price.input", "not an amount"),
    ('input = "0.10"', 'input = "-1"', "providers.bench.price.input", "not an amount"),
    ('price = {', 'price_as = "openai/x"\nprice = {', "providers.bench.price_as", "both"),
    ('provider = "bench"', 'provider = "bentch"', "models.m.provider", "did you mean 'bench'"),
    ('provider = "bench"', 'provider = "gogle"', "models.m.provider", "google"),
    ('provider = "bench"', 'provider = "bench"\nlane = "bulk"', "models.m.lane", "batch"),
    ("temperature = 0", "temperature = 3", "models.m.temperature", "out of range"),
    ("temperature = 0", "temperature = true", "models.m.temperature", "not a number"),
    ('thinking = "off"', 'thinking = "deep"', "models.m.thinking", "medium"),
    ('thinking = "off"', "thinking = 0", "models.m.thinking", "above 0"),
    ('thinking = "off"', "extra = { max_tokens = 9 }", "models.m.extra.max_tokens", "max_output_tokens"),
    ('thinking = "off"', "extra = { n = 2 }", "models.m.extra.n", "draws"),
    ("[models.m]", '[models."m/1"]', 'models."m/1"', "cannot name a model"),
    ('name = "rate"', 'name = "items"', "stage.items", "a table has that name"),
    ('name = "rate"', 'name = "reply"', "stage.reply.name", "reserved"),
    ('kind = "judge"', 'kind = "jugde"', "stage.rate.kind", "did you mean 'judge'"),
    ('kind = "judge"', "", "stage.rate", "'kind' is missing"),
    ('from = "items"', 'from = "item"', "stage.rate.from", "did you mean 'items'"),
    ('from = "items"', "", "stage.rate", "'from' is missing"),
    ('from = "items"', 'from = "rate"', "stage.rate", "circle: rate -> rate"),
    ('models = ["m"]', 'models = ["n"]', "stage.rate.models", "no model 'n'"),
    ('models = ["m"]', "models = []", "stage.rate.models", "no model is named"),
    ('models = ["m"]', 'models = ["m", "m"]', "stage.rate.models", "twice"),
    ('models = ["m"]', 'model = "m"', "stage.rate.model", "did you mean 'models'"),
    ('prompts = ["ask"]', 'prompts = ["aks"]', "stage.rate.prompts", "aks.md"),
    ('kind = "score"', 'kind = "scor"', "stage.rate.parse.kind", "did you mean 'score'"),
    ('kind = "score", low = 1, high = 5', 'kind = "score"', "stage.rate.parse", "'low' is missing"),
    ('kind = "score", low = 1, high = 5', 'kind = "choice"', "stage.rate.parse", "low and high"),
    ('kind = "score", low = 1, high = 5', 'kind = "label", values = ["A"]', "stage.rate.parse.values", "two"),
    ('kind = "score", low = 1, high = 5', 'kind = "label", low = 1, values = ["A", "B"]', "stage.rate.parse.low", "unknown"),
    ('kind = "score", low = 1, high = 5', 'kind = "json", schema = "no.json"', "stage.rate.parse.schema", "no.json"),
    ("parse =", "draws = 0\nparse =", "stage.rate.draws", "greater"),
    ("parse =", 'orders = ["reversed"]\nparse =', "stage.rate.orders", "ranked candidates"),
    ("parse =", 'orders = ["ab"]\nparse =', "stage.rate.orders", "pairs"),
    ("parse =", 'orders = ["upside"]\nparse =', "stage.rate.orders", "no order"),
    ("parse =", 'admit = ["stopp"]\nparse =', "stage.rate.admit", "did you mean 'stop'"),
    ("parse =", 'missing = "txt"\nparse =', "stage.rate.missing", "did you mean 'text'"),
    ("parse =", "where = \"txt == 'a'\"\nparse =", "stage.rate.where", "did you mean 'text'"),
    ("parse =", 'where = "text =="\nparse =', "stage.rate.where", "no expression"),
    ("parse =", 'expect = "humans"\nparse =', "stage.rate.expect", "did you mean 'human'"),
    ("parse =", 'slices = ["tier"]\nparse =', "stage.rate.slices", "tier"),
    ("parse =", 'gold = "g"\nparse =', "stage.rate.gold", "no gold 'g'"),
    ("parse =", "gate = { truncate = 0.1 }\nparse =", "stage.rate.gate.truncate", "did you mean 'truncated'"),
    ("parse =", "gate = { truncated = 10 }\nparse =", "stage.rate.gate.truncated", "no share"),
    ("parse =", "gate = { after = 9 }\nparse =", "stage.rate.gate", "no limit"),
    ("parse =", "gate = { length = 0.2 }\nparse =", "stage.rate.gate.length", "output_tokens_expected"),
    ("parse =", "gate = { cost = 0.5 }\nparse =", "stage.rate.gate.cost", "below 1"),
    ("parse =", "gate = { difference = 15 }\nparse =", "stage.rate.gate.difference", "no share"),
    ("parse =", 'write = "a.txt"\nparse =', "stage.rate.write", "form"),
    ("parse =", 'write = "../a.csv"\nparse =', "stage.rate.write", "results"),
    ("parse =", 'write = "{tier}.csv"\nparse =', "stage.rate.write", "no coordinate"),
    ("parse =", 'with.x = { table = "item" }\nparse =', "stage.rate.with.x.table", "did you mean 'items'"),
    ("parse =", 'with.x = { table = "items", by = "keys" }\nparse =', "stage.rate.with.x.by", "keys"),
    ("parse =", 'with.text = { table = "items" }\nparse =', "stage.rate.with.text", "a field 'text'"),
    ("parse =", 'with.x = { table = "items", rank = 1 }\nparse =', "stage.rate.with.x.rank", "ranks nothing"),
    ("parse =", 'lineage = "other"\nparse =', "stage.rate.lineage", "later"),
    ("parse =", 'lineage = "other"\npanel = 2\nparse =', "stage.rate.panel", "later"),
    ("parse =", 'rounds = { max = 3, as = "seen" }\nparse =', "stage.rate.rounds", "later"),
    ("parse =", "rounds = { mx = 3 }\nparse =", "stage.rate.rounds.mx", "did you mean 'max'"),
    ("parse =", "canaries = 0.02\nparse =", "stage.rate.canaries", "from = a chat stage"),
    ("parse =", "canaries = { rat = 0.02 }\nparse =", "stage.rate.canaries.rat", "did you mean 'rate'"),
    ("parse =", "canaries = 2\nparse =", "stage.rate.canaries", "no share"),
    ("seed = 7", 'seed = 7\nsets = ["one"]', "sets", "later"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "word"), BAD, ids=[f"{bad[2]}-{bad[3]}" for bad in BAD])
def test_a_wrong_key_is_named_with_what_is_right(tmp_path: Path, old: str, new: str, place: str, word: str) -> None:
    """Each fault names file, key and what is wrong or right, and no other key is accused."""
    assert old in MINIMAL
    path = write_experiment(tmp_path, MINIMAL.replace(old, new, 1))
    told = refused(path)
    assert [text for text in told if f": {place}" in text and word in text], told
    assert all(text.startswith(str(path)) for text in told)
    assert "secret" not in "".join(told)


def test_a_gate_has_shares_a_factor_and_a_difference(tmp_path: Path) -> None:
    """All limits together; a length may be expected by the pattern of an arm alone."""
    gate = "gate = { truncated = 0.1, length = 0.2, cost = 2, difference = 0.15, after = 30 }"
    expects = '[stage.at."m/ask"]\noutput_tokens_expected = 40\n'
    path = write_experiment(tmp_path, MINIMAL.replace("parse =", f"{gate}\nparse =", 1) + expects)
    (stage,) = load(path).experiment.stages
    assert isinstance(stage, Chat)
    limits = {"truncated": 0.1, "length": 0.2}
    assert stage.arms[0].settings.gate == Gate(limits=limits, cost=2.0, difference=0.15, after=30)


FOLD = '[[stage]]\nname = "f"\nkind = "fold"\nfrom = "rate"\n'
PAIR = '[[stage]]\nname = "p"\nkind = "pair"\nfrom = "rate"\nby = "id"\n'
BURST = '[[stage]]\nname = "e"\nkind = "explode"\nfrom = "rate"\n'
CALL = '[[stage]]\nname = "l"\nkind = "map"\nfrom = "rate"\n'
WORDS = '[[stage]]\nname = "r"\nkind = "retrieve"\nmethod = "bm25"\n'
RANK = '[[stage]]\nname = "r"\nkind = "retrieve"\n'
ASK = '[[question]]\nname = "q"\nfrom = "rate"\nvalue = "value"\n'

ADDED: list[tuple[str, str, str]] = [
    ('[stage.at."m/aks"]\ndraws = 2', 'stage.rate.at."m/aks"', "matches no arm"),
    ('[stage.at."m/*"]\nskip = true', "stage.rate.at", "every arm is skipped"),
    ('[stage.at."m/*"]\nprompts = ["ask"]', 'stage.rate.at."m/*".prompts', "move it above"),
    ('[stage.at."m/*"]\ntemprature = 1', 'stage.rate.at."m/*".temprature', "did you mean 'temperature'"),
    ("[stage.at]\ndraws = 2", "stage.rate.at.draws", "directly below"),
    ('[stage.at."round=1"]\ndraws = 2', 'stage.rate.at."round=1"', "later"),
    ("[stage.variant.x]\ndraws = 2", "stage.rate.variant.x.draws", "move it above"),
    ('[stage.variant.x]\nwith.y = { table = "nil" }', "stage.rate.variant.x.with.y.table", "no table 'nil'"),
    ('[stage.with.y]\ntable = "items"\nsample = 2', "stage.rate.with.y.sample", "move it above"),
    ('[[stage]]\nname = "rate"\nkind = "fold"\nfrom = "items"\nover = "rows"\nrule = "all"', "stage.rate", "has that name"),
    (FOLD + 'over = "drew"\nrule = "all"', "stage.f.over", "'draw'"),
    (FOLD + 'over = "rows"\nrule = "all"', "stage.f.over", "explode"),
    (FOLD + 'over = "draw"\nrule = "mode"', "stage.f.rule", "'mode'"),
    (FOLD + 'over = "draw"\nrule = "mean"\nvalue = "agree"', "stage.f.value", "did you mean 'agrees'"),
    (FOLD + 'over = "draw"\nrule = "mean"\notherwise = 1', "stage.f.otherwise", "otherwise"),
    (PAIR + 'of = "system"', "stage.p.of", "no coordinate"),
    (PAIR + 'of = "model"', "stage.p.of", "nothing to pair"),
    (BURST + 'rows = []', "stage.e.rows", "no kind of row"),
    (BURST + '[[stage.rows]]\neach = "x"', "stage.e.from", "no JSON"),
    (CALL + 'call = "rows"', "stage.l.call", "names no function"),
    (CALL + 'call = "nowhere:f"', "stage.l.call", "no module"),
    (RANK + 'method = "dens"\nfrom = "rate"', "stage.r.method", "did you mean 'dense'"),
    (RANK + 'method = "dense"\nfrom = "rate"', "stage.r.from", "makes no vectors"),
    (RANK + 'method = "rrf"\nfuse = ["rate", "items"]', "stage.r.fuse", "ranks nothing"),
    (WORDS + 'queries = "items.txt"\ncorpus = "items.text"', "stage.r.queries", "did you mean 'text'"),
    (WORDS + 'queries = "item.text"\ncorpus = "items.text"', "stage.r.queries", "did you mean 'items'"),
    (WORDS + 'queries = "items.text"\ncorpus = "items.text"\nk = 5\nmetrics = ["hit@10"]', "stage.r.metrics", "k = 10"),
    ('[[stage]]\nname = "v"\nkind = "embed"\nmodels = ["m"]', "stage.v", "nothing to embed"),
    ('[[question]]\nname = "q"\nfrom = "rat"\nvalue = "value"', "question.q.from", "did you mean 'rate'"),
    ('[[question]]\nname = "q"\nfrom = "rate"\nvalue = "valu"', "question.q.value", "did you mean 'value'"),
    (ASK + 'test = "mcnemar"', "question.q.test", "nothing is compared"),
    (ASK + 'compare = { model = ["m"] }', "question.q.compare.model", "two values"),
    (ASK + 'compare = { model = ["m", "n"] }', "question.q.compare", "no value 'n'"),
    (ASK + 'compare = { tier = ["m", "n"] }', "question.q.compare.tier", "no coordinate"),
    (ASK + 'unconcluded = "miss"', "question.q.unconcluded", "'miss'"),
    ("[gold.g]\npath = 'items.jsonl'", "gold.g.path", "qid or docid"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "word"), ADDED, ids=[f"{added[1]}-{added[2]}" for added in ADDED])
def test_a_wrong_table_is_named_with_what_is_right(tmp_path: Path, text: str, place: str, word: str) -> None:
    """Each added table or stage that is wrong is told by its name and key."""
    path = write_experiment(tmp_path, f"{MINIMAL}\n{text}\n")
    told = refused(path)
    assert [problem for problem in told if f": {place}" in problem and word in problem], told


def test_toml_faults_name_their_line(tmp_path: Path) -> None:
    """A file that is no TOML is refused with the line."""
    told = refused(write_experiment(tmp_path, 'name = "small"\nseed = = 7\n'))
    assert "line 2" in told[0]
    assert "not TOML" in told[0]


def test_an_ambiguous_join_is_refused(tmp_path: Path) -> None:
    """A join on a table with two conditions that the row does not share is refused, and names both."""
    second = MINIMAL.replace("[models.m]", "[models.n]").split("[models.n]")[1].split("[[stage]]")[0]
    toml = MINIMAL.replace("[[stage]]", f"[models.n]{second}\n[[stage]]", 1)
    toml += """
[[stage]]
name = "solve"
kind = "solve"
from = "items"
models = ["m", "n"]
prompts = ["ask"]
[[stage]]
name = "grade"
kind = "grade"
from = "rate"
models = ["m"]
prompts = ["ask"]
with.answer = { table = "solve" }
"""
    told = refused(write_experiment(tmp_path, toml))
    assert any("stage.grade.with.answer" in text and "ambiguous" in text and "solve/n/ask" in text for text in told), (
        told
    )


def test_a_name_that_a_prompt_uses_must_be_there(tmp_path: Path) -> None:
    """A prompt that names a field which no row has is told with the nearest one; what it asks for with `default` may lack."""
    path = write_experiment(tmp_path, MINIMAL, {"ask.md": "{{ txt }} {{ hint | default('') }}"})
    (told,) = refused(path)
    assert "ask.md names 'txt'" in told
    assert "did you mean 'text'" in told


def test_attributes_of_stages_and_joins_are_checked(tmp_path: Path) -> None:
    """`solve.finsh` and a joined row's unknown field are found before anything is sent."""
    toml = (
        MINIMAL
        + """
[[stage]]
name = "again"
kind = "grade"
from = "rate"
models = ["m"]
prompts = ["again"]
with.other = { table = "items" }
"""
    )
    told = refused(write_experiment(tmp_path, toml, {"again.md": "{{ rate.finsh }} {{ other.txt }} {{ other.text }}"}))
    assert len(told) == 2
    assert any("rate.finsh" in text and "did you mean 'finish'" in text for text in told)
    assert any("other.txt" in text and "did you mean 'text'" in text for text in told)


def test_short_caps_and_unbounded_replies_are_warned_of(tmp_path: Path) -> None:
    """Thinking left to the provider under a small cap, and a model without a cap, are warnings and no problems."""
    short = load(write_experiment(tmp_path / "a", MINIMAL.replace('thinking = "off"', "").replace("300", "16")))
    assert any("16 tokens" in str(warning) for warning in short.warnings)
    unbounded = load(write_experiment(tmp_path / "b", MINIMAL.replace("max_output_tokens = 300", "")))
    assert any("nothing bounds a reply" in str(warning) for warning in unbounded.warnings)


def test_built_in_providers_need_no_table(tmp_path: Path) -> None:
    """A built-in provider is named alone; its key is the name of a variable, never a value."""
    for name, env in (
        ("openai", "OPENAI_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
    ):
        path = write_experiment(tmp_path / name, MINIMAL.replace('provider = "bench"', f'provider = "{name}"'))
        deployment = load(path).experiment.models[0].provider
        assert deployment.builtin
        assert deployment.api_key_env == env
        assert deployment.base_url.startswith("https://")


def test_a_choice_over_candidates_needs_no_range() -> None:
    """A choice on ranked rows has its range from the candidates."""
    stage = full().experiment.stage("pick")
    assert isinstance(stage, Chat)
    assert stage.arms[0].settings.parse.low is None
