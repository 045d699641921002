-- cache.db, version 1: what is on disk. Run once, by migration m001; a later change is a further migration.
--
-- Conventions. Times are Unix seconds. Money is nanos (USD x 1e-9), integer. NULL means "not known", never 0.
-- Tables that are written on every call are rowid tables with as few indexes as their promises need.

-- A process that runs on this cache. It holds an OS lock on byte `id` of cache.db.lock for its life, taken before this
-- row is committed; an open owner whose lock can be had is dead.
create table owner (
  id         integer primary key,
  pid        integer not null,
  experiment text    not null,
  budget     text    not null,
  started    real    not null,
  closed     real                      -- NULL while it runs, and after a crash until it is recovered
) strict;
create index owner_open on owner(id) where closed is null;

-- That a process was asked to drain.
create table stop (
  owner integer primary key references owner(id),
  at    real not null
) strict;

-- What a running process last said about itself: one row each, for `status` in another terminal.
create table progress (
  owner    integer primary key references owner(id),
  at       real not null,
  document text not null               -- JSON
) strict;

-- Cell-seconds that an experiment waited, by cause, over its whole life.
create table idle (
  experiment text not null,
  cause      text not null,
  seconds    real not null,
  primary key (experiment, cause)
) strict;

-- The finest account. Balances are the fold of the entries of its attempts: a running sum, recomputed by audits.
create table account (
  id               integer primary key,
  budget           text not null,
  experiment       text not null,
  stage            text not null,
  condition        text not null,
  provider         text not null,
  day              text not null,      -- UTC date of the reservation, ISO
  settled_nanos    integer not null default 0 check (settled_nanos   >= 0),
  settled_calls    integer not null default 0 check (settled_calls   >= 0),
  settled_tokens   integer not null default 0 check (settled_tokens  >= 0),
  settled_gpu_ms   integer not null default 0 check (settled_gpu_ms  >= 0),
  forfeited_nanos  integer not null default 0 check (forfeited_nanos  >= 0),
  forfeited_calls  integer not null default 0 check (forfeited_calls  >= 0),
  forfeited_tokens integer not null default 0 check (forfeited_tokens >= 0),
  forfeited_gpu_ms integer not null default 0 check (forfeited_gpu_ms >= 0),
  held_nanos       integer not null default 0 check (held_nanos   >= 0),
  held_calls       integer not null default 0 check (held_calls   >= 0),
  held_tokens      integer not null default 0 check (held_tokens  >= 0),
  held_gpu_ms      integer not null default 0 check (held_gpu_ms  >= 0),
  tries            integer not null default 0 check (tries >= 0),   -- attempts whose bytes left, or may have
  unique (budget, experiment, stage, condition, provider, day)
) strict;

-- All that determines the bytes of a call. The key is the sha256 of the canonical JSON.
create table request (
  id         integer primary key,
  key        blob    not null unique check (length(key) = 32),
  kind       text    not null check (kind in ('chat', 'embed')),
  deployment text    not null,
  adapter    text    not null,
  draw       integer not null,
  body       blob    not null          -- canonical JSON, zlib
) strict;

-- One try: its reservation and how it ended. A retry is a new row.
create table attempt (
  id              integer primary key,
  owner           integer not null references owner(id),
  account         integer not null references account(id),
  model           text    not null,    -- the experiment's name of the model
  requests        integer not null,    -- how many it carries
  need_nanos      integer not null,
  need_calls      integer not null,
  need_tokens     integer not null,
  need_gpu_ms     integer not null,
  tokens_expected integer not null,    -- debited in rate windows until the settle says better
  tokens_actual   integer,
  bound_by        text    not null,    -- how the input bound was got
  at              real    not null,
  open            integer not null check (open in (0, 1)),
  sent            integer not null check (sent in (0, 1)),   -- 0 only where it is known that no byte left
  closed_at       real,
  status          integer,             -- HTTP
  cause           text,                -- of the failure; NULL where there was a reply
  billable        text,
  detail          text,
  served_by       text,                -- the provider's own id of the call
  latency_ms      integer,
  raw             blob                 -- body of a failure, zlib
) strict;
create index attempt_open on attempt(owner) where open = 1;

-- Which requests an attempt carries: one, or a batch of embedding requests.
create table carried (
  request integer not null references request(id),
  attempt integer not null references attempt(id),
  open    integer not null check (open in (0, 1)),
  primary key (request, attempt)
) strict, without rowid;
-- Nothing is bought twice: a request has at most one open attempt, in any process.
create unique index carried_open on carried(request) where open = 1;

