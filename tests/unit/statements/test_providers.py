"""Importers of providers' exports: synthetic files of the real shapes, read to the lines that they mean."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from judgerun.errors import Refused
from judgerun.files.statements.google import model_of
from judgerun.files.statements.read import read
from judgerun.ledger.statement import Charge, Line, Statement
from judgerun.model.reply import Usage

DAY = 86_400


def at(text: str) -> datetime:
    """A moment, UTC where it says no other."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def given(folder: Path, **texts: str | Any) -> Statement:
    """The statement in files of these names (`__` for the dot) and contents."""
    paths = []
    for name, text in texts.items():
        path = folder / name.replace("__", ".")
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        paths.append(path)
    return read(paths)


def essence(line: Line) -> tuple[Any, ...]:
    return (line.model, line.amount, line.requests, line.kind)


def page(results: list[dict[str, Any]], start: int = 1_796_083_200) -> dict[str, Any]:
    bucket = {"object": "bucket", "start_time": start, "end_time": start + DAY, "results": results}
    return {"object": "page", "data": [bucket], "has_more": False, "next_page": None}


USAGE = {
    "object": "organization.usage.completions.result", "input_tokens": 1000, "output_tokens": 500, "input_cached_tokens": 800,
    "num_model_requests": 5, "project_id": None, "user_id": None, "api_key_id": "key_1", "model": "gpt-4o-mini-2024-07-18",
    "batch": False,
}  # fmt: skip
COSTS = {
    "object": "organization.costs.result", "amount": {"value": 0.06, "currency": "usd"},
    "line_item": "gpt-4o-mini-2024-07-18, cached input", "project_id": None,
}  # fmt: skip


def test_openai_usage_and_costs_are_one_statement(tmp_path: Path) -> None:
    """Usage tells tokens (cached ones inside the input) and requests, costs tell money by item; both by UTC day."""
    found = given(
        tmp_path,
        usage__json=[page([USAGE, USAGE | {"batch": True}]), page([])],
        costs__json=page([COSTS, COSTS | {"line_item": "web search tool calls"}, COSTS | {"line_item": None}]),
    )
    assert [file.format for file in found.files] == ["openai-usage", "openai-costs"]
    assert [essence(line) for line in found.lines] == [
        ("gpt-4o-mini-2024-07-18", None, 5, Charge.TOKENS),
        ("gpt-4o-mini-2024-07-18", None, 5, Charge.BATCH),
        ("gpt-4o-mini-2024-07-18", Decimal("0.06"), None, Charge.CACHE),
        (None, Decimal("0.06"), None, Charge.OTHER),
        (None, Decimal("0.06"), None, Charge.TOKENS),
    ]
    assert found.lines[0].usage == Usage(input_fresh=200, cache_read=800, output_visible=500)
    assert {(line.start, line.end) for line in found.lines} == {(at("2026-12-01"), at("2026-12-02"))}
    assert found.lines[0].place == "usage.json: page 1 data[0].results[0]"


def test_the_openai_dashboard_csv_is_read_with_its_empty_buckets(tmp_path: Path) -> None:
    """Rows without an amount are buckets in which nothing happened; the item carries the model behind a lane's word."""
    head = (
        "start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,quantity,quantity_unit,line_item,user_id,"
        "api_key_id,project_id,organization_id,project_name,organization_name,user_email,api_source\n"
    )
    rows = (
        "1796083200,1796169600,2026-12-01T00:00:00+00:00,2026-12-02T00:00:00+00:00,,,,,,,,,,,,,\n"
        "1796083200,1796169600,2026-12-01T00:00:00,2026-12-02T00:00:00,0.003835980000000000000,usd,1000,tokens,"
        '"batch | gpt-5-nano, input_tokens",,key_1,proj_a,org-a,A,Org,,\n'
    )
    (line,) = given(tmp_path, cost__csv=head + rows).lines
    assert essence(line) == ("gpt-5-nano", Decimal("0.003835980000000000000"), None, Charge.BATCH)
    assert (line.usage, line.key) == (Usage(input_fresh=1000), "key_1")


