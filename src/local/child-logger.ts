/** The logger of the child processes: warnings and errors go to stderr, which the parent prints between its progress lines. */
import { createConsoleLogger } from "../system/console-logger.ts";
import type { Logger } from "../core/logger.ts";

export const childLogger: Logger = { ...createConsoleLogger(), info() {} };
