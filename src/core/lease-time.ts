/** What the blob service takes as the duration of a lease that ends by itself; no lease of any worker is shorter or longer. */
export const MIN_LEASE_MS = 15_000;
export const MAX_LEASE_MS = 60_000;