-- The ledger. Rows are never changed and never deleted.
create table entry (
  id       integer primary key,
  attempt  integer not null references attempt(id),
  kind     text    not null check (kind in ('reserve', 'settle', 'void', 'forfeit', 'adjust')),
  nanos    integer not null check (nanos  >= 0),
  calls    integer not null check (calls  >= 0),
  tokens   integer not null check (tokens >= 0),
  gpu_ms   integer not null check (gpu_ms >= 0),
  at       real    not null,
  document text,
  check (kind <> 'adjust' or coalesce(length(document), 0) > 0)   -- an adjust cites its document
) strict;
-- Each reserve ends in at most one settle, void or forfeit.
create unique index entry_closing on entry(attempt) where kind in ('settle', 'void', 'forfeit');
create index entry_adjust on entry(attempt) where kind = 'adjust';
create trigger entry_update before update on entry begin select raise(abort, 'entries are never changed'); end;
create trigger entry_delete before delete on entry begin select raise(abort, 'entries are never deleted'); end;

-- One answer to a request. Columns that audits scan come first; text and body last.
create table reply (
  request        integer primary key references request(id),
  attempt        integer not null references attempt(id),
  at             real    not null,
  finish         text    not null,
  finish_raw     text,
  input_fresh    integer,              -- tokens, in disjoint buckets
  cache_read     integer,
  cache_write    integer,
  output_visible integer,
  reasoning      integer,
  cost           integer,              -- nanos, its share of the bill; NULL where the hold was forfeited
  reported_cost  integer,              -- nanos, what the provider itself said
  input_cut      integer,              -- 1: the embedder cut the text
  served_model   text,
  fingerprint    text,
  raw_digest     text    not null,     -- hex sha256 of the whole body as received
  text           text    not null,
  raw            blob    not null      -- the body as received, zlib; for embeddings the envelope without vectors
) strict;
create trigger reply_update before update on reply begin select raise(abort, 'replies are never changed'); end;
create trigger reply_delete before delete on reply begin select raise(abort, 'replies are never deleted'); end;

-- The vector of an embedding reply.
create table vector (
  request integer primary key references request(id),
  dim     integer not null check (dim > 0),
  data    blob    not null,            -- float32, little-endian
  check (length(data) = 4 * dim)
) strict;
create trigger vector_update before update on vector begin select raise(abort, 'vectors are never changed'); end;
create trigger vector_delete before delete on vector begin select raise(abort, 'vectors are never deleted'); end;

-- That a request was given up. A reply that arrives later outranks it.
create table lost (
  request integer primary key references request(id),
  reason  text not null,
  at      real not null
) strict;

-- What happened to a run: gates, stops, freezes and unfreezes, changed pins. A budget is frozen when the last of its
-- freeze and unfreeze rows is a freeze.
create table event (
  id      integer primary key,
  at      real not null,
  kind    text not null,
  subject text not null,
  detail  text not null
) strict;
create index event_freeze on event(subject, id) where kind in ('freeze', 'unfreeze');
create trigger event_update before update on event begin select raise(abort, 'events are never changed'); end;
create trigger event_delete before delete on event begin select raise(abort, 'events are never deleted'); end;

-- Each different plan that an experiment has had.
create table plan (
  id         integer primary key,
  experiment text not null,
  digest     text not null,
  files      text not null,            -- JSON: file -> digest
  at         real not null
) strict;

-- The digest that a data or prompt file had when the experiment first ran with it.
create table pin (
  experiment text not null,
  file       text not null,
  digest     text not null,
  at         real not null,
  text       text,                     -- of files that people write by hand, so that a change can be told by its line
  primary key (experiment, file)
) strict;

-- A finished experiment, fixed: see seal.py.
create table seal (
  id         integer primary key,
  experiment text    not null,
  at         real    not null,
  entry      integer not null,         -- the last entry that it covers
  attempt    integer not null,         -- the last attempt that it covers
  digest     text    not null,
  parts      text    not null,         -- JSON: part -> digest and count
  stated     text    not null,         -- JSON: plan digest, prices version, file digests, code version
  reason     text                      -- why it was sealed unfinished
) strict;
create trigger seal_update before update on seal begin select raise(abort, 'seals are never changed'); end;
create trigger seal_delete before delete on seal begin select raise(abort, 'seals are never deleted'); end;

-- The rows that a seal covers, so that `verify` can name the one that differs.
create table sealed (
  seal integer not null references seal(id),
  part text    not null,
  ids  blob    not null,               -- of the rows in order: keys, or 8-byte numbers
  rows blob    not null,               -- 8 bytes of the digest of each row, in the same order
  primary key (seal, part)
) strict;
