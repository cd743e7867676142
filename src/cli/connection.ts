/** Which storage account a command works on. The secret comes from the environment only: arguments show in process lists and histories. */
import type { Command } from "commander";
import { OutboxError } from "../core/errors.ts";
import type { AccountOptions } from "../storage/connect.ts";

export interface ConnectionOptions {
  /** Name of the environment variable that holds the connection string. */
  readonly connectionStringEnv?: string;
  /** Name of the account, for a sign-in with the identity of the environment. */
  readonly account?: string;
  /** Beginning of the names of table, queue and containers. */
  readonly prefix?: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

const CONNECTION_STRING_ENV = "ORDERED_OUTBOX_CONNECTION_STRING";
const ACCOUNT_ENV = "ORDERED_OUTBOX_ACCOUNT";
/** What Azure Functions calls it. */
const FUNCTIONS_ENV = "AzureWebJobsStorage";

export function addConnectionOptions(command: Command): Command {
  return command
    .option(
      "--connection-string-env <name>",
      `environment variable with the connection string (default: ${CONNECTION_STRING_ENV} or ${FUNCTIONS_ENV})`,
    )
    .option("--account <name>", `storage account to sign in to with the identity of the environment (default: ${ACCOUNT_ENV})`)
    .option("--prefix <prefix>", "beginning of the names of table, queue and containers, for several outboxes in one account");
}

/**
 * An option wins over the environment, an explicit setting of ours over that of Azure Functions.
 *
 * @throws `invalid-option` if nothing or too much is said
 */
export async function resolveConnection(options: ConnectionOptions, environment: Environment): Promise<AccountOptions> {
  const { connectionStringEnv, account } = options;
  if (connectionStringEnv !== undefined && account !== undefined) {
    throw new OutboxError("invalid-option", "--connection-string-env and --account exclude each other");
  }
  if (connectionStringEnv !== undefined) {
    const connectionString = environment[connectionStringEnv];
    // The value of the option is not repeated: who mistakes it puts the connection string itself there.
    if (!connectionString) throw new OutboxError("invalid-option", "--connection-string-env names an environment variable that is not set");
    return { connectionString };
  }
  if (account !== undefined) return signIn(account);
  const connectionString = environment[CONNECTION_STRING_ENV];
  if (connectionString) return { connectionString };
  const accountName = environment[ACCOUNT_ENV];
  if (accountName) return signIn(accountName);
  const functionsConnectionString = environment[FUNCTIONS_ENV];
  if (functionsConnectionString) return { connectionString: functionsConnectionString };
  throw new OutboxError("invalid-option", `no storage account: set ${CONNECTION_STRING_ENV} or ${ACCOUNT_ENV}, or use --account`);
}

async function signIn(accountName: string): Promise<AccountOptions> {
  // Loaded only where it is needed: it takes longer than many a command.
  const { DefaultAzureCredential } = await import("@azure/identity");
  return { accountName, credential: new DefaultAzureCredential() };
}
