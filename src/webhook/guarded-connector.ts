/**
 * Makes connections to receivers. The address that is connected to is the address that was checked: there is one lookup for a connection,
 * and the socket takes its result, so a name can't be public when it is checked and private when it is connected to.
 */
import type { LookupFunction } from "node:net";
import { buildConnector } from "undici";
import { refusedAddress, refusedHost } from "./addresses.ts";

/** The receiver's address is not open to webhooks. Nothing was sent. */
export class RefusedAddressError extends Error {}

export interface ConnectorOptions {
  readonly allowPrivateAddresses: boolean;
  /** What that is called where it is written, for messages. */
  readonly optIn: string;
  readonly lookup: LookupFunction;
  /** Certificates to trust instead of the system's. */
  readonly ca: string | undefined;
}

/** @param signal ends the connections, also those that are still being made */
export function createGuardedConnector(options: ConnectorOptions, signal: AbortSignal): buildConnector.connector {
  const { allowPrivateAddresses, optIn, lookup, ca } = options;
  const refusalOf = (what: string): RefusedAddressError => new RefusedAddressError(`${what}; only ${optIn} lets the webhook connect to it`);
  const connect = buildConnector({
    // The caller keeps the time of everything, and ends the connection by the signal.
    timeout: 0,
    signal,
    lookup: allowPrivateAddresses ? lookup : guardLookup(lookup, refusalOf),
    ...(ca === undefined ? {} : { ca }),
  });
  return (target, callback) => {
    // A literal address is connected to without a lookup.
    const refused = allowPrivateAddresses ? undefined : refusedHost(target.hostname);
    if (refused === undefined) connect(target, callback);
    else callback(refusalOf(refused), null);
  };
}

/** One address that is not public is enough: which of them is connected to is decided only later. */
function guardLookup(lookup: LookupFunction, refusalOf: (what: string) => RefusedAddressError): LookupFunction {
  return (hostname, options, callback) =>
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, []);
      const addresses = found as Exclude<typeof found, string>;
      for (const { address } of addresses) {
        const refused = refusedAddress(hostname, address);
        if (refused !== undefined) return callback(refusalOf(refused), []);
      }
      const first = addresses[0];
      if (options.all === true || first === undefined) return callback(null, addresses);
      callback(null, first.address, first.family);
    });
}
