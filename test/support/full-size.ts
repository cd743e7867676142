/** `ORDERED_OUTBOX_TEST_FULL=1` runs the random tests at the size that the product promises; without it they are small enough for every day. */
export const FULL_SIZE: boolean = process.env["ORDERED_OUTBOX_TEST_FULL"] === "1";
