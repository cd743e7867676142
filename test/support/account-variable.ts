/** A connection string here makes the contract suites run against a real account too. Its resources stay behind, named `t` and 16 digits. */
export const ACCOUNT_VARIABLE = "ORDERED_OUTBOX_TEST_CONNECTION_STRING";
