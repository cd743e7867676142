/** The logger of the child processes: warnings and errors go to stderr, which the parent prints between its progress lines. */
import { createConsoleLogger } from "../system/console-logger.ts";
import type { LogFields, Logger } from "../core/logger.ts";
import { PARTNER } from "./audited.ts";

const logger = createConsoleLogger();

export const childLogger: Logger = {
  ...logger,
  info() {},
  error(message, fields) {
    if (!isRefusal(fields)) logger.error(message, fields);
  },
};

/** The partner refuses deliveries on purpose; the run counts them. */
function isRefusal({ subscription, error }: LogFields = {}): boolean {
  return subscription === PARTNER && /^RetryableError: \S+ answered 503$/.test(String(error));
}
