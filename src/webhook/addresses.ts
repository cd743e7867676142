import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

/** Azure's platform address: public by its range, but it is answered by the machine the process runs on, with its secrets. */
const PLATFORM_ADDRESS = "168.63.129.16";

/** By RFC 6761 these names are this machine, whether the resolver knows them or not. */
const LOCAL_NAME = /^(?:.*\.)?localhost\.?$/i;

/** Why a webhook may not connect to this host of a URL, for messages; undefined if it may, or if that takes a lookup. */
export function refusedHost(hostname: string): string | undefined {
  if (LOCAL_NAME.test(hostname)) return `${hostname} is this machine`;
  const address = hostname.replace(/^\[(.*)\]$/, "$1");
  return isIP(address) === 0 ? undefined : refusedAddress(address, address);
}

/** The same for an address that `hostname` has. */
export function refusedAddress(hostname: string, address: string): string | undefined {
  const range = refusedRange(address);
  if (range === undefined) return undefined;
  return `${hostname === address ? address : `${hostname} is ${address}, which`} is not a public address (${range})`;
}

/**
 * Why a webhook may not connect to this address, as a word for messages; undefined if it may. Only ordinary addresses of the internet are
 * open: whatever has a range of its own (private, loopback, link-local with the metadata services, carrier NAT, multicast, translated and
 * tunnelled IPv4 …) is not, and neither is a text that is no address.
 */
export function refusedRange(address: string): string | undefined {
  if (!ipaddr.isValid(address)) return "no address";
  // IPv4 mapped into IPv6 is connected to as IPv4, so it is judged as that.
  const parsed = ipaddr.process(address);
  const range = parsed.range();
  if (range !== "unicast") return range;
  if (parsed.toString() === PLATFORM_ADDRESS) return "platform";
  // Of IPv6 only 2000::/3 is given out; the rest, IPv4-compatible addresses like ::10.0.0.5 among it, counts as unicast in the library.
  return parsed instanceof ipaddr.IPv6 && parsed.parts[0]! >> 13 !== 1 ? "unassigned" : undefined;
}
