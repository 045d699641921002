-- Every query that runs on a call, or on opening, by name. `?` in the order of the columns named.

-- begin: take the write lock at once, so that what is read inside is what is decided on
begin immediate;

-- data_version: changes when another connection has committed
pragma data_version;

-- accounts: every account of a budget with its balances
select id, budget, experiment, stage, condition, provider, day,
       settled_nanos, settled_calls, settled_tokens, settled_gpu_ms,
       forfeited_nanos, forfeited_calls, forfeited_tokens, forfeited_gpu_ms,
       held_nanos, held_calls, held_tokens, held_gpu_ms
from account where budget = ?;

-- new_account: a leaf that nothing was spent on yet
insert into account (budget, experiment, stage, condition, provider, day) values (?, ?, ?, ?, ?, ?);

-- book: add to the balances of an account
update account set
  settled_nanos = settled_nanos + ?, settled_calls = settled_calls + ?,
  settled_tokens = settled_tokens + ?, settled_gpu_ms = settled_gpu_ms + ?,
  forfeited_nanos = forfeited_nanos + ?, forfeited_calls = forfeited_calls + ?,
  forfeited_tokens = forfeited_tokens + ?, forfeited_gpu_ms = forfeited_gpu_ms + ?,
  held_nanos = held_nanos + ?, held_calls = held_calls + ?,
  held_tokens = held_tokens + ?, held_gpu_ms = held_gpu_ms + ?,
  tries = tries + ?
where id = ?;

-- frozen: the last freeze or unfreeze of a budget
select kind, detail from event
where subject = ? and kind in ('freeze', 'unfreeze') order by id desc limit 1;

-- state_of: a request's id, whether it has a reply, and its open attempt
select r.id, p.request is not null, c.attempt
from request r
left join reply p on p.request = r.id
left join carried c on c.request = r.id and c.open = 1
where r.key = ?;

-- new_request: a request seen for the first time
insert into request (key, kind, deployment, adapter, draw, body) values (?, ?, ?, ?, ?, ?);

-- new_attempt: an open attempt with what it needs
insert into attempt (owner, account, model, requests, need_nanos, need_calls, need_tokens, need_gpu_ms,
                     tokens_expected, bound_by, at, job, open, sent)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1);

-- carry: an open attempt carries a request
insert into carried (request, attempt, open) values (?, ?, 1);

-- new_entry: one line of the ledger
insert into entry (attempt, kind, nanos, calls, tokens, gpu_ms, at, document) values (?, ?, ?, ?, ?, ?, ?, ?);

-- open_attempt: account, hold, leaf and rate key of an open attempt
select a.account, a.need_nanos, a.need_calls, a.need_tokens, a.need_gpu_ms,
       c.budget, c.experiment, c.stage, c.condition, c.provider, c.day
from attempt a join account c on c.id = a.account
where a.id = ? and a.open = 1;

-- carried_open: the requests that an open attempt carries
select r.key, r.id from carried c join request r on r.id = c.request where c.open = 1 and c.attempt = ?;

-- close_attempt: how an open attempt ended
update attempt set open = 0, closed_at = ?, sent = ?, tokens_actual = ?, status = ?, cause = ?, billable = ?, detail = ?,
                   served_by = ?, latency_ms = ?, raw = ?
where id = ? and open = 1;

-- release: a request is no longer carried by an open attempt
update carried set open = 0 where request = ? and attempt = ?;

-- new_reply: an answer
insert into reply (request, attempt, at, finish, finish_raw, input_fresh, cache_read, cache_write, output_visible,
                   reasoning, cost, reported_cost, input_cut, served_model, fingerprint, raw_digest, text, raw,
                   cache_write_1h, reported_tokens, thoughts)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- new_vector: the vector of an embedding
insert into vector (request, dim, data) values (?, ?, ?);

-- find_request: the id of a key
select id from request where key = ?;

-- lose: a request was given up
insert into lost (request, reason, at) values (?, ?, ?)
on conflict (request) do update set reason = excluded.reason, at = excluded.at;

-- new_event: something happened
insert into event (at, kind, subject, detail, experiment) values (?, ?, ?, ?, ?);

-- settings_of: what was set in the place of what a file says
select id, subject, detail from event indexed by event_set where kind = 'set' and subject = ? order by id;

