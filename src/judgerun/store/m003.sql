-- cache.db, version 3: what an unattended run leaves. Run once, by migration m003, on a cache of version 2.

-- Whose event it is: a condition's name alone does not say. NULL where it concerns no single experiment, and in rows of version 2.
alter table event add column experiment text;
create index event_set on event(subject, id) where kind = 'set';

-- What a person asks of a run is an event of kind "ask".
drop table stop;

-- Slot-seconds of the lanes of an experiment, by what they went to, over its whole life.
create table lane_time (
  experiment text not null,
  lane       text not null,
  cause      text not null,
  seconds    real not null,
  primary key (experiment, lane, cause)
) strict;

-- How an experiment stood when it was last surveyed: derived, and good only while the files and the rows that it names are as
-- they were.
create table stand (
  experiment text primary key,
  at         real not null,
  rests_on   text not null,            -- JSON: what must be unchanged
  document   text not null             -- JSON
) strict;
