/** Opening a port. A failure names the variables that say which one. */

export class ListenError extends Error {}

/** The server that `listen` returns; throws ListenError with a sentence when the address cannot be used. */
export function listenAt<Server>(
  { names, host, port }: { names: string; host: string; port: number },
  listen: () => Server,
): Server {
  try {
    return listen();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ListenError(`cannot listen at ${host}:${port} (${names}): ${reason}`, { cause });
  }
}
