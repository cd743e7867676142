/** The app settings of the function app. Empty ones count as missing: deployments like to leave them behind. */
import { OutboxError } from "../../core/errors.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

export type AccountSetting =
  | { readonly connectionString: string }
  /** Signed in to with the managed identity; `clientId` for a user-assigned one. */
  | { readonly accountName: string; readonly clientId?: string };

const OWN_CONNECTION_STRING = "ORDERED_OUTBOX_CONNECTION_STRING";
const OWN_ACCOUNT = "ORDERED_OUTBOX_ACCOUNT";
/** The connection of the triggers, and of the host itself. */
export const CONNECTION = "AzureWebJobsStorage";

/**
 * The triggers listen to {@link CONNECTION}, so another account would never hear of its wake-ups.
 *
 * @throws `invalid-option` if nothing is set, or settings contradict each other
 */
export function accountSetting(environment: Environment): AccountSetting {
  const hostConnectionString = setting(environment, CONNECTION);
  const hostAccount = setting(environment, `${CONNECTION}__accountName`);
  const connectionString = sameOrEither(environment, OWN_CONNECTION_STRING, CONNECTION);
  const accountName = sameOrEither(environment, OWN_ACCOUNT, `${CONNECTION}__accountName`);
  if (connectionString !== undefined && accountName !== undefined) {
    const first = hostConnectionString === undefined ? OWN_CONNECTION_STRING : CONNECTION;
    const second = hostAccount === undefined ? OWN_ACCOUNT : `${CONNECTION}__accountName`;
    throw new OutboxError("invalid-option", `${first} and ${second} are both set: leave one of them out`);
  }
  if (connectionString !== undefined) return { connectionString };
  if (accountName === undefined) {
    throw new OutboxError("invalid-option", `no storage account: set ${CONNECTION}__accountName, or ${CONNECTION} for an emulator`);
  }
  const clientId = setting(environment, "ORDERED_OUTBOX_CLIENT_ID") ?? setting(environment, `${CONNECTION}__clientId`);
  return { accountName, ...(clientId === undefined ? {} : { clientId }) };
}

/** Whole digits, or undefined. Bounds are checked where the number is used. Throws `invalid-option`. */
export function numberSetting(environment: Environment, name: string): number | undefined {
  const text = setting(environment, name);
  if (text === undefined) return undefined;
  if (!/^[0-9]{1,10}$/.test(text)) throw new OutboxError("invalid-option", `the setting ${name} is no whole number`);
  return Number(text);
}

export function setting(environment: Environment, name: string): string | undefined {
  const text = environment[name];
  return text === undefined || text === "" ? undefined : text;
}

/** Their values are not told: one of them may be a secret. */
function sameOrEither(environment: Environment, own: string, host: string): string | undefined {
  const [first, second] = [setting(environment, own), setting(environment, host)];
  if (first !== undefined && second !== undefined && first !== second) {
    throw new OutboxError("invalid-option", `${own} and ${host} differ: the triggers listen to ${host}, so leave ${own} out`);
  }
  return first ?? second;
}
