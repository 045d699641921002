-- cache.db, version 4: runs of other programs. Run once, by migration m004, on a cache of version 3.

-- What was read of another program's files. Nothing of it was bought by this cache: no account knows it.
create table foreign_run (
  id     integer primary key,
  at     real not null,
  name   text not null unique,
  format text not null,
  files  text not null                 -- JSON: hex sha256 by name
) strict;

-- Its records, in the order in which they were read.
create table foreign_record (
  run    integer not null references foreign_run(id) on delete cascade,
  number integer not null,
  kind   text not null,                -- call text score tally total
  record text not null,                -- JSON
  primary key (run, number)
) strict, without rowid;
