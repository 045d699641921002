-- cache.db, version 2: what later columns hold. Run once, by migration m002, on a cache of version 1.

-- NULL in a reply that was written by version 1: see seal.py for why they stand after all others.
alter table reply add column cache_write_1h integer;      -- tokens
alter table reply add column reported_tokens integer;     -- the provider's own total
alter table reply add column thoughts text;               -- reasoning text of a reply that finished with no visible text
