/** Where a worker is: the storage call, or the start or end of a handler, that comes next. */
export const AT = {
  idle: 0,
  head: 1,
  acquire: 2,
  list: 3,
  name: 4,
  create: 5,
  relayed: 6,
  remove: 7,
  clean: 8,
  count: 9,
  uncount: 10,
  start: 11,
  handle: 12,
  record: 13,
  more: 14,
  waiting: 15,
  archive: 16,
  release: 17,
  look: 18,
} as const;

/** Added to where a write of the progress or of a head's state was sent from: no answer came, so the blob is asked. */
export const CHECK = 20;