-- settings: the same of all budgets and lanes, up to a moment
select id, subject, detail from event where kind = 'set' and at <= ? order by id;

-- last_event: the number of the newest event
select coalesce(max(id), 0) from event;

-- provider_known: whether calls were reserved at a provider
select 1 from account where provider = ? limit 1;

-- events_after: what happened since an event
select id, at, kind, subject, detail, experiment from event where id > ? order by id;

-- booked: closings and adjusts of an attempt, oldest first
select kind, nanos, calls, tokens, gpu_ms from entry where attempt = ? and kind in ('settle', 'void', 'forfeit')
union all
select kind, nanos, calls, tokens, gpu_ms from
  (select kind, nanos, calls, tokens, gpu_ms from entry where attempt = ? and kind = 'adjust' order by id);

-- attempt_leaf: account, hold and leaf of any attempt
select a.account, a.need_nanos, a.need_calls, a.need_tokens, a.need_gpu_ms,
       c.budget, c.experiment, c.stage, c.condition, c.provider, c.day
from attempt a join account c on c.id = a.account
where a.id = ?;

-- recent_attempts: attempts above an id, newest first, as rate windows see them: those of jobs have limits of their own
select a.id, c.provider, a.model, a.at, a.open, a.sent, coalesce(a.tokens_actual, a.tokens_expected)
from attempt a join account c on c.id = a.account
where a.id > ? and a.job is null order by a.id desc;

-- ended_attempt: how an attempt that was open counts in rate windows now
select open, sent, coalesce(tokens_actual, tokens_expected) from attempt where id = ?;

-- new_owner: a process begins
insert into owner (pid, experiment, budget, started) values (?, ?, ?, ?);

-- close_owner: a process has ended
update owner set closed = ? where id = ? and closed is null;

-- open_owners: processes that have not ended, dead ones included
select id, pid, experiment, budget, started from owner where closed is null order by id;

-- owner_attempts: what an owner has open beside jobs
select id from attempt where owner = ? and open = 1 and job is null order by id;

-- new_job: a job that is being filled
insert into job (owner, provider, deployment, model, token, state, at) values (?, ?, ?, ?, ?, 'filling', ?);

-- job_named: id, state and owner of the job of a token
select id, state, owner from job where token = ?;

-- job_state: state of a job
select state from job where id = ?;

-- move_job: a job goes on
update job set state = ?, remote = coalesce(?, remote), submitted = coalesce(submitted, ?), ended = ?,
               detail = coalesce(?, detail)
where id = ?;

-- job_attempts: open attempts of a job
select id from attempt where job = ? and open = 1 order by id;

-- lines: open attempts of a job as they were reserved
select a.id, r.key, c.stage, c.condition, a.need_nanos, a.need_calls, a.need_tokens, a.need_gpu_ms, a.tokens_expected, a.bound_by
from attempt a join account c on c.id = a.account join carried k on k.attempt = a.id and k.open = 1
join request r on r.id = k.request
where a.job = ? and a.open = 1 order by a.id;

-- filling_jobs: jobs of an owner of which nothing was sent
select id from job where owner = ? and state = 'filling';

-- left_jobs: jobs of an experiment that a process which has ended left standing
select j.id, j.provider, j.deployment, j.model, j.token, j.state, j.remote, j.at
from job j indexed by job_open join owner o on o.id = j.owner
where j.state <> 'ended' and o.closed is not null and o.experiment = ? order by j.id;

-- remotes: the provider's ids of its jobs under other tokens
select remote from job where provider = ? and token <> ? and remote is not null;

-- adopt_job: a job has a new owner
update job set owner = ? where id = ?;

-- stranded: the experiment, provider and number of the job that holds a key while no process collects it
select o.experiment, j.provider, j.id
from request r join carried k on k.request = r.id and k.open = 1 join attempt a on a.id = k.attempt
join job j on j.id = a.job join owner o on o.id = j.owner
where r.key = ? and o.closed is not null;

-- holds: open attempts of the cache, and how many of them are in jobs that no process collects, with one of these jobs
select count(*), coalesce(sum(o.closed is not null), 0), max(o.experiment), max(j.provider)
from attempt a indexed by attempt_open left join job j on j.id = a.job left join owner o on o.id = j.owner
where a.open = 1;

