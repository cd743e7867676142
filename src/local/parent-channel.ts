/** A child process' end of the IPC channel. */

/**
 * Connects this child to its parent and ends it as soon as the parent is gone, however that died. Ctrl-C reaches a whole terminal group;
 * children leave it to the parent, which stops them in order.
 *
 * @returns sends a message; resolves once it is handed over, so that an exit after it loses nothing
 */
export function connectToParent<Incoming, Outgoing extends object>(
  onMessage: (message: Incoming) => void,
): (message: Outgoing) => Promise<void> {
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => {});
  process.on("disconnect", () => process.exit(1));
  if (process.send === undefined || !process.connected) process.exit(1);
  process.on("message", (message) => onMessage(message as Incoming));
  return (message) =>
    new Promise((resolve, reject) => {
      process.send?.(message, undefined, undefined, (error) => (error === null ? resolve() : reject(error)));
    });
}