def test_anthropic_reports_tell_cents_and_disjoint_tokens(tmp_path: Path) -> None:
    """The amount of a cost report is in cents; the usage report has cache writes by their time to live."""
    usage = {
        "uncached_input_tokens": 10, "cache_creation": {"ephemeral_1h_input_tokens": 4, "ephemeral_5m_input_tokens": 3},
        "cache_read_input_tokens": 2, "output_tokens": 5, "server_tool_use": {"web_search_requests": 0}, "api_key_id": "apikey_1",
        "workspace_id": None, "model": "claude-sonnet-4-5-20250929", "service_tier": "standard", "context_window": "0-200k",
    }  # fmt: skip
    cost = {
        "currency": "USD", "amount": "123.45", "workspace_id": None, "description": "Claude Sonnet 4.5 Usage - Input Tokens",
        "cost_type": "tokens", "context_window": "0-200k", "model": "claude-sonnet-4-5-20250929", "service_tier": "batch",
        "token_type": "uncached_input_tokens",
    }  # fmt: skip
    search = cost | {"cost_type": "web_search", "model": None, "service_tier": None, "token_type": None}

    def reports(*results: dict[str, Any]) -> dict[str, Any]:
        times = {"starting_at": "2026-12-01T00:00:00Z", "ending_at": "2026-12-02T00:00:00Z"}
        return {"data": [{**times, "results": list(results)}], "has_more": False, "next_page": None}

    found = given(tmp_path, usage__json=reports(usage), cost__json=reports(cost, search))
    assert found.lines[0].usage == Usage(
        input_fresh=10, cache_read=2, cache_write=3, cache_write_1h=4, output_visible=5
    )
    assert [essence(line) for line in found.lines[1:]] == [
        ("claude-sonnet-4-5-20250929", Decimal("1.2345"), None, Charge.BATCH),
        (None, Decimal("1.2345"), None, Charge.OTHER),
    ]
    assert found.lines[0].start == at("2026-12-01")


def test_the_anthropic_console_files_are_read_by_day_and_hour(tmp_path: Path) -> None:
    """Tokens by the day or by the hour, money by model and kind of token, to as many places as the file has."""
    tokens = (
        "usage_date_utc,model_version,api_key,workspace,usage_type,context_window,usage_input_tokens_no_cache,"
        "usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,"
        "web_search_count,inference_geo,speed\n"
        "2026-03-31 02:00,claude-haiku-4-5-20251001,mine,Default,standard,≤ 200k,1124832,0,0,0,254558,0,not_available,\n"
        "2026-04-01,claude-haiku-4-5-20251001,mine,Default,batch,≤ 200k,5,1,2,3,4,0,not_available,\n"
    )
    costs = (
        "usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,list_price_usd,cost_type,"
        "inference_geo,speed\n"
        "2026-04-01,Claude Haiku 4.5,Default,mine,message,≤ 200k,input_no_cache,1.5,1.50,token,global,\n"
        "2026-04-01,Claude Haiku 4.5,Default,mine,message,≤ 200k,input_cache_read,0.25,0.25,token,global,\n"
    )
    found = given(tmp_path, tokens__csv=tokens, costs__csv=costs)
    hour, day, fresh, cached = found.lines
    assert (hour.start, hour.end) == (at("2026-03-31T02:00"), at("2026-03-31T03:00"))
    assert (day.end - day.start, day.kind) == (timedelta(days=1), Charge.BATCH)
    assert day.usage == Usage(input_fresh=5, cache_write=1, cache_write_1h=2, cache_read=3, output_visible=4)
    assert [fresh.kind, cached.kind] == [Charge.TOKENS, Charge.CACHE]
    assert found.files[1].unit == Decimal("0.01")


CONSOLE = (
    "Billing account name,Billing account ID,Project name,Project ID,Project hierarchy,Service description,Service ID,"
    "SKU description,SKU ID,Consumption model description,Credit type,Cost type,Usage start date,Usage end date,Usage amount,"
    "Usage unit,Unrounded Cost ($),Cost ($)\n"
)


def test_the_google_cost_table_has_a_preamble_and_pacific_days(tmp_path: Path) -> None:
    """The head stands below name-value lines, which name the currency; other services and sums are left out; days are Pacific."""
    text = (
        "Invoice number,123,\nBilling account ID,0A-0B,\nCurrency,EUR,\nTotal amount due,$5.72,\n"
        + CONSOLE
        + "a,b,p,q,h,Gemini API,X,Generate content output token count gemini 2.5 flash short input text,Y,Default,,Usage,"
        '2026-07-01,2026-07-01,"622,403",count,1.555990,1.56\n'
        "a,b,p,q,h,Cloud Storage,X,Standard,Y,Default,,Usage,2026-07-01,2026-07-01,10,gibibyte,40.00,40.00\n"
        "Total,,,,,,,,,,,,,,,,41.55,41.56\n"
    )
    (line,) = given(tmp_path, table__csv=text).lines
    assert (line.model, line.amount, line.currency) == ("gemini-2.5-flash", Decimal("1.555990"), "EUR")
    assert line.usage == Usage(output_visible=622_403)
    pacific = ZoneInfo("America/Los_Angeles")
    assert line.start == datetime(2026, 7, 1, tzinfo=pacific)
    assert line.end == datetime(2026, 7, 2, tzinfo=pacific)


