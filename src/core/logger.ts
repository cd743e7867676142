/** Where the package reports what it does by itself. Messages name orders and ids, never payloads or secrets. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