-- enqueued: tokens in the open jobs of a provider, or of one model of it
select coalesce(sum(a.tokens_expected), 0)
from job j indexed by job_open join attempt a on a.job = j.id and a.open = 1
where j.state <> 'ended' and j.provider = ? and coalesce(?, j.model) = j.model;

-- jobs_of: jobs of an experiment, those that have ended only when asked for, with what of them is open
select j.id, j.owner, j.provider, j.deployment, j.model, j.state, j.remote, j.detail, j.at, j.submitted, count(a.id),
       coalesce(sum(a.need_nanos), 0)
from job j join owner o on o.id = j.owner left join attempt a on a.job = j.id and a.open = 1
where o.experiment = ? and (? or j.state <> 'ended') group by j.id order by j.id;

-- job_closed: closed attempts of each job of an experiment
select a.job, count(*) from attempt a join account c on c.id = a.account
where a.job is not null and a.open = 0 and c.experiment = ? group by a.job;

-- job_owner: state, provider and provider's id of a job of an experiment, and whether its process has ended
select j.state, j.provider, j.remote, o.closed is not null
from job j join owner o on o.id = j.owner where j.id = ? and o.experiment = ?;

-- open_jobs: experiment, provider and process of each job that has not ended
select o.experiment, j.provider, j.owner
from job j indexed by job_open join owner o on o.id = j.owner where j.state <> 'ended' order by j.id;

-- add_idle: waiting adds up over an experiment's life
insert into idle (experiment, cause, seconds) values (?, ?, ?)
on conflict (experiment, cause) do update set seconds = seconds + excluded.seconds;

-- add_lane_time: and so does the time of its lanes
insert into lane_time (experiment, lane, cause, seconds) values (?, ?, ?, ?)
on conflict (experiment, lane, cause) do update set seconds = seconds + excluded.seconds;

-- last_words: what a process last said of itself
select document from progress where owner = ?;

-- put_progress: what a process says of itself
insert into progress (owner, at, document) values (?, ?, ?)
on conflict (owner) do update set at = excluded.at, document = excluded.document;

-- put_pin: the digest of a file at first use
insert into pin (experiment, file, digest, at, text) values (?, ?, ?, ?, ?)
on conflict (experiment, file) do update set digest = excluded.digest, at = excluded.at, text = excluded.text;

-- last_plan: the newest plan of an experiment
select digest, files from plan where experiment = ? order by id desc limit 1;

-- new_plan: a plan that differs from the last
insert into plan (experiment, digest, files, at) values (?, ?, ?, ?);

-- kept: a reply without body and vector; its account first; its kind only where there is no text: else no row of a request is read
select a.account, p.attempt, case when p.text = '' then r.kind end, p.finish, p.finish_raw, p.input_fresh, p.cache_read, p.cache_write,
       p.output_visible, p.reasoning, p.cost, p.reported_cost, p.input_cut, p.served_model, p.fingerprint,
       p.raw_digest, p.text, p.cache_write_1h, p.reported_tokens, p.thoughts
from request r
join reply p on p.request = r.id
join attempt a on a.id = p.attempt
where r.key = ?;

-- kept_among: the same of several requests, their keys in the place of the marks; behind them the key of each
select a.account, p.attempt, case when p.text = '' then r.kind end, p.finish, p.finish_raw, p.input_fresh, p.cache_read, p.cache_write,
       p.output_visible, p.reasoning, p.cost, p.reported_cost, p.input_cut, p.served_model, p.fingerprint,
       p.raw_digest, p.text, p.cache_write_1h, p.reported_tokens, p.thoughts, r.key
from (values :marks) asked
cross join request r on r.key = asked.column1
join reply p on p.request = r.id
join attempt a on a.id = p.attempt;

-- experiment_of: the experiment of an account
select experiment from account where id = ?;

-- lost_reason: why a request was given up
select l.reason from request r join lost l on l.request = r.id where r.key = ?;

-- is_open: whether any process has an open attempt for a key
select 1 from request r join carried c on c.request = r.id and c.open = 1 where r.key = ?;

-- spend: dollars by experiment and condition of a budget, or of any budget for one experiment
select budget, experiment, condition, sum(settled_nanos), sum(forfeited_nanos), sum(held_nanos), sum(tries)
from account where budget = ? or experiment = ?
group by budget, experiment, condition;

-- idle_of: waiting of an experiment
select cause, seconds from idle where experiment = ?;