def test_google_reports_and_the_detailed_export_are_read(tmp_path: Path) -> None:
    """Reports have a `Date`, the detailed export moments and credits, which are taken off; `batch` is a lane."""
    reports = (
        "Date,Service description,Service ID,SKU description,SKU ID,Usage amount,Usage unit,List cost ($),Negotiated savings ($),"
        "Savings programs ($),Other savings ($),Unrounded subtotal ($),Subtotal ($)\n"
        '2026-11-01,Gemini API,X,Generate_content text output token count for gemini 3 flash batch,Y,"260,580",count,7.82,0,0,0,'
        "7.817400,7.82\n"
    )
    (line,) = given(tmp_path, reports__csv=reports).lines
    assert essence(line) == ("gemini-3-flash", Decimal("7.817400"), None, Charge.BATCH)
    assert line.end - line.start == timedelta(hours=25)  # the day on which the clocks go back
    detailed = (
        "service.description,service.id,sku.id,sku.description,usage_start_time,usage_end_time,cost,currency,usage.amount,"
        "usage.unit,credits,invoice.month,cost_type\n"
        "Gemini API,X,Y,Generate content cached input token count gemini 2.5 pro,2026-11-02 08:00:00 UTC,2026-11-02 09:00:00 UTC,"
        '10.00,USD,4,count,"[{""name"": ""promo"", ""amount"": -2.5}]",202611,regular\n'
    )
    (line,) = given(tmp_path, detailed__csv=detailed).lines
    assert essence(line) == ("gemini-2.5-pro", Decimal("7.50"), None, Charge.CACHE)
    assert (line.start, line.end) == (at("2026-11-02T08:00"), at("2026-11-02T09:00"))


@pytest.mark.parametrize(
    ("sku", "model"),
    [
        ("Generate content input token count gemini 3.5 flash lite text", "gemini-3.5-flash-lite"),
        ("EmbedContent input token count for gemini-embedding-001", "gemini-embedding-001"),
        ("Generate content output token count Gemini 2.5 Pro short output text", "gemini-2.5-pro"),
        ("Grounding with Google Search", None),
    ],
)
def test_a_sku_names_its_model_in_words(sku: str, model: str | None) -> None:
    """The words behind `gemini` that are versions and sizes."""
    assert model_of(sku) == model


def test_openrouter_calls_are_read_from_the_log_and_from_generations(tmp_path: Path) -> None:
    """Both are single calls with their id; native tokens count, and the reasoning is inside the completion."""
    log = (
        "generation_id,created_at,cost_total,cost_web_search,cost_cache,cost_file_processing,byok_usage_inference,tokens_prompt,"
        "tokens_completion,tokens_reasoning,tokens_cached,model_permaslug,provider_name,variant,cancelled,streamed,user,"
        "finish_reason_raw,finish_reason_normalized,generation_time_ms,time_to_first_token_ms,api_key_disabled,api_key_name,"
        "app_name\n"
        "gen-1,2026-06-28 03:46:57.713,0.0123,0,0,0,0,10389,137,100,9000,openai/gpt-oss-120b,Groq,,false,true,,stop,stop,900,80,"
        "false,mine,x\n"
    )
    (line,) = given(tmp_path, log__csv=log).lines
    assert (line.call, line.key, line.single) == ("gen-1", "mine", True)
    assert line.start == line.end == at("2026-06-28T03:46:57.713")
    assert line.usage == Usage(input_fresh=1389, cache_read=9000, output_visible=37, reasoning=100)
    one = {
        "id": "gen-2", "created_at": "2026-07-15T23:33:19.433273+00:00", "model": "sao10k/l3-stheno-8b", "total_cost": 0.0015,
        "cache_discount": 0.0002, "tokens_prompt": 10, "tokens_completion": 25, "native_tokens_prompt": 12,
        "native_tokens_completion": 30, "native_tokens_reasoning": 5, "native_tokens_cached": 2, "provider_name": "Infermatic",
    }  # fmt: skip
    (line,) = given(tmp_path, one__json={"data": one}).lines
    assert (line.call, line.amount) == ("gen-2", Decimal("0.0015"))
    assert line.usage == Usage(input_fresh=10, cache_read=2, output_visible=25, reasoning=5)
    several = "".join(json.dumps({"data": one | {"id": f"gen-{n}"}}) + "\n" for n in range(3))
    assert [line.call for line in given(tmp_path, many__jsonl=several).lines] == ["gen-0", "gen-1", "gen-2"]


