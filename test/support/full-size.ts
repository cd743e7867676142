/**
 * `ORDERED_OUTBOX_TEST_FULL=1` runs the random tests on memory at the size that the product promises; without it they are small enough for every day.
 * With real processes and Azurite: `npm run proof`.
 */
export const FULL_SIZE: boolean = process.env["ORDERED_OUTBOX_TEST_FULL"] === "1";