-- lane_time_of: slot-seconds of the lanes of an experiment
select lane, cause, seconds from lane_time where experiment = ? order by lane, cause;

-- put_stand: how an experiment stood when its last run ended
insert into stand (experiment, at, rests_on, document) values (?, ?, ?, ?)
on conflict (experiment) do update set at = excluded.at, rests_on = excluded.rests_on, document = excluded.document;

-- stand_of: the same, read
select at, rests_on, document from stand where experiment = ?;

-- stand_marks: what changes where the cells of an experiment may stand otherwise: what was escalated, the ledger, what was given up
select (select coalesce(max(id), 0) from event where kind = 'escalate' and ?1 in (subject, experiment)),
       (select coalesce(max(id), 0) from entry), (select count(*) from lost), (select coalesce(sum(at), 0.0) from lost);

-- raw_reply: body of a reply
select p.raw from request r join reply p on p.request = r.id where r.key = ?;

-- vector_of: dimension and vector of a key
select v.dim, v.data from request r join vector v on v.request = r.id where r.key = ?;

-- columns_attempts: attempts with their leaf
select a.id, a.owner, c.budget, c.experiment, c.stage, c.condition, c.provider, c.day, a.model, a.requests,
       a.need_nanos, a.need_calls, a.need_tokens, a.need_gpu_ms, a.tokens_expected, a.tokens_actual, a.bound_by,
       a.at, a.closed_at, a.open, a.sent, a.status, a.cause, a.billable, a.detail, a.served_by, a.latency_ms, a.job
from attempt a join account c on c.id = a.account
where ?1 is null or c.experiment = ?1 order by a.id;

-- columns_entries: the ledger with the leaf of each attempt
select e.id, e.attempt, e.kind, e.nanos, e.calls, e.tokens, e.gpu_ms, e.at, e.document,
       c.budget, c.experiment, c.stage, c.condition, c.provider, c.day
from entry e join attempt a on a.id = e.attempt join account c on c.id = a.account
where ?1 is null or c.experiment = ?1 order by e.id;

-- columns_replies: replies without text, body and vector; the experiment is the one that bought them
select r.key, r.kind, p.attempt, c.experiment, p.at, p.finish, p.finish_raw, p.input_fresh, p.cache_read, p.cache_write,
       p.output_visible, p.reasoning, p.cost, p.reported_cost, p.input_cut, p.served_model, p.fingerprint, p.raw_digest,
       p.cache_write_1h, p.reported_tokens
from reply p join request r on r.id = p.request join attempt a on a.id = p.attempt join account c on c.id = a.account
where ?1 is null or c.experiment = ?1 order by p.request;

-- columns_texts: the text of each reply
select r.key, p.text
from reply p join request r on r.id = p.request join attempt a on a.id = p.attempt join account c on c.id = a.account
where ?1 is null or c.experiment = ?1 order by p.request;

-- columns_carried: which attempt carried which request
select k.attempt, r.key, k.open
from carried k join request r on r.id = k.request join attempt a on a.id = k.attempt join account c on c.id = a.account
where ?1 is null or c.experiment = ?1 order by k.attempt, k.request;

-- columns_accounts: every leaf with its balances
select id, budget, experiment, stage, condition, provider, day,
       settled_nanos, settled_calls, settled_tokens, settled_gpu_ms,
       forfeited_nanos, forfeited_calls, forfeited_tokens, forfeited_gpu_ms,
       held_nanos, held_calls, held_tokens, held_gpu_ms, tries
from account where ?1 is null or experiment = ?1 order by id;

-- columns_events: what happened; its subject may be an experiment, a condition, a budget, a lane or a provider
select id, at, kind, subject, detail, experiment from event
where ?1 is null or subject = ?1 or experiment = ?1 order by id;

-- columns_requests: requests without their bodies
select r.key, r.kind, r.deployment, r.adapter, r.draw from request r
where ?1 is null or exists (
  select 1 from carried k join attempt a on a.id = k.attempt join account c on c.id = a.account
  where k.request = r.id and c.experiment = ?1)
order by r.id;

-- columns_lost: requests that were given up
select r.key, l.reason, l.at from lost l join request r on r.id = l.request where ?1 is null or 1 order by l.request;

-- known: every key that has a reply
select r.key from reply p join request r on r.id = p.request;

-- canonical: the canonical JSON of a key
select body from request where key = ?;

