-- cache.db, version 2: what later columns hold. Run once, by migration m002, on a cache of version 1.

-- NULL in a reply that was written by version 1: see seal.py for why they stand after all others.
alter table reply add column cache_write_1h integer;      -- tokens
alter table reply add column reported_tokens integer;     -- the provider's own total
alter table reply add column thoughts text;               -- reasoning text of a reply that finished with no visible text

-- Requests that were handed to a provider's batch API as one. `token` names it there, so that a job of which the submit was
-- never answered can be asked for.
create table job (
  id         integer primary key,
  owner      integer not null references owner(id),   -- who fills, submits or collects it; another when that one has ended
  provider   text    not null,
  deployment text    not null,         -- what of it stands in request keys
  model      text    not null,         -- the experiment's name of the model
  token      text    not null unique,
  state      text    not null check (state in ('filling', 'submitting', 'submitted', 'ended')),
  remote     text,                     -- the provider's id of it
  at         real    not null,
  submitted  real,
  ended      real,
  detail     text,                     -- the provider's own word for how it stands, or why it ended
  check (state <> 'submitted' or remote is not null),
  check (state not in ('filling', 'submitting') or remote is null),
  check ((remote is null) = (submitted is null)),
  check ((state = 'ended') = (ended is not null))
) strict;
create index job_open on job(owner) where state <> 'ended';
create trigger job_update before update on job when old.state = 'ended' begin select raise(abort, 'a job ends once'); end;
create trigger job_delete before delete on job begin select raise(abort, 'jobs are never deleted'); end;

-- An attempt of a job carries one request.
alter table attempt add column job integer references job(id);
create index attempt_job on attempt(job) where open = 1 and job is not null;
