/**
 * Connections to one receiver, each used by one call at a time and kept for the next one only if the call ended in an orderly way.
 *
 * Not undici's pool: after a call that was given up it connects again, on nobody's behalf, and a connection that is being made when it is
 * closed holds the process open.
 */
import { Client } from "undici";
import { createGuardedConnector, type ConnectorOptions } from "./guarded-connector.ts";

export interface Connection {
  readonly client: Client;
  /** Ends it at once, also if it is still being made. */
  end(): Promise<void>;
}

export class Connections {
  readonly #origin: string;
  readonly #options: ConnectorOptions;
  readonly #open = new Set<Connection>();
  /** The last one used is used first: what is too many times out at the receiver or here, and holds no process open meanwhile. */
  readonly #idle: Connection[] = [];
  #closed = false;

  constructor(origin: string, options: ConnectorOptions) {
    this.#origin = origin;
    this.#options = options;
  }

  take(): Connection {
    if (this.#closed) throw new Error("the webhook is closed");
    const connection = this.#idle.pop() ?? this.#create();
    this.#open.add(connection);
    return connection;
  }

  /** After a call whose answer was read to its end. */
  keep(connection: Connection): void {
    if (this.#open.has(connection)) this.#idle.push(connection);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#idle.length = 0;
    await Promise.all(Array.from(this.#open, (connection) => connection.end()));
  }

  /** A dispatcher of its own: proxies that the environment names for the process don't apply, redirects are not followed, nothing is sent twice. */
  #create(): Connection {
    const ended = new AbortController();
    const client = new Client(this.#origin, {
      pipelining: 1,
      // A call has one deadline for everything; a second clock for a part of it would hide where it was stuck.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: createGuardedConnector(this.#options, ended.signal),
    });
    const connection: Connection = {
      client,
      end: async () => {
        this.#open.delete(connection);
        // In this order: a connection that is being made belongs to nobody by then, and its end is no error of a call.
        const destroyed = client.destroy();
        ended.abort();
        await destroyed;
      },
    };
    return connection;
  }
}