-- keys_between: keys in a range, for prefixes
select key from request where key >= ? and key <= ? order by key limit ?;

-- progress_of: the last words of the processes of an experiment that have not ended
select o.id, p.at, p.document from owner o join progress p on p.owner = o.id
where o.experiment = ? and o.closed is null order by o.id;

-- plans_of: plans of an experiment, oldest first
select digest, files, at from plan where experiment = ? order by id;

-- pinned_texts: the texts of an experiment's files as they were pinned
select file, text from pin where experiment = ? and text is not null order by file;

-- pins_of: pinned digests of an experiment
select file, digest from pin where experiment = ? order by file;

-- seals_of: seals of an experiment, oldest first
select id, experiment, at, entry, attempt, digest, parts, stated, reason from seal where experiment = ? order by id;

-- experiments: every experiment that has run, been planned or sealed here
select experiment from owner union select experiment from plan union select experiment from seal order by 1;

-- open_of: open attempts of an experiment
select count(*) from attempt a join account c on c.id = a.account where a.open = 1 and c.experiment = ?;

-- last_entry: the last entry and attempt of an experiment
select coalesce(max(e.id), 0), coalesce(max(e.attempt), 0)
from entry e join attempt a on a.id = e.attempt join account c on c.id = a.account where c.experiment = ?;

-- later_entries: entries of an experiment after one
select count(*) from entry e join attempt a on a.id = e.attempt join account c on c.id = a.account
where c.experiment = ? and e.id > ?;

-- has_reply: whether a key has a reply
select 1 from request r join reply p on p.request = r.id where r.key = ?;

-- seal_reply: all that a seal covers of a key; body and vector after the columns, and then what version 1 did not have
select r.body, r.kind, r.deployment, r.adapter, r.draw, p.attempt, p.at, p.finish, p.finish_raw, p.input_fresh, p.cache_read,
       p.cache_write, p.output_visible, p.reasoning, p.cost, p.reported_cost, p.input_cut, p.served_model, p.fingerprint,
       p.raw_digest, p.text, p.raw, v.data, p.cache_write_1h, p.reported_tokens, p.thoughts
from request r join reply p on p.request = r.id left join vector v on v.request = r.id
where r.key = ?;

-- seal_entries: all that a seal covers of the ledger of an experiment, up to an entry
select e.id, e.attempt, e.kind, e.nanos, e.calls, e.tokens, e.gpu_ms, e.at, e.document,
       c.budget, c.experiment, c.stage, c.condition, c.provider, c.day, a.model, a.requests, a.need_nanos, a.need_calls,
       a.need_tokens, a.need_gpu_ms, a.bound_by, a.at, a.open, a.sent, a.closed_at, a.status, a.cause, a.billable, a.detail, a.served_by,
       a.latency_ms
from entry e join attempt a on a.id = e.attempt join account c on c.id = a.account
where c.experiment = ? and e.id <= ? order by e.id;

-- new_seal: an experiment is fixed
insert into seal (experiment, at, entry, attempt, digest, parts, stated, reason) values (?, ?, ?, ?, ?, ?, ?, ?);

-- new_sealed: the rows that a part of a seal covers
insert into sealed (seal, part, ids, rows) values (?, ?, ?, ?);

-- sealed: the rows that a seal covers
select part, ids, rows from sealed where seal = ?;

-- entry_gaps: numbers before the last one that no entry has; rows are never deleted, so somebody took them out
select e.id - 1 from entry e where e.id > 1 and not exists (select 1 from entry b where b.id = e.id - 1) limit 1000;

-- attempt_gaps: the same of attempts
select a.id - 1 from attempt a where a.id > 1 and not exists (select 1 from attempt b where b.id = a.id - 1) limit 1000;

-- drop_records: the records of a foreign run that another takes the place of
delete from foreign_record where run = (select id from foreign_run where name = ?);

-- drop_run: and the run
delete from foreign_run where name = ?;

-- new_run: a run of another program
insert into foreign_run (at, name, format, files) values (?, ?, ?, ?);

-- new_record: one of its records
insert into foreign_record (run, number, kind, record) values (?, ?, ?, ?);

-- runs: all runs of other programs
select name, format, at from foreign_run order by name;

-- run: one of them
select id, format, files from foreign_run where name = ?;

-- records: its records
select kind, record from foreign_record where run = ? order by number;
