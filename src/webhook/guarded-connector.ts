/**
 * Makes connections to receivers. The address that is connected to is the address that was checked: there is one lookup for a connection,
 * and the socket takes its result, so a name can't be public when it is checked and private when it is connected to.
 */
import { isIP, type LookupFunction } from "node:net";
import { buildConnector } from "undici";
import { refusedRange } from "./addresses.ts";

/** The receiver's address is not open to webhooks. Nothing was sent. */
export class RefusedAddressError extends Error {}

export interface ConnectorOptions {
  readonly allowPrivateAddresses: boolean;
  readonly lookup: LookupFunction;
  /** Certificates to trust instead of the system's. */
  readonly ca: string | undefined;
}

const OPT_IN = "allowPrivateAddresses would let the webhook connect to it";

/** By RFC 6761 these names are this machine, whether the resolver knows them or not. */
const LOCAL_NAME = /^(?:.*\.)?localhost\.?$/i;

/** @param signal ends the connections, also those that are still being made */
export function createGuardedConnector(options: ConnectorOptions, signal: AbortSignal): buildConnector.connector {
  const { allowPrivateAddresses, lookup, ca } = options;
  const connect = buildConnector({
    // The caller keeps the time of everything, and ends the connection by the signal.
    timeout: 0,
    signal,
    lookup: allowPrivateAddresses ? lookup : guardLookup(lookup),
    ...(ca === undefined ? {} : { ca }),
  });
  return (target, callback) => {
    const refusal = allowPrivateAddresses ? undefined : refusalWithoutLookup(target.hostname);
    if (refusal === undefined) connect(target, callback);
    else callback(refusal, null);
  };
}

/** A literal address is connected to without a lookup. */
function refusalWithoutLookup(hostname: string): RefusedAddressError | undefined {
  if (LOCAL_NAME.test(hostname)) return new RefusedAddressError(`${hostname} is this machine; ${OPT_IN}`);
  return isIP(hostname) === 0 ? undefined : refusalOf(hostname, hostname);
}

function refusalOf(hostname: string, address: string): RefusedAddressError | undefined {
  const range = refusedRange(address);
  if (range === undefined) return undefined;
  const which = hostname === address ? address : `${hostname} is ${address}, which`;
  return new RefusedAddressError(`${which} is not a public address (${range}); ${OPT_IN}`);
}

/** One address that is not public is enough: which of them is connected to is decided only later. */
function guardLookup(lookup: LookupFunction): LookupFunction {
  return (hostname, options, callback) =>
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, []);
      const addresses = found as Exclude<typeof found, string>;
      for (const { address } of addresses) {
        const refusal = refusalOf(hostname, address);
        if (refusal !== undefined) return callback(refusal, []);
      }
      const first = addresses[0];
      if (options.all === true || first === undefined) return callback(null, addresses);
      callback(null, first.address, first.family);
    });
}