def test_openrouter_days_are_read_from_api_and_csv(tmp_path: Path) -> None:
    """Activity by day, without what was spent on one's own key."""
    day = {
        "date": "2026-08-24", "model": "openai/gpt-4.1", "model_permaslug": "openai/gpt-4.1-2025-04-14", "endpoint_id": "e",
        "provider_name": "OpenAI", "usage": 0.015, "byok_usage_inference": 0.012, "requests": 5, "prompt_tokens": 50,
        "completion_tokens": 125, "reasoning_tokens": 25,
    }  # fmt: skip
    text = (
        "Date,Slug,Usage,BYOK Usage,Requests,Prompt Tokens,Completion Tokens,Reasoning Tokens\n"
        '"2026-08-24 00:00:00","openai/gpt-4.1-2025-04-14","0.015","0.012","5","50","125","25"\n'
    )
    (api,) = given(tmp_path, activity__json={"data": [day]}).lines
    (sheet,) = given(tmp_path, activity__csv=text).lines
    assert essence(api) == essence(sheet) == ("openai/gpt-4.1-2025-04-14", Decimal("0.015"), 5, Charge.TOKENS)
    assert (api.start, api.end, api.usage) == (sheet.start, sheet.end, sheet.usage)


def test_deepseek_has_two_files_and_two_ways_to_date_them(tmp_path: Path) -> None:
    """Older files name a UTC day, also as 20310105; newer ones have an offset, which beats any time zone."""
    amount = (
        "user_id,utc_date,model,api_key_name,api_key,type,price,amount\n"
        "u,20310105,deepseek-chat,mine,sk-m***d,input_cache_miss_tokens,0.000002,1000\n"
        "u,20310105,deepseek-chat,mine,sk-m***d,input_cache_hit_tokens,0.0000002,300\n"
        "u,20310105,deepseek-chat,mine,sk-m***d,output_tokens,0.000003,500\n"
        "u,20310105,deepseek-chat,mine,sk-m***d,request_count,,10\n"
    )
    cost = (
        "user_id,start_time_iso,end_time_iso,model,wallet_type,cost,currency\n"
        "u,2031-01-05T00:00:00+08:00,2031-01-06T00:00:00+08:00,deepseek-chat,Paid,0.0035000000000000,CNY\n"
    )
    found = given(tmp_path, amount__csv=amount, cost__csv=cost)
    fresh, hit, out, count, money = found.lines
    assert [fresh.usage, hit.usage] == [Usage(input_fresh=1000), Usage(cache_read=300)]
    assert (out.usage, count.requests, count.usage) == (Usage(output_visible=500), 10, Usage())
    assert fresh.start == at("2031-01-05")
    assert (money.start, money.currency, money.amount) == (at("2031-01-05T00:00+08:00"), "CNY", Decimal("0.0035"))
    assert found.files[1].unit == Decimal("0.0001")


def test_deepinfra_tells_units_of_several_kinds(tmp_path: Path) -> None:
    """Tokens by kind; time of a machine is another charge."""
    text = (
        "date,model,pricing_type,units,rate,cost\n"
        "2026-11-30,zai-org/GLM-4.6,input_tokens,1000000,0.5,0.50\n"
        "2026-11-30,zai-org/GLM-4.6,time,90,0.01,0.90\n"
    )
    first, second = given(tmp_path, infra__csv=text).lines
    assert (first.usage, first.amount) == (Usage(input_fresh=1_000_000), Decimal("0.50"))
    assert (second.kind, second.usage) == (Charge.OTHER, Usage())


def test_no_key_is_repeated_from_a_bad_line(tmp_path: Path) -> None:
    """What is wrong with a line is told without the cells that may hold a key."""
    text = (
        "user_id,utc_date,model,api_key_name,api_key,type,price,amount\n"
        "u,2031-01-05,m,mine,KEY-VALUE,output_tokens,1,minus\n"
    )
    with pytest.raises(Refused) as refused:
        given(tmp_path, amount__csv=text)
    assert "KEY-VALUE" not in str(refused.value)
    assert "amount is 'minus', no number" in str(refused.value)
